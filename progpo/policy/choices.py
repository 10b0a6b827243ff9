"""Constrained decoding: a response is one of those that are admissible, token by token.

At each token, what leads to none of them is left out and the rest divide the probability among themselves, in sampling
and in the update alike: what is trained is the distribution that was sampled from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: A logit that has no chance beside any other; finite, so that its product with a probability of 0 is 0.
IMPOSSIBLE = -1e30


@dataclass(frozen=True, slots=True)
class Allowed:
    """The tokens that may stand at each of R places.

    Attributes:
        tokens: (K,) int32, those of the first place, then of the second, ...
        counts: (R,) int64, how many each place has.
    """

    tokens: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, choices: Sequence[Sequence[int]], response: Sequence[int]) -> "Allowed":
        """Return what may stand at each place of a response that is one of `choices`; see `continuations`."""
        found = []
        for place, token in enumerate(response):
            found.append(continuations(choices, place))
            choices = narrowed(choices, place, token)
        return cls(
            np.array([token for tokens in found for token in tokens], np.int32),
            np.array([len(tokens) for tokens in found], np.int64),
        )

    @classmethod
    def join(cls, parts: Sequence["Allowed"]) -> "Allowed":
        """Return the places of several, one after another."""
        return cls(np.concatenate([part.tokens for part in parts]), np.concatenate([part.counts for part in parts]))

    def first(self, places: int) -> "Allowed":
        """Return the first places."""
        counts = self.counts[:places]
        return Allowed(self.tokens[: counts.sum()], counts)


def continuations(choices: Sequence[Sequence[int]], place: int) -> list[int]:
    """Return the tokens, ascending, that choices which agree before a place have there."""
    return sorted({choice[place] for choice in choices if len(choice) > place})


def narrowed(choices: Sequence[Sequence[int]], place: int, token: int) -> list[Sequence[int]]:
    """Return the choices that have a token at a place."""
    return [choice for choice in choices if len(choice) > place and choice[place] == token]


def limited(logits: Tensor, allowed: Sequence[Sequence[int]]) -> Tensor:
    """Return logits (B, V) of which only each row's allowed tokens have a chance."""
    rows = [row for row, tokens in enumerate(allowed) for _ in tokens]
    return restricted(logits, rows, [token for tokens in allowed for token in tokens])


def restricted(logits: Tensor, rows: Any, tokens: Any) -> Tensor:
    """Return logits (B, V) of which only those at (row, token) have a chance.

    Args:
        rows, tokens: (K,) indices each.
    """
    kept = torch.full_like(logits, IMPOSSIBLE)
    kept[rows, tokens] = logits[rows, tokens]
    return kept
