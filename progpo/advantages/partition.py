"""A partition of items into segments, and statistics inside each segment.

All sums run in float64 over a segment's own items in their order, so a segment's result depends, to the bit, on
nothing outside it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

#: A segment whose largest and smallest value are closer than this is flat: it has nothing to be relative to.
FLAT = 1e-9
#: Added to a standard deviation that something is divided by.
EPSILON = 1e-6


@dataclass(frozen=True)
class Partition:
    """Items in segments.

    Attributes:
        ids: (items,) the segment of each item.
        count: number of segments; each holds an item at least.
    """

    ids: np.ndarray
    count: int

    @classmethod
    def of(cls, keys: np.ndarray) -> "Partition":
        """Put the items of equal keys (integers) together; segments are numbered by first appearance."""
        encoded = pa.array(keys).dictionary_encode()
        return cls(encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary))

    @cached_property
    def sizes(self) -> np.ndarray:
        """(segments,) number of items."""
        return np.bincount(self.ids, minlength=self.count)

    def total(self, values: np.ndarray) -> np.ndarray:
        """(segments,) sum of the items' values, in float64."""
        return np.bincount(self.ids, values, minlength=self.count)

    def largest(self, values: np.ndarray) -> np.ndarray:
        """(segments,) largest value."""
        largest = np.full(self.count, -np.inf)
        np.maximum.at(largest, self.ids, values)
        return largest

    def flat(self, values: np.ndarray) -> np.ndarray:
        """(segments,) whether largest and smallest value are nearly one; a segment of one is flat."""
        return self.largest(values) + self.largest(-values) < FLAT

    def centred(self, values: np.ndarray) -> np.ndarray:
        """(items,) values minus the mean of their segment."""
        return values - (self.total(values) / self.sizes)[self.ids]

    def deviation(self, centred: np.ndarray, ddof: int) -> np.ndarray:
        """(segments,) standard deviation of values that are centred already; 0 in segments of `ddof` items."""
        return np.sqrt(self.total(centred * centred) / np.maximum(self.sizes - ddof, 1))

    def relative(self, values: np.ndarray, ddof: int, divide: bool = True) -> np.ndarray:
        """(items,) values relative to their segment: centred, and divided by the standard deviation.

        Args:
            values: (items,).
            ddof: 1: of a sample, 0: of the population.
            divide: `normalise: mean_std`; else centred only.

        Returns:
            0 for all items of a flat segment.
        """
        relative = self.centred(values)
        if divide:
            relative /= (self.deviation(relative, ddof) + EPSILON)[self.ids]
        relative[self.flat(values)[self.ids]] = 0.0
        return relative


def to_go(values: np.ndarray, remaining: np.ndarray, gamma: float) -> np.ndarray:
    """Sum what is still to come, discounted: y[t] = sum over k >= t of gamma^(k-t) x[k], inside each trajectory.

    By doubling: after pass j, y[t] holds the first 2^j terms. So the work is rows times log2 of the longest
    trajectory, and the result depends on nothing but the trajectory's own values from t on.

    Args:
        values: (steps,) x, trajectories one after another, in time order.
        remaining: (steps,) steps from this one to the trajectory's last, both included.
        gamma: discount.
    """
    sums = values.astype(np.float64)
    longest = remaining.max(initial=0)
    reach = 1
    while reach < longest:
        later = gamma**reach * sums[reach:]
        later[remaining[:-reach] <= reach] = 0.0
        sums[:-reach] += later
        reach *= 2
    return sums
