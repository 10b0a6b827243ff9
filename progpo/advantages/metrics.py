"""What an iteration looked like, overall and by task type."""

from typing import Any

import numpy as np

from progpo.advantages.columns import Batch
from progpo.advantages.progress import Coverage, all_failed
from progpo.advantages.table import NONE

#: A score (or, without scores, an outcome) from here on is a success.
SUCCESS = 1 - 1e-3


def describe(
    batch: Batch, covered: Coverage | None, weight: float | None, branch: np.ndarray, applied: np.ndarray
) -> dict[str, Any]:
    """Return the metrics of one iteration, JSON-able; None where the columns for it were not there.

    Args:
        batch: the steps.
        covered: first visits.
        weight: lambda, or None without a progress section.
        branch: (G,) codes of `table.BRANCHES`.
        applied: (G,) groups to which the progress term applies.

    Returns:
        progress_weight: the effective weight, lambda.
        groups, trajectories, steps: how many.
        failed_fraction: share of all-failed groups.
        triggered_groups: groups to which the progress term applies; degenerate_groups: those with no live part.
        success_rate, mean_outcome: over trajectories, each counted once.
        mean_steps: of a trajectory.
        valid_action_rate, first_visit_rate: over steps.
        mean_anchor_size: steps of an anchor group (steps of one group with one observation), on average.
        singleton_share: share of anchor groups that are of one step.
        by_task_type: the same without progress_weight, for each.
    """
    groups = np.ones(batch.of_group.count, bool)
    metrics = {"progress_weight": weight, **_of(batch, covered, branch, applied, groups)}
    first = np.cumsum(batch.of_group.sizes) - batch.of_group.sizes
    kinds = batch.task_type[first]
    metrics["by_task_type"] = {
        name: _of(batch, covered, branch, applied, kinds == code)
        for code, name in sorted(enumerate(batch.task_types), key=lambda item: item[1])
        if code in kinds
    }
    return metrics


def _of(
    batch: Batch, covered: Coverage | None, branch: np.ndarray, applied: np.ndarray, groups: np.ndarray
) -> dict[str, Any]:
    """Return the metrics of some of the groups: (G,) bool."""
    trajectories = groups[batch.of_group.ids]
    steps = groups[batch.group_of_step]
    success = (batch.outcome if batch.score is None else batch.score) >= SUCCESS
    anchors = None
    if batch.anchors is not None:
        of_anchor = np.empty(batch.anchors.count, np.int64)
        of_anchor[batch.anchors.ids] = batch.group_of_step
        anchors = batch.anchors.sizes[groups[of_anchor]]
    return {
        "groups": int(groups.sum()),
        "trajectories": int(trajectories.sum()),
        "steps": int(steps.sum()),
        "failed_fraction": float(all_failed(batch)[groups].mean()),
        "triggered_groups": int(applied[groups].sum()),
        "degenerate_groups": int(((branch == NONE) & applied)[groups].sum()),
        "success_rate": float(success[trajectories].mean()),
        "mean_outcome": float(batch.outcome[trajectories].mean()),
        "mean_steps": float(steps.sum() / trajectories.sum()),
        "valid_action_rate": None if batch.valid is None else float(batch.valid[steps].mean()),
        "first_visit_rate": None if covered is None else float(covered.first_visit[steps].mean()),
        "mean_anchor_size": None if anchors is None else float(anchors.mean()),
        "singleton_share": None if anchors is None else float((anchors == 1).mean()),
    }
