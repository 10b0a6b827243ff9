"""What an iteration looked like, overall and by task type."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from progpo.advantages.base import SILENT
from progpo.advantages.columns import Batch
from progpo.advantages.progress import SUCCESS, Coverage
from progpo.advantages.table import NONE

#: A dropped group: task, task type, trajectories, successes.
Dropped = tuple[str, str, int, int]


def describe(
    batch: Batch,
    covered: Coverage | None,
    weight: float | None,
    branch: np.ndarray,
    failed: np.ndarray,
    applied: np.ndarray,
    advantage: np.ndarray,
) -> dict[str, Any]:
    """Return the metrics of one iteration, JSON-able; None where the columns for it were not there.

    Args:
        batch: the steps.
        covered: first visits.
        weight: lambda, or None without a progress section.
        branch: (G,) codes of `table.BRANCHES`.
        failed: (G,) groups that failed whole, by the arm's gate.
        applied: (G,) groups to which the progress term applies.
        advantage: (S,) before the penalty for invalid actions.

    Returns:
        progress_weight: the effective weight, lambda.
        groups, trajectories, steps: how many.
        failed_fraction, solved_fraction: shares of all-failed groups, and of those in which all succeeded.
        no_signal_fraction: share of groups in which every advantage is 0, but for the penalty for invalid actions.
        triggered_groups: groups to which the progress term applies; degenerate_groups: those with no live part.
        success_rate, mean_outcome: over trajectories, each counted once.
        mean_steps: of a trajectory.
        valid_action_rate, first_visit_rate: over steps.
        cut_prompts: prompts that left out steps for want of room; null where prompts are no windows.
        mean_anchor_size: steps of an anchor group (steps of one group with one observation), on average.
        singleton_share: share of anchor groups that are of one step.
        by_task_type: the same without progress_weight, for each.
    """
    groups = np.ones(batch.of_group.count, bool)
    silent = np.ones(batch.of_group.count, bool)
    silent[batch.group_of_step[np.abs(advantage) > SILENT]] = False
    metrics = {"progress_weight": weight, **_of(batch, covered, branch, failed, applied, silent, groups)}
    first = np.cumsum(batch.of_group.sizes) - batch.of_group.sizes
    kinds = batch.task_type[first]
    metrics["by_task_type"] = {
        name: _of(batch, covered, branch, failed, applied, silent, kinds == code)
        for code, name in sorted(enumerate(batch.task_types), key=lambda item: item[1])
        if code in kinds
    }
    return metrics


def count_tasks(table: pa.Table, dropped: Iterable[Dropped] = ()) -> dict[str, Any]:
    """Return what was drawn, by task, the groups that dynamic sampling dropped included.

    Args:
        table: trajectories, one row a step; without a column `task` nothing can be said of the tasks.
        dropped: as in the shards' metadata (`progpo.trajectories.schema`).

    Returns:
        tasks_by_id: of each task its type, and its episodes and successes.
        drawn_groups: all of them; dropped_groups: those that were replaced, dropped_solved: for success.
        drawn_success_rate: over the trajectories of all drawn groups: what the policy can do, where dropping its
            successes would belittle it.
    """
    dropped = list(dropped)
    starts = np.flatnonzero(table["step"].to_numpy() == 0)
    result = table["score" if "score" in table.column_names else "outcome"].to_numpy()[starts] >= SUCCESS
    groups = len(np.unique(table["group"].to_numpy()))
    episodes = len(starts) + sum(count for _, _, count, _ in dropped)
    successes = int(result.sum()) + sum(count for _, _, _, count in dropped)
    tasks: dict[str, dict[str, Any]] = {}

    def add(task: str, kind: str, episodes: int, successes: int) -> None:
        entry = tasks.setdefault(task, {"task_type": kind, "episodes": 0, "successes": 0})
        entry["episodes"] += episodes
        entry["successes"] += successes

    if "task" in table.column_names and "task_type" in table.column_names:
        names, kinds = (table[name].take(pa.array(starts)).to_pylist() for name in ("task", "task_type"))
        for task, kind, success in zip(names, kinds, result.tolist(), strict=True):
            add(task, kind, 1, int(success))
        for item in dropped:
            add(*item)
    return {
        "tasks_by_id": tasks,
        "drawn_groups": groups + len(dropped),
        "dropped_groups": len(dropped),
        "dropped_solved": sum(episodes == successes for _, _, episodes, successes in dropped),
        "drawn_success_rate": successes / episodes,
    }


def _of(
    batch: Batch,
    covered: Coverage | None,
    branch: np.ndarray,
    failed: np.ndarray,
    applied: np.ndarray,
    silent: np.ndarray,
    groups: np.ndarray,
) -> dict[str, Any]:
    """Return the metrics of some of the groups: (G,) bool."""
    trajectories = groups[batch.of_group.ids]
    steps = groups[batch.group_of_step]
    success = (batch.outcome if batch.score is None else batch.score) >= SUCCESS
    solved = batch.of_group.total(success) == batch.of_group.sizes
    anchors = None
    if batch.anchors is not None:
        of_anchor = np.empty(batch.anchors.count, np.int64)
        of_anchor[batch.anchors.ids] = batch.group_of_step
        anchors = batch.anchors.sizes[groups[of_anchor]]
    return {
        "groups": int(groups.sum()),
        "trajectories": int(trajectories.sum()),
        "steps": int(steps.sum()),
        "failed_fraction": float(failed[groups].mean()),
        "solved_fraction": float(solved[groups].mean()),
        "no_signal_fraction": float(silent[groups].mean()),
        "triggered_groups": int(applied[groups].sum()),
        "degenerate_groups": int(((branch == NONE) & applied)[groups].sum()),
        "success_rate": float(success[trajectories].mean()),
        "mean_outcome": float(batch.outcome[trajectories].mean()),
        "mean_steps": float(steps.sum() / trajectories.sum()),
        "valid_action_rate": None if batch.valid is None else float(batch.valid[steps].mean()),
        "cut_prompts": None if batch.cut is None else int(batch.cut[steps].sum()),
        "first_visit_rate": None if covered is None else float(covered.first_visit[steps].mean()),
        "mean_anchor_size": None if anchors is None else float(anchors.mean()),
        "singleton_share": None if anchors is None else float((anchors == 1).mean()),
    }
