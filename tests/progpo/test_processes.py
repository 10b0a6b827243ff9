"""Commands in several processes: started by the setting and by launchers, and what happens when one is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import corridor
import numpy as np
import psutil
import pytest
from safetensors.torch import load_file
from torch.testing import assert_close

from envs import Task
from progpo import processes
from progpo.errors import ProgpoError
from progpo.settings.experiment import DemonstrateStage
from progpo.stages.demonstrate import demonstrate
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

TESTS = Path(__file__).resolve().parents[1]
POLICY = {"hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64}
WARMUP = {"tokens": 6000, "batch_tokens": 300, "warmup_steps": 3, "save_every": 2, "precision": "float32"}
WARMUP["augment"] = False


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        monkeypatch.delenv(name, raising=False)


def test_a_launcher_s_number_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert processes.place() == processes.Place(0, 1)
    assert processes.must_launch(2)
    assert not processes.must_launch(1)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert str(processes.place()) == "process 1 of 2"
    assert not processes.place().main
    assert not processes.must_launch(2)
    assert not processes.must_launch(1)
    with pytest.raises(ProgpoError, match="processes: 3 by the settings, but a launcher has started 2"):
        processes.must_launch(3)


def test_another_strategy_of_the_launcher_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    processes.check_strategy("ddp")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    processes.check_strategy("fsdp")
    with pytest.raises(ProgpoError, match="asks for fsdp, the settings for ddp; set `strategy: fsdp`"):
        processes.check_strategy("ddp")
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    with pytest.raises(ProgpoError, match="DeepSpeed"):
        processes.check_strategy("fsdp")


def test_a_lost_process_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("[gloo/transport/tcp/pair.cc:537] Read error: Connection reset by peer")
    assert processes.explain(error) is None
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "lost another process" in processes.explain(error)
    assert processes.explain(RuntimeError("shapes differ")) is None


@pytest.fixture
def shown(tmp_path: Path, tasks: list[Task]) -> Path:
    """Demonstrations of the corridor."""
    noise = DemonstrateStage.model_validate({"environment": {"name": "corridor"}}).demonstrations
    found = []
    for group, task in enumerate(tasks):
        rng = np.random.default_rng(group)
        expert = corridor.CorridorExpert(rng, "varied")
        found.append(demonstrate(corridor.make(), expert, task, group, 1, noise, rng))
    path = tmp_path / "demonstrations.parquet"
    write_shard(path, found, Metadata(kind="demonstration"))
    return path


def command(demonstrations: Path, folder: Path, **changes: Any) -> list[str]:
    """The arguments of a warm-up."""
    settings = {"policy": POLICY, "warmup": {**WARMUP, **changes}}
    return [
        *("warmup", str(demonstrations), "--settings", json.dumps(settings), "--seed", "1"),
        *("--output", str(folder / "policy"), "--metrics", str(folder / "metrics.json")),
    ]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}", "OMP_NUM_THREADS": "1"}


def rank(number: int, launcher: int) -> psutil.Process | None:
    """Return the process of a rank, as soon as it is there."""
    for child in psutil.Process(launcher).children(recursive=True):
        with suppress(psutil.Error):
            if child.environ().get("RANK") == str(number):
                return child
    return None


@pytest.mark.slow
def test_a_killed_process_ends_the_job_and_a_launcher_takes_it_up(shown: Path, tmp_path: Path) -> None:
    # Twenty steps, sharded between two processes; the second is killed once a state has been saved.
    arguments = command(shown, tmp_path / "two", processes=2, strategy="fsdp")
    job = subprocess.Popen(
        [sys.executable, "-m", "progpo", *arguments], env=environment(), stderr=subprocess.PIPE, text=True
    )
    state = tmp_path / "two" / "policy.progress" / "state.safetensors"
    second = None
    while second is None or not state.exists():
        assert job.poll() is None, job.stderr.read()
        # Sought before it is to be killed: there is little time between a state and the end.
        second = second or rank(1, job.pid)
        time.sleep(0.002 if second else 0.1)
    second.send_signal(signal.SIGKILL)
    _, told = job.communicate(timeout=300)
    assert job.returncode == 1
    assert "process 1 of 2 was ended by SIGKILL" in told
    assert "Traceback" not in told
    assert sorted(item.name for item in (tmp_path / "two").iterdir()) == ["policy.progress"]
    # The same under accelerate's launcher goes on from there, to what one process makes.
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launcher += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    done = subprocess.run(
        [*launcher, "-m", "progpo", *arguments], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "goes on after" in done.stderr
    subprocess.run(
        [sys.executable, "-m", "progpo", *command(shown, tmp_path / "one")],
        env=environment(),
        capture_output=True,
        check=True,
    )
    weights = [load_file(tmp_path / name / "policy" / "model.safetensors") for name in ("one", "two")]
    assert weights[0].keys() == weights[1].keys()
    for name, item in weights[0].items():
        assert_close(weights[1][name], item, rtol=1e-2, atol=2e-4, msg=name)
    metrics = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("one", "two")]
    assert metrics[1]["final"]["loss"] == pytest.approx(metrics[0]["final"]["loss"], rel=1e-3)


@pytest.mark.slow
def test_what_a_process_refuses_is_the_command_s_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "progpo", *command(tmp_path / "none.parquet", tmp_path, processes=2)],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "none.parquet" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
