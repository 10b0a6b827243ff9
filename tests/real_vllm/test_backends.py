"""The backends over vLLM itself (`make test-vllm`, in an environment that has it: docs/vllm.md)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import corridor
import pytest
import serving
import torch
from ports import free_ports
from safetensors.torch import save_file

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed in this environment (docs/vllm.md tells how)", allow_module_level=True)

from progpo import artifacts
from progpo.errors import ProgpoError
from progpo.policy.backends import open_backend
from progpo.policy.checkpoint import create_scratch, load_policy, save_files
from progpo.policy.play import Episode, play, play_with
from progpo.settings.base import validate
from progpo.settings.experiment import RolloutStage, TasksStage
from progpo.settings.stages import PolicySettings, RolloutSettings
from progpo.stages import rollout
from progpo.stages import tasks as tasks_stage
from progpo.tasks import load_tasks
from tests.pipeline.running import Run

#: Sooner ready: compiling takes longer than these tests.
EAGER = {"eager": True}
SAMPLING = {"backend": "vllm", "tasks": 6, "group_size": 4, "shards": 1, "batch": 8, "temperature": 0.7, "vllm": EAGER}
#: Log-probabilities may differ by so much in float32.
TOLERANCE = 1e-4


def make_policy(folder: Path, heads: int) -> None:
    tasks = load_tasks(folder / "tasks", "train")
    sizes = {"hidden_size": 64, "layers": 2, "heads": heads, "intermediate_size": 128}
    settings = PolicySettings(max_context_tokens=512, **sizes)
    place = folder / f"heads-{heads}"
    with artifacts.atomic_folder(place) as temporary:
        save_files(create_scratch(settings, corridor.texts(tasks), seed=3), temporary)
        # As in the folder of an updated policy.
        save_file({"exp_avg/model": torch.zeros(2)}, temporary / "optimizer.safetensors")
        artifacts.write_manifest(temporary, "warmup", {}, list(temporary.iterdir()), at=place)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    tasks_stage.run(validate(TasksStage, {"environment": "corridor", "tasks": {}}, "test"), folder / "tasks")
    # Heads of 32, which vLLM has attention for, and of 16, which it has not.
    for heads in (2, 4):
        make_policy(folder, heads)
    return folder


def sample(made: Path, output: Path, heads: int = 2, **sampling) -> Path:
    data = {"environment": {"name": "corridor", "max_steps": 6}, "rollout": {**SAMPLING, **sampling}}
    settings = validate(RolloutStage, data, "test")
    rollout.run(settings, made / "tasks", made / f"heads-{heads}", 5, 1, 0, output, strict=True)
    return output


@pytest.fixture(scope="module")
def shard(made, tmp_path_factory) -> Path:
    return sample(made, tmp_path_factory.mktemp("shards") / "shard.parquet")


def test_log_probabilities_are_those_of_whole_passes(made, shard, capsys):
    found = serving.trajectories(shard)
    gap = serving.deviation(load_policy(made / "heads-2", stock=True).model, found, 0.7)
    with capsys.disabled():
        print(f"\nlog-probabilities of {len(found)} trajectories differ by {gap:.1e} at most")
    assert gap < TOLERANCE
    facts = artifacts.read_manifest(shard).facts
    assert (facts["backend"], facts["dtype"]) == ("vllm", "float32")


def test_a_second_run_writes_the_same_bytes(made, shard, tmp_path):
    assert sample(made, tmp_path / "again.parquet").read_bytes() == shard.read_bytes()


def test_seeds_of_turns_are_taken(shard):
    found = [tuple(map(tuple, item)) for item in serving.tokens(shard)]
    assert len(set(found)) == len(found)


def test_greedy_it_plays_as_the_own_sampler_does(made):
    episodes = [Episode(group, 0, task) for group, task in enumerate(load_tasks(made / "tasks", "train"))]

    def make() -> corridor.Corridor:
        return corridor.make(max_steps=6)

    settings = RolloutSettings(backend="vllm", batch=4, vllm=EAGER)
    with open_backend(made / "heads-2", settings, 0.0, strict=True) as backend:
        found = play_with(backend, episodes, make, batch=4, seed=0, iteration=1)
    own = play(load_policy(made / "heads-2"), episodes, make, temperature=0, batch=4, seed=0, iteration=1)
    assert [[step.response_tokens for step in item.steps] for item in found] == [
        [step.response_tokens for step in item.steps] for item in own
    ]


def test_heads_that_it_has_no_attention_for_are_refused(made, tmp_path):
    with pytest.raises(ProgpoError, match="heads of size 16"):
        sample(made, tmp_path / "shard.parquet", heads=4)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def server(made, tmp_path_factory) -> Iterator[str]:
    """A server of vLLM that holds the policy."""
    (port,) = free_ports(1)
    options = ["--host=127.0.0.1", f"--port={port}", "--enforce-eager", "--dtype=float32", "--max-num-seqs=8"]
    options += ["--block-size=32", f"--kv-cache-memory-bytes={2**26}"]
    variables = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "progpo", "serve", str(made / "heads-2"), *options],
            env={**os.environ, **variables},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    yield f"http://127.0.0.1:{port}"
    process.terminate()
    process.wait(60)
    print(log.read_text()[-5000:])


def test_a_server_gives_the_same_rollouts(made, shard, server, tmp_path, capsys):
    endpoint = {"urls": [server], "wait": 1800}
    over = sample(made, tmp_path / "shard.parquet", backend="endpoint", endpoint=endpoint)
    found = serving.trajectories(over)
    gap = serving.deviation(load_policy(made / "heads-2", stock=True).model, found, 0.7)
    alike = sum(one == other for one, other in zip(serving.tokens(over), serving.tokens(shard), strict=True))
    with capsys.disabled():
        print(f"\nover the server: differ by {gap:.1e} at most; {alike} of {len(found)} as vLLM in process sampled")
    assert gap < TOLERANCE
    assert alike == len(found)


def test_a_server_of_another_policy_is_refused(made, server, tmp_path, shard):
    with pytest.raises(ProgpoError, match="under its fingerprint"):
        sample(made, tmp_path / "shard.parquet", heads=4, backend="endpoint", endpoint={"urls": [server]})
    assert list(tmp_path.iterdir()) == []


def test_the_pipeline_runs_on_it(tmp_path):
    run = Run(tmp_path)
    run.configure(
        {
            "iterations": 1,
            "arms": {"grpo": {"base": "grpo"}},
            "tasks": {"splits": {"train": 8, "valid_seen": 2, "valid_unseen": 2}},
            "policy": {"hidden_size": 64, "layers": 2, "heads": 2, "intermediate_size": 64},
            "rollout": {"backend": "vllm", "vllm": EAGER, "tasks": 2, "shards": 1},
            "evaluation": {"backend": "vllm", "vllm": EAGER},
        }
    )
    result = run()
    assert result.returncode == 0, result.stdout
    manifests = {path.parent.name: path for path in run.artifacts.rglob("*.parquet.manifest.json")}
    for name in ("iteration-001", "evaluation"):
        assert json.loads(manifests[name].read_text())["facts"]["backend"] == "vllm"
    update = json.loads(next(run.artifacts.glob("seed-0/grpo/iteration-001/update.json")).read_text())
    # The update computes the same log-probabilities that vLLM recorded.
    assert update["ratio_deviation"] < 1e-3
