"""A task list and a policy as stages leave them, and the rollout stage over a backend."""

from collections.abc import Callable
from pathlib import Path

import pytest

from progpo import artifacts
from progpo.policy.checkpoint import save_files
from progpo.settings.base import validate
from progpo.settings.experiment import RolloutStage, TasksStage
from progpo.stages import rollout
from progpo.stages import tasks as tasks_stage

SAMPLING = {"tasks": 3, "group_size": 2, "shards": 1, "batch": 4, "temperature": 0.7}


@pytest.fixture(scope="session")
def made(tmp_path_factory, scratch) -> Path:
    """A folder with tasks and a policy."""
    folder = tmp_path_factory.mktemp("made")
    tasks_stage.run(validate(TasksStage, {"environment": "corridor", "tasks": {}}, "test"), folder / "tasks")
    with artifacts.atomic_folder(folder / "policy") as place:
        save_files(scratch, place)
        # As in the folder of an updated policy.
        (place / "optimizer.safetensors").write_bytes(b"no weights")
        artifacts.write_manifest(place, "warmup", {}, list(place.iterdir()), at=folder / "policy")
    return folder


@pytest.fixture
def sample(made, tmp_path) -> Callable[..., Path]:
    """Runs the rollout stage with these settings; returns the shard."""

    def run(name: str, shard: int = 0, **sampling) -> Path:
        output = tmp_path / f"{name}.parquet"
        data = {"environment": {"name": "corridor", "max_steps": 3}, "rollout": {**SAMPLING, **sampling}}
        settings = validate(RolloutStage, data, "test")
        rollout.run(settings, made / "tasks", made / "policy", 5, 1, shard, output, strict=True)
        return output

    return run
