"""The stage `warmup`: files in, files out, and what a kill leaves."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import corridor
import numpy as np
import pytest
import torch
from pydantic import ValidationError

from envs import Exercise, Task, entry, registry
from progpo.artifacts import check, damage
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import load_policy
from progpo.settings.experiment import DemonstrateStage, WarmupStage
from progpo.stages.demonstrate import demonstrate
from progpo.stages.warmup import run
from progpo.trajectories.read import read_shard, to_trajectories
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

POLICY = {"hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64}
WARMUP = {"tokens": 6000, "batch_tokens": 300, "warmup_steps": 3, "save_every": 4, "precision": "float32"}


def settings(**changes: Any) -> WarmupStage:
    return WarmupStage.model_validate({"environment": "corridor", "policy": POLICY, "warmup": {**WARMUP, **changes}})


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory, tasks: list[Task]) -> Path:
    path = tmp_path_factory.mktemp("shown") / "demonstrations.parquet"
    noise = DemonstrateStage.model_validate({"environment": {"name": "corridor"}}).demonstrations
    shown = []
    for group, task in enumerate(tasks):
        rng = np.random.default_rng(group)
        expert = corridor.CorridorExpert(rng, "varied")
        shown.append(demonstrate(corridor.make(), expert, task, group, 1, noise, rng))
    write_shard(path, shown, Metadata(kind="demonstration"))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, demonstrations: Path) -> Path:
    """The folder of an uninterrupted warm-up."""
    folder = tmp_path_factory.mktemp("finished")
    run(settings(), [demonstrations], 1, folder / "policy" / "manifest.json", folder / "metrics.json")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All that counts of a policy folder and its metrics; the manifest's inputs lie elsewhere in each test."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != "manifest.json"]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


@contextmanager
def dying_at_step_ten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a warm-up interrupted after its tenth optimiser step."""
    from progpo.policy.optimisation import Optimisation

    step = Optimisation.step

    def dies(self: Optimisation, rate: float) -> float:
        if self.steps == 10:
            raise KeyboardInterrupt
        return step(self, rate)

    with monkeypatch.context() as patch:
        patch.setattr(Optimisation, "step", dies)
        yield


def test_policy_is_whole_and_tells_what_it_is(finished: Path) -> None:
    manifest = check(finished / "policy")
    policy = load_policy(finished / "policy" / "manifest.json")
    assert manifest.stage == "warmup"
    assert manifest.facts["fingerprint"] == policy.fingerprint
    assert manifest.facts["tokenizer_fingerprint"] == policy.tokenizer_fingerprint
    assert manifest.facts["layout"] == "append"
    assert manifest.facts["iteration"] == 0
    assert "../metrics.json" in manifest.files
    metrics = json.loads((finished / "metrics.json").read_text())
    assert metrics["tokens"] >= 6000
    assert metrics["curve"][0]["loss"] > metrics["final"]["loss"]
    # The optimiser's state does not travel into the updates.
    assert not list((finished / "policy").glob("optimizer*"))
    assert not list(finished.glob("*.progress"))


def test_same_seed_same_bits_other_seed_others(finished: Path, demonstrations: Path, tmp_path: Path) -> None:
    run(settings(), [demonstrations], 1, tmp_path / "policy", tmp_path / "metrics.json")
    assert contents(tmp_path) == contents(finished)
    run(settings(), [demonstrations], 2, tmp_path / "policy", tmp_path / "metrics.json")
    assert contents(tmp_path) != contents(finished)


CHILD = """
    import sys
    from pathlib import Path

    import corridor
    from progpo.settings import load_json
    from progpo.settings.experiment import WarmupStage
    from progpo.stages.warmup import run

    settings, demonstrations, folder = sys.argv[1:]
    output, metrics = Path(folder) / "policy", Path(folder) / "metrics.json"
    run(load_json(WarmupStage, settings), [Path(demonstrations)], 1, output, metrics)
"""


def test_killed_warmup_goes_on_to_the_same_bits(finished: Path, demonstrations: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), settings().model_dump_json(), str(demonstrations)]
    tests = Path(corridor.__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent), str(tests)])}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([*command, str(tmp_path / "run")], env=environment, stdout=log, stderr=log)
        state = tmp_path / "run" / "policy.progress" / "state.safetensors"
        while not state.exists():
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL, "finished before it was killed: nothing was tested"
    run(settings(), [demonstrations], 1, tmp_path / "run" / "policy", tmp_path / "run" / "metrics.json")
    assert contents(tmp_path / "run") == contents(finished)


def test_saved_state_is_taken_up_only_where_it_fits(
    finished: Path,
    demonstrations: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupted(seed: int) -> None:
        with dying_at_step_ten(monkeypatch):
            run(settings(), [demonstrations], seed, tmp_path / "policy", tmp_path / "metrics.json")

    with pytest.raises(KeyboardInterrupt):
        interrupted(seed=1)
    assert (tmp_path / "policy.progress").exists()
    assert not (tmp_path / "policy").exists()
    assert not (tmp_path / "metrics.json").exists()

    capsys.readouterr()
    run(settings(), [demonstrations], 1, tmp_path / "policy", tmp_path / "metrics.json")
    assert "warmup: goes on after" in capsys.readouterr().err
    assert contents(tmp_path) == contents(finished)

    with pytest.raises(KeyboardInterrupt):
        interrupted(seed=2)
    run(settings(), [demonstrations], 1, tmp_path / "policy", tmp_path / "metrics.json")
    assert "not taken up, removed" in capsys.readouterr().err
    assert contents(tmp_path) == contents(finished)


def test_exercises_come_first_and_once(
    finished: Path, demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from progpo.policy import recall

    told = settings(recall={"tokens": 900, "told_tokens": 0, "batch_tokens": 300})
    with pytest.raises(ProgpoError, match=r"warmup\.recall: the vocabulary holds 2 kinds"):
        run(told, [demonstrations], 1, tmp_path / "policy", tmp_path / "metrics.json")
    assert not list(tmp_path.iterdir())

    monkeypatch.setattr(recall, "LEAST_LISTED", 1)
    monkeypatch.setattr(recall, "MOST_LISTED", 1)
    run(told, [demonstrations], 1, tmp_path / "policy", tmp_path / "metrics.json")
    whole = contents(tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["recall"].keys() == {"bare"}
    assert 900 <= metrics["recall"]["bare"]["tokens"] < 1200
    assert metrics["tokens"] == json.loads((finished / "metrics.json").read_text())["tokens"]
    assert whole["policy/model.safetensors"] != contents(finished)["policy/model.safetensors"]

    again = tmp_path / "again"
    with dying_at_step_ten(monkeypatch), pytest.raises(KeyboardInterrupt):
        run(told, [demonstrations], 1, again / "policy", again / "metrics.json")
    run(told, [demonstrations], 1, again / "policy", again / "metrics.json")
    assert contents(again) == whole


def test_exercises_in_sentences_follow_where_the_environment_has_some(
    finished: Path, demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from progpo.policy import recall

    monkeypatch.setattr(recall, "LEAST_LISTED", 1)
    monkeypatch.setattr(recall, "MOST_LISTED", 1)
    told = {"tokens": 900, "told_tokens": 600, "batch_tokens": 300}
    with pytest.raises(ValidationError, match=r"told_tokens: environment 'corridor' has no exercises in its own"):
        settings(recall=told)

    handed: list[list[str]] = []

    def exercises(episodes: Iterable[list[str]]) -> Callable[[np.random.Generator], Exercise]:
        handed.extend(episodes)
        return lambda rng: Exercise(handed[0][0], (("", "left"), (" again", "right")))

    monkeypatch.setattr(corridor, "exercises", exercises, raising=False)
    changed = replace(entry("corridor"), exercises="corridor:exercises")
    monkeypatch.setattr("envs.registry._entries", {**registry._entries, "corridor": changed})
    run(settings(recall=told), [demonstrations], 1, tmp_path / "policy", tmp_path / "metrics.json")
    found = json.loads((tmp_path / "metrics.json").read_text())["recall"]
    assert list(found) == ["bare", "told"]
    assert 600 <= found["told"]["tokens"] < 900
    shown = to_trajectories(read_shard(demonstrations)[0])
    last = [item.steps[-1].next_observation for item in shown]
    assert [episode[:-1] for episode in handed] == [[step.observation for step in item.steps] for item in shown]
    assert [episode[-1] for episode in handed] == last


def test_pretrained_policy_is_warmed_up(pretrained: Path, demonstrations: Path, tmp_path: Path) -> None:
    stage = WarmupStage.model_validate(
        {
            "environment": "corridor",
            "policy": {"init": "pretrained", "path": str(pretrained)},
            "warmup": {**WARMUP, "batch_tokens": 2000},
        }
    )
    run(stage, [demonstrations], 0, tmp_path / "policy", tmp_path / "metrics.json")
    assert damage(tmp_path / "policy") == []
    policy = load_policy(tmp_path / "policy")
    assert policy.settings.resolved_layout == "window"
    assert torch.isfinite(policy.model.get_output_embeddings().weight).all()
    assert json.loads((tmp_path / "metrics.json").read_text())["final"]["observation_loss"] is None


def test_rollouts_are_not_demonstrations(demonstrations: Path, tmp_path: Path) -> None:
    from progpo.trajectories.read import read_shard, to_trajectories

    path = tmp_path / "shard.parquet"
    write_shard(path, to_trajectories(read_shard(demonstrations)[0]), Metadata(kind="rollout", policy="p"))
    with pytest.raises(ProgpoError, match="holds rollouts, not demonstrations"):
        run(settings(), [path], 0, tmp_path / "policy", tmp_path / "metrics.json")


def test_demonstrations_need_their_manifest_in_the_workflow(demonstrations: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match=r"manifest\.json: missing"):
        run(settings(), [demonstrations], 0, tmp_path / "policy", tmp_path / "metrics.json", strict=True)
