"""A task list and a policy as stages leave them, and the rollout stage over a backend."""

from collections.abc import Callable
from pathlib import Path

import pytest

from progpo.settings.base import validate
from progpo.settings.experiment import RolloutStage
from progpo.stages import rollout

SAMPLING = {"tasks": 3, "group_size": 2, "shards": 1, "batch": 4, "temperature": 0.7}


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
