"""What is played: the first groups of an iteration, by a policy that was warmed up for a short while."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import envs
from progpo.policy.checkpoint import Policy, load_policy
from progpo.policy.play import Episode
from progpo.settings.base import validate
from progpo.settings.experiment import DemonstrateStage, TasksStage, WarmupStage
from progpo.stages import demonstrate, tasks, warmup
from progpo.tasks import load_tasks, tasks_of_iteration

#: Enough for a policy that mostly says what an action may be.
WARMUP_TOKENS = 400_000
GROUP = 8


@dataclass(frozen=True)
class Workload:
    """Episodes of at most `max_steps`, and who plays them: the policy as stages load it, and as transformers does."""

    policy: Policy
    stock: Policy
    episodes: Sequence[Episode]
    max_steps: int = 50

    @property
    def make_environment(self) -> Callable[[], Any]:
        """Makes an environment on the fast engine."""
        return lambda: envs.make("alfworld", engine="fast", max_steps=self.max_steps)


def make_workload(place: Path, policy: Path | None, games: Path | None, episodes: int, warmup_tokens: int) -> Workload:
    """Make (or load) tasks and policy, and list the episodes; each game is loaded once before."""
    if policy is None or games is None:
        policy, games = make_policy(place, warmup_tokens)
    chosen = tasks_of_iteration(load_tasks(games, "train"), seed=0, iteration=1, count=-(-episodes // GROUP))
    work = Workload(
        load_policy(policy, strict=False),
        load_policy(policy, strict=False, stock=True),
        [Episode(number // GROUP, number % GROUP, chosen[number // GROUP]) for number in range(episodes)],
    )
    environment = work.make_environment()
    for task in chosen:
        environment.reset(options=dict(task.options))
    return work


def make_policy(place: Path, tokens: int) -> tuple[Path, Path]:
    """Make tasks and warm a policy of the default size up on them; return the folders of policy and tasks."""
    games, shown, policy = place / "tasks", place / "demonstrations.parquet", place / "policy"
    tasks.run(validate(TasksStage, {"tasks": {}}, "benchmark"), games)
    demonstrate.run(DemonstrateStage(), games, shown, place / "demonstrations.json")
    settings = validate(WarmupStage, {"warmup": {"tokens": tokens}}, "benchmark")
    warmup.run(settings, [shown], 0, policy, place / "warmup.json")
    return policy, games
