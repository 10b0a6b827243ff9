"""Random streams that depend on what is sampled, never on how the work is cut into shards or batches."""

import zlib

import numpy as np


def stream(purpose: str, *key: int) -> np.random.Generator:
    """Return the generator of one purpose and key.

    Args:
        purpose: what the numbers are for ("sample", "tasks", "noise", ...). Streams of different purposes with
            the same key are independent.
        key: non-negative integers, e.g. (seed, iteration, group, trajectory).
    """
    return np.random.default_rng(np.random.SeedSequence([zlib.crc32(purpose.encode()), *key]))
