"""ProGPO (arXiv 2607.22724): where all trajectories of a group failed, they are told apart by what they explored.

The trajectory form and its constants are the ones on which public re-implementations agree; the step form reads the
abstract's "trajectories or steps".
"""

from dataclasses import dataclass

import numpy as np

from progpo.advantages.base import Parts
from progpo.advantages.columns import Batch, pair
from progpo.advantages.partition import Partition, to_go
from progpo.seeds import stream
from progpo.settings.advantages import AdvantageSettings

#: An outcome closer to zero is a failure.
FAILED = 1e-3
#: A score (or, for metrics without scores, an outcome) from here on is a success.
SUCCESS = 1 - 1e-3
#: Coverage with a smaller standard deviation tells nothing apart.
DEGENERATE = 1e-4


@dataclass(frozen=True)
class Coverage:
    """What was seen for the first time.

    Attributes:
        first_visit: (S,) bool: the action led to what the trajectory had not seen before.
        progress: (N,) share of such actions.
    """

    first_visit: np.ndarray
    progress: np.ndarray


@dataclass(frozen=True)
class Term:
    """The progress term, before its weight.

    Attributes:
        parts: for the trajectories and for the steps; 0 where not live.
        live: (G,) groups with a live part.
    """

    parts: Parts
    live: np.ndarray


def coverage(batch: Batch) -> Coverage | None:
    """Count first visits: v[i,t] = 1 if what is there after action t is in nothing before actions 0..t.

    The start counts as visited. Returns None where the columns are not there.
    """
    if batch.there is None:
        return None
    trajectory = batch.of_trajectory.ids
    places = Partition.of(np.concatenate([pair(trajectory, batch.here), pair(trajectory, batch.there)]))
    here, there = np.split(places.ids, 2)
    first_seen = np.full(places.count, np.iinfo(np.int32).max)
    np.minimum.at(first_seen, here, batch.step)
    first_visit = first_seen[there] > batch.step
    return Coverage(first_visit, batch.of_trajectory.total(first_visit) / batch.of_trajectory.sizes)


def all_failed(batch: Batch, settings: AdvantageSettings) -> np.ndarray:
    """(G,) whether every trajectory of the group failed: judged on the outcome alone, or on success by its gate."""
    if settings.progress is not None and settings.progress.gate == "success":
        return batch.of_group.largest(batch.score) < SUCCESS
    return batch.of_group.largest(np.abs(batch.outcome)) < FAILED


def progress_weight(batch: Batch, settings: AdvantageSettings) -> float:
    """Return lambda: the weight, times the share of all-failed groups if it is so scheduled."""
    progress = settings.progress
    if progress.schedule == "fixed" or progress.always_on:
        return progress.weight
    return progress.weight * float(all_failed(batch, settings).mean())


def progress_term(batch: Batch, settings: AdvantageSettings, covered: Coverage, seed: int, iteration: int) -> Term:
    """Relate coverage inside each group (trajectory level) and each anchor group (step level).

    Args:
        seed, iteration: of the streams that shuffle.
    """
    progress = settings.progress
    trajectory, step = np.zeros(batch.of_trajectory.count), np.zeros(len(batch.step))
    live = np.zeros(batch.of_group.count, bool)
    if progress.level in ("trajectory", "both"):
        values = shuffled(batch, covered.progress, seed, iteration) if progress.shuffle else covered.progress
        trajectory, alive = _relative(batch.of_group, values)
        live |= alive
    if progress.level in ("step", "both"):
        explored = to_go(covered.first_visit, batch.remaining, settings.gamma)
        step, alive = _relative(batch.anchors, explored)
        live[batch.group_of_step[alive[batch.anchors.ids]]] = True
    return Term(Parts(trajectory, step), live)


def shuffled(batch: Batch, progress: np.ndarray, seed: int, iteration: int) -> np.ndarray:
    """Permute the trajectories' coverage inside each group, each group by its own stream."""
    permuted = np.empty_like(progress)
    ends = np.cumsum(batch.of_group.sizes)
    numbers = batch.group[batch.step == 0][ends - 1]
    for number, end, size in zip(numbers, ends, batch.of_group.sizes, strict=True):
        order = stream("shuffle", seed, iteration, int(number) & 0xFFFFFFFF).permutation(size)
        permuted[end - size : end] = progress[end - size : end][order]
    return permuted


def _relative(segments: Partition, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values relative to their segment, 0 in degenerate ones; and (segments,) which are not."""
    centred = segments.centred(values)
    deviation = segments.deviation(centred, ddof=0)
    alive = deviation >= DEGENERATE
    return np.where(alive[segments.ids], centred / np.where(alive, deviation, 1.0)[segments.ids], 0.0), alive
