"""Which tasks an iteration samples, by what the arm's earlier iterations showed, and which groups are worth keeping.

Success on a task is estimated from the episodes seen so far, shrunk towards its type's: with many tasks and few
iterations most of what is known of a task is its type. Learnability is p (1 - p) (arXiv 2408.15099, section 4): a task
is worth most where success is as likely as failure, for an estimator that compares the trajectories of a group.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from envs import Task
from progpo.advantages.metrics import SUCCESS
from progpo.advantages.progress import FAILED
from progpo.errors import ProgpoError
from progpo.seeds import stream
from progpo.tasks import tasks_of_iteration
from progpo.trajectories.records import Trajectory

#: What an episode counts for, one iteration later: the policy that played it is no longer there.
DECAY = 0.9
#: Episodes that a type's success counts for, beside those of the task itself.
PRIOR = 4.0

Sampling = Literal["uniform", "learnable", "hard"]
History = Sequence[Mapping[str, Any]]


def estimate_success(tasks: Sequence[Task], history: History, iteration: int) -> np.ndarray:
    """Estimate the chance of success on each task: p = (s + PRIOR p_type) / (n + PRIOR), p_type = (s + 1) / (n + 2).

    Args:
        tasks: T of them.
        history: metrics of the arm's earlier iterations (`iteration`, `tasks_by_id`), in any order.
        iteration: for which; an episode of the one before counts 1, and `DECAY` times less for each one earlier.

    Returns:
        (T,) in (0, 1).

    Raises:
        ProgpoError: metrics of this or a later iteration, two of one, or metrics without tasks.
    """
    of_task: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
    of_type: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
    seen = set()
    try:
        # In the order of time, so that the order of arguments leaves no trace in the sums' rounding.
        for metrics in sorted(history, key=lambda metrics: metrics["iteration"]):
            number = metrics["iteration"]
            if number in seen or number >= iteration:
                raise ProgpoError(
                    f"history: metrics of iteration {number} {'twice' if number in seen else f'for {iteration}'}; give "
                    "those of the arm's earlier iterations, each once"
                )
            seen.add(number)
            for name, entry in metrics["tasks_by_id"].items():
                counts = DECAY ** (iteration - 1 - number) * np.array([entry["successes"], entry["episodes"]])
                of_task[name] += counts
                of_type[entry["task_type"]] += counts
    except (KeyError, TypeError) as error:
        raise ProgpoError(f"history: metrics without {error}; make them anew with `progpo advantages`") from None
    counts = np.array([of_task[task.id] for task in tasks])
    kinds = np.array([of_type[task.task_type] for task in tasks])
    of_kind = (kinds[:, 0] + 1) / (kinds[:, 1] + 2)
    return (counts[:, 0] + PRIOR * of_kind) / (counts[:, 1] + PRIOR)


def choose_tasks(
    tasks: Sequence[Task], sampling: Sampling, history: History, seed: int, iteration: int, count: int
) -> list[Task]:
    """Return the tasks whose groups an iteration samples.

    Weighted sampling is without replacement (Efraimidis and Spirakis 2006: the largest u ** (1 / weight)) as long as
    there are tasks. It depends on the arguments alone.

    Args:
        tasks: the train tasks, in the list's order.
        sampling: "uniform": `tasks_of_iteration`; "learnable": by p (1 - p); "hard": by 1 - p.
        history: as in `estimate_success`; with none (the first iteration) the tasks are those of "uniform".
        count: groups an iteration.
    """
    if sampling == "uniform" or not history:
        return tasks_of_iteration(tasks, seed, iteration, count)
    ranked = _ranking(tasks, sampling, history, "weighted", seed, iteration)
    return [tasks[ranked[place % len(ranked)]] for place in range(count)]


def replacements(
    tasks: Sequence[Task], chosen: Sequence[Task], sampling: Sampling, history: History, seed: int, iteration: int
) -> list[Task]:
    """Return the tasks that replace others in dynamic sampling, in order: those not chosen.

    Args:
        As in `choose_tasks`; `chosen` is what that returned.
    """
    taken = {task.id for task in chosen}
    left = [task for task in tasks if task.id not in taken]
    return [left[place] for place in _ranking(left, sampling, history, "replacements", seed, iteration)]


def _ranking(
    tasks: Sequence[Task], sampling: Sampling, history: History, purpose: str, seed: int, iteration: int
) -> list[int]:
    """Return the indices of the tasks in a random order in which those of more weight tend to come earlier."""
    weights = np.ones(len(tasks))
    if sampling != "uniform" and history:
        chance = estimate_success(tasks, history, iteration)
        weights = 1 - chance if sampling == "hard" else chance * (1 - chance)
    # log of u ** (1 / weight); u is never 0.
    # Not numpy's logarithm, whose last bit is another where the processor has wider instructions.
    drawn = stream(purpose, seed, iteration).random(len(tasks)).tolist()
    keys = np.array([math.log1p(-number) for number in drawn]) / weights
    return np.argsort(-keys, kind="stable").tolist()


def without_signal(group: Sequence[Trajectory], drop: Literal["solved", "flat"]) -> bool:
    """Return whether dynamic sampling drops a group: all succeeded, or ("flat") all outcomes are alike."""
    if drop == "solved":
        return all(item.score >= SUCCESS for item in group)
    outcomes = [item.outcome for item in group]
    return max(outcomes) - min(outcomes) < FAILED
