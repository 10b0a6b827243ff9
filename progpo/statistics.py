"""Intervals for reported rates."""

from math import sqrt
from statistics import NormalDist


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
