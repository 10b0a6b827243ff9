"""The whole estimation of one iteration: base, progress, penalty; the table and the metrics."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from progpo.advantages.base import Parts, estimate_base
from progpo.advantages.columns import Batch, make_batch
from progpo.advantages.metrics import describe
from progpo.advantages.progress import all_failed, coverage, progress_term, progress_weight
from progpo.advantages.table import BRANCHES, NONE, OUTCOME, PROGRESS, SCHEMA
from progpo.settings.advantages import AdvantageSettings


@dataclass(frozen=True)
class Advantages:
    """What an arm makes of an iteration's trajectories.

    Attributes:
        table: one row a step, of `table.SCHEMA`, sorted by (group, trajectory, step).
        metrics: JSON-able; see `metrics.describe`.
    """

    table: pa.Table
    metrics: dict[str, Any]


def estimate(table: pa.Table, settings: AdvantageSettings, seed: int = 0, iteration: int = 0) -> Advantages:
    """Estimate the advantages of one iteration's steps.

    All groups of the iteration must be there: the progress weight depends on the share that failed.

    Args:
        table: trajectories, one row a step, in any order: the columns of `columns.needed_columns(settings)`, and of
            `columns.REPORTED` those that there are.
        settings: the arm.
        seed, iteration: of the random streams; read by `progress.shuffle` alone.

    Raises:
        ProgpoError: see `columns.make_batch`.
    """
    batch = make_batch(table, settings)
    parts = estimate_base(batch, settings)
    covered = coverage(batch)
    branch = np.full(batch.of_group.count, OUTCOME)
    failed = all_failed(batch, settings)
    weight, applied = None, np.zeros(batch.of_group.count, bool)
    if settings.progress is not None:
        weight = progress_weight(batch, settings)
        term = progress_term(batch, settings, covered, seed, iteration)
        applied = failed | settings.progress.always_on
        branch = np.where(term.live & applied, PROGRESS, np.where(failed, NONE, OUTCOME))
        parts = _combine(batch, parts, term.parts, weight, failed, settings.progress.always_on)
    of_step = parts.trajectory[batch.of_trajectory.ids]
    relative = advantage = of_step + settings.step_weight * parts.step
    if settings.invalid_penalty:
        advantage = np.where(batch.valid, advantage, advantage - settings.invalid_penalty)
    names = pa.array(BRANCHES).take(pa.array(branch)).take(pa.array(batch.group_of_step))
    result = pa.table(
        [
            batch.group,
            batch.trajectory,
            batch.step,
            pa.nulls(len(advantage), pa.bool_()) if covered is None else covered.first_visit,
            pa.nulls(len(advantage), pa.float64()) if covered is None else covered.progress[batch.of_trajectory.ids],
            names,
            of_step,
            parts.step,
            advantage,
        ],
        schema=SCHEMA,
    )
    return Advantages(result, describe(batch, covered, weight, branch, failed, applied, relative))


def _combine(batch: Batch, base: Parts, term: Parts, weight: float, failed: np.ndarray, add: bool) -> Parts:
    """Put the weighted term in the base's place in all-failed groups; or (`add`) add it in all groups."""
    if add:
        return Parts(base.trajectory + weight * term.trajectory, base.step + weight * term.step)
    return Parts(
        np.where(failed[batch.of_group.ids], weight * term.trajectory, base.trajectory),
        np.where(failed[batch.group_of_step], weight * term.step, base.step),
    )
