"""A run's folders with trajectories whose every figure is known."""

from itertools import pairwise
from pathlib import Path

import pytest

from progpo.settings.advantages import AdvantageSettings
from progpo.settings.base import validate
from progpo.stages import advantages
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

#: An observation such as an environment could make up to break out of the page.
EVIL = '</script><img src=x onerror="document.title=1"><b id=evil>&lt;</b>\u2028<!--<script>'


def walk(group: int, trajectory: int, places: list[str], won: bool, kind: str = "walk") -> Trajectory:
    """Go through places; an action is invalid where the place stays as it is."""
    steps = [
        Step(
            observation=here,
            next_observation=there,
            action=f"go to {there}",
            valid=here != there,
            reward=float(won and number == len(places) - 2),
            terminated=won and number == len(places) - 2,
            truncated=not won and number == len(places) - 2,
        )
        for number, (here, there) in enumerate(pairwise(places))
    ]
    return Trajectory(group, trajectory, f"game-{group}", kind, float(won), float(won), steps)


#: Group 0: mixed. Group 1: all failed; one saw two new places in three steps, one none. Group 2: all succeeded.
#: Group 3: all failed, and saw as much.
WALKS = [
    walk(0, 0, ["start", "hall", "attic"], True),
    walk(0, 1, ["start", "hall", "start"], False),
    walk(1, 0, ["start", "cellar", EVIL, "cellar"], False, "seek"),
    walk(1, 1, ["start", "start", "start"], False, "seek"),
    walk(2, 0, ["start", "goal"], True),
    walk(2, 1, ["start", "goal"], True),
    walk(3, 0, ["start", "hall"], False, "seek"),
    walk(3, 1, ["start", "garret"], False, "seek"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Folder `seed-0` of an experiment: shared rollouts in two shards, the advantages of two arms, an evaluation."""
    home = tmp_path / "artifacts" / "tiny" / "seed-0"
    shards = []
    for number, groups in enumerate(((0, 1), (2, 3))):
        shards.append(home / "shared" / "iteration-001" / f"shard-{number:02d}.parquet")
        metadata = Metadata("rollout", policy="abcd", shard=number, shards=2, iteration=1, temperature=1.0)
        write_shard(shards[-1], [item for item in WALKS if item.group in groups], metadata)
    arms = {"grpo": {"base": "grpo"}, "progpo": {"base": "grpo", "progress": {"weight": 0.5, "schedule": "fixed"}}}
    for arm, settings in arms.items():
        folder = home / arm / "iteration-001"
        chosen = validate(AdvantageSettings, settings, "test")
        advantages.run(chosen, shards, folder / "advantages.parquet", folder / "advantages.json")
    evaluated = [walk(group, 0, ["start", "hall"], group == 1) for group in (0, 1)]
    write_shard(home / "warmup" / "evaluation" / "trajectories.parquet", evaluated, Metadata("evaluation"))
    return home
