"""Train games divided by their length: short ones to be shown, long ones to be trained on and validated by.

A policy that was shown short tasks alone acts well enough to finish them, and fails whole groups of long ones: what
long-horizon training starts from.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from envs.alfworld.environment import make
from envs.alfworld.expert import SearchingExpert
from envs.alfworld.generate.streams import stream
from envs.alfworld.settings import DEMONSTRATION, VALIDATION, Horizon
from envs.base import Task

#: Steps after which a game counts as long, whatever the expert would still do.
MAX_STEPS = 100


def divide(tasks: Sequence[Task], horizon: Horizon, validation: int, seed: int, folder: Path) -> list[Task]:
    """Divide train tasks, within each family, by the steps that the expert takes.

    Args:
        tasks: the train tasks, in their order; tasks of equal length keep it.
        horizon: the shares of the shortest and of the longest games.
        validation: how many of the longest are set aside, evenly over the families as far as there are games.
        seed: of which are set aside.
        folder: that relative paths in the tasks are relative to.

    Returns:
        The tasks of the splits "demonstration", "train" and "validation", in this order; what lies between the shares
        is left out, but each family has at least one game to be shown and one to train on.
    """
    lengths = expert_steps(tasks, folder)
    families: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        families[task.task_type].append(task)
    shown: list[Task] = []
    queues: list[list[Task]] = []
    for name, members in families.items():
        members.sort(key=lambda task: lengths[task.id])
        short = max(1, round(horizon.demonstration * len(members)))
        long = min(max(1, round(horizon.train * len(members))), len(members) - short)
        shown += [replace(task, split=DEMONSTRATION) for task in members[:short]]
        order = stream("horizon", seed, name).permutation(long).tolist()
        queues.append([members[len(members) - long + index] for index in order])
    # One of each family after another; its last one stays to train on.
    turns = range(max(map(len, queues), default=0))
    picked = [queue[turn] for turn in turns for queue in queues if turn < len(queue) - 1][:validation]
    names = {task.id for task in picked}
    trained = [task for queue in queues for task in queue if task.id not in names]
    return [*shown, *trained, *(replace(task, split=VALIDATION) for task in picked)]


def expert_steps(tasks: Sequence[Task], folder: Path) -> dict[str, int]:
    """Return the steps that the expert takes for each task, by the task's id; `MAX_STEPS` where it takes more."""
    environment = make(max_steps=MAX_STEPS)
    found = {}
    for task in tasks:
        observation, info = environment.reset(options={**task.options, "game": folder / task.options["game"]})
        expert = SearchingExpert(np.random.default_rng(0))
        expert.reset(observation, info)
        steps, ended = 0, False
        while not ended:
            observation, _, terminated, truncated, info = environment.step(expert.act(observation, info))
            steps, ended = steps + 1, terminated or truncated
        found[task.id] = steps
    environment.close()
    return found
