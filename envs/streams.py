"""Random streams of the generators: one for each purpose and key, whatever else is drawn."""

import zlib

import numpy as np


def stream(purpose: str, *key: int | str) -> np.random.Generator:
    """Return the generator of a purpose and a key, e.g. `stream("game", seed, split, index)`."""
    words = [zlib.crc32(word.encode()) if isinstance(word, str) else word for word in (purpose, *key)]
    return np.random.default_rng(np.random.SeedSequence(words))
