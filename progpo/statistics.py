"""Intervals for reported rates and differences, and sums of curves."""

from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import NormalDist

import numpy as np

from progpo.seeds import stream

#: Random numbers drawn at once.
BLOCK = 1 << 20


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of a binomial rate (Wilson 1927).

    Args:
        successes: how many of the trials succeeded.
        trials: how many there were; 0 gives (0, 1).
        confidence: in (0, 1), two-sided.
    """
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    spread = z * sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def bootstrap(values: np.ndarray, confidence: float = 0.95, resamples: int = 5000) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of a mean (Efron 1979), the values resampled as they are.

    For paired data give the differences. Of few values, like training seeds, the interval tends to be too narrow.

    Args:
        values: (n,), one a seed.

    Returns:
        Low and high; None for fewer than two values, of which nothing can be said.
    """
    if len(values) < 2:
        return None
    rng = stream("bootstrap", len(values))
    means = values[rng.integers(len(values), size=(resamples, len(values)))].mean(axis=1)
    return _percentiles(means, confidence)


def nested_bootstrap(
    values: Sequence[np.ndarray], confidence: float = 0.95, resamples: int = 5000
) -> tuple[float, float] | None:
    """Return the interval of a mean of means by the hierarchical bootstrap (Davison and Hinkley 1997, section 3.8).

    Seeds are resampled, and within each seed that was drawn, its tasks. With one seed only tasks are resampled: the
    interval then says nothing about training with other seeds.

    Args:
        values: for each seed the (tasks,) values; for paired data, the differences.

    Returns:
        Low and high; None where a seed has no tasks, or there is but one value.
    """
    if not values or not all(len(of_seed) for of_seed in values) or sum(map(len, values)) < 2:
        return None
    rng = stream("bootstrap", len(values), *map(len, values))
    drawn = rng.integers(len(values), size=(resamples, len(values)))
    means = np.empty(drawn.shape)
    for seed, of_seed in enumerate(values):
        here = drawn == seed
        count = int(here.sum())
        # In blocks, so that the memory does not grow with the number of tasks.
        block = max(1, BLOCK // len(of_seed))
        parts = [
            of_seed[rng.integers(len(of_seed), size=(min(block, count - start), len(of_seed)))].mean(axis=1)
            for start in range(0, count, block)
        ]
        means[here] = np.concatenate(parts) if parts else []
    return _percentiles(means.mean(axis=1), confidence)


def area(positions: Sequence[float], values: Sequence[float]) -> float:
    """Return the mean height of a curve: the area under it by the trapezoidal rule, over its length.

    Args:
        positions: strictly rising; of one point the area is its value.
        values: as many.
    """
    if len(values) == 1:
        return float(values[0])
    return float(np.trapezoid(values, positions) / (positions[-1] - positions[0]))


def terciles(values: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """Divide names into the lowest, the middle and the highest third: 0, 1, 2.

    Args:
        values: of each name what it is ordered by, the first first; equal ones are ordered by name.
    """
    ranked = sorted(values, key=lambda name: (*values[name], name))
    return {name: 3 * place // len(ranked) for place, name in enumerate(ranked)}


def _percentiles(means: np.ndarray, confidence: float) -> tuple[float, float]:
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
