"""From trajectories to token sequences to learn from.

In the append layout a trajectory is one sequence: context, response, context, response, ... as the model saw it. In the
window layout each step is one: its prompt and its response. Nothing is tokenised here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from progpo.errors import ProgpoError
from progpo.policy.choices import Allowed
from progpo.seeds import stream
from progpo.trajectories.schema import KEYS

#: The columns of the shards that an update reads.
COLUMNS = ("context_tokens", "response_tokens", "response_logprobs")
#: And where the policy is constrained.
CHOICES = ("admissible", "observation", "action")

#: The responses to choose from, by the admissible actions, (observation, action) so far, and the observation.
Choices = Callable[[Sequence[str], Sequence[tuple[str, str]], str], Sequence[tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Tokens, and what is known about those that the policy sampled.

    Attributes:
        owner: index of the trajectory among all of the iteration, sorted by (group, trajectory).
        tokens: (L,) int32.
        positions: (R,) int64 places of the sampled tokens, ascending; none is 0.
        logprobs: (R,) float32, at sampling.
        advantages: (R,) float32, of their steps.
        allowed: what might stand at their places (`policy.constrained`); None: anything.
    """

    owner: int
    tokens: np.ndarray
    positions: np.ndarray
    logprobs: np.ndarray
    advantages: np.ndarray
    allowed: Allowed | None = None

    def live(self) -> "TokenSequence | None":
        """Return the part that has a gradient where there is no KL term: up to the last token with an advantage."""
        there = np.flatnonzero(self.advantages)
        if not there.size:
            return None
        end = there[-1] + 1
        return TokenSequence(
            self.owner,
            self.tokens[: self.positions[end - 1] + 1],
            self.positions[:end],
            self.logprobs[:end],
            self.advantages[:end],
            self.allowed and self.allowed.first(end),
        )


def make_sequences(
    shards: pa.Table,
    advantages: pa.Table,
    layout: str,
    choices: Choices | None = None,
) -> tuple[list[TokenSequence], int]:
    """Make the sequences of an iteration, sorted by trajectory and step.

    Args:
        shards: rows of all shards, in any order, with the keys and `COLUMNS`.
        advantages: rows with the keys and `advantage`, in any order.
        layout: "append" or "window".
        choices: of a constrained policy; the shards then have the columns `CHOICES` too.

    Returns:
        The sequences, those without a sampled token left out; the number of trajectories.

    Raises:
        ProgpoError: advantages that are not those of exactly these steps; steps without recorded tokens,
            or whose response is none of those to choose from.
    """
    by_key = [(name, "ascending") for name in KEYS]
    shards, advantages = shards.sort_by(by_key), advantages.sort_by(by_key)
    _check_same_steps(shards, advantages)
    groups, numbers, _ = (shards[name].to_numpy() for name in KEYS)
    contexts, responses, logprobs = (_Lists(shards, name) for name in COLUMNS)
    if not np.array_equal(responses.lengths, logprobs.lengths):
        raise ProgpoError("the shards hold sampled tokens without log-probabilities; an update needs those of rollouts")
    values = advantages["advantage"].to_numpy().astype(np.float32)
    changes = np.flatnonzero((np.diff(groups) != 0) | (np.diff(numbers) != 0)) + 1
    sequences = []
    for owner, (first, end) in enumerate(pairwise([0, *changes.tolist(), len(groups)])):
        among = list(_among(shards.slice(first, end - first), choices)) if choices else None
        pieces = [range(first, end)] if layout == "append" else [range(row, row + 1) for row in range(first, end)]
        for rows in pieces:
            allowed = _allowed(shards, rows, responses, among[rows.start - first :]) if among else None
            sequence = _join(owner, rows, contexts, responses, logprobs, values, allowed)
            if sequence.positions.size and sequence.positions[0] == 0:
                raise ProgpoError(
                    f"{_name(shards, first)}: an action without a context before it; make the shards anew"
                )
            if sequence.positions.size:
                sequences.append(sequence)
    if not sequences:
        raise ProgpoError("the shards hold no sampled token: there is nothing to learn from")
    return sequences, len(changes) + 1


def minibatches(trajectories: int, count: int, seed: int, iteration: int, epoch: int) -> list[np.ndarray]:
    """Divide the trajectories of an iteration among the optimiser steps of an epoch, anew at random for each.

    Returns:
        Indices of trajectories, sorted, for each step; fewer steps where there are fewer trajectories.
    """
    order = stream("minibatches", seed, iteration, epoch).permutation(trajectories)
    return [np.sort(part) for part in np.array_split(order, min(count, trajectories))]


def micro_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Divide sequences among forward passes of at most `budget` tokens (but at least one sequence) each.

    Long sequences come first, so that a pass has sequences of about the same length, and what cannot be held in
    memory is noticed at once.

    Returns:
        Indices of the sequences of each pass.
    """
    passes: list[list[int]] = []
    used = budget
    for index in sorted(range(len(lengths)), key=lambda item: (-lengths[item], item)):
        if not passes or used + lengths[index] > budget:
            passes.append([])
            used = 0
        passes[-1].append(index)
        used += lengths[index]
    return passes


def divide(lengths: Sequence[int], parts: int) -> list[int]:
    """Divide sequences among processes so that all have about as many tokens: the longest first, to who has least.

    Returns:
        The process of each sequence, from 0.
    """
    load, homes = [0] * parts, [0] * len(lengths)
    for index in sorted(range(len(lengths)), key=lambda item: (-lengths[item], item)):
        homes[index] = min(range(parts), key=lambda part: (load[part], part))
        load[homes[index]] += lengths[index]
    return homes


def passes(lengths: Sequence[int], homes: Sequence[int], here: int, budget: int, together: bool) -> list[list[int]]:
    """Return the forward passes of one process.

    Args:
        lengths: of the sequences.
        homes: the process of each.
        here: whose passes are asked for.
        budget: most tokens of a pass.
        together: whether all processes make the same number of passes; those without a sequence left make empty ones.

    Returns:
        Indices of the sequences of each pass.
    """
    every = []
    for home in range(max(homes, default=0) + 1) if together else [here]:
        own = [index for index, other in enumerate(homes) if other == home]
        every.append([[own[index] for index in part] for part in micro_batches([lengths[i] for i in own], budget)])
    count = max(map(len, every))
    mine = (every[here] if here < len(every) else []) if together else every[0]
    return mine + [[] for _ in range(count - len(mine))]


class _Lists:
    """A list column as numpy: `[row]` is that row's values, none for a null."""

    def __init__(self, table: pa.Table, name: str) -> None:
        column = table[name]
        self.lengths = pc.list_value_length(column).fill_null(0).to_numpy()
        self._values = pc.list_flatten(column).to_numpy()
        self._ends = np.cumsum(self.lengths).tolist()

    def __getitem__(self, row: int) -> np.ndarray:
        return self._values[self._ends[row - 1] if row else 0 : self._ends[row]]


def _join(
    owner: int,
    rows: range,
    contexts: _Lists,
    responses: _Lists,
    logprobs: _Lists,
    values: np.ndarray,
    allowed: Allowed | None,
) -> TokenSequence:
    parts, sampled, counts = [], [], []
    for row in rows:
        context, response = contexts[row], responses[row]
        parts += [context, response]
        sampled += [np.zeros(len(context), bool), np.ones(len(response), bool)]
        counts.append(len(response))
    return TokenSequence(
        owner,
        np.concatenate(parts).astype(np.int32),
        np.flatnonzero(np.concatenate(sampled)),
        np.concatenate([logprobs[row] for row in rows]).astype(np.float32),
        np.repeat(values[rows.start : rows.stop], counts),
        allowed,
    )


def _among(trajectory: pa.Table, choices: Choices) -> Iterator[Sequence[tuple[int, ...]]]:
    """Yield the responses that there were to choose from at each step of a trajectory."""
    taken: list[tuple[str, str]] = []
    for step in trajectory.select(CHOICES).to_pylist():
        yield choices(step["admissible"] or (), taken.copy(), step["observation"])
        taken.append((step["observation"], step["action"]))


def _allowed(shards: pa.Table, rows: range, responses: _Lists, among: Sequence[Sequence[tuple[int, ...]]]) -> Allowed:
    """Return what might have stood at the places of the steps' responses.

    Args:
        among: what each step could choose from; there may be more steps.
    """
    parts = []
    for row, own in zip(rows, among, strict=False):
        response = responses[row].tolist()
        if response and tuple(response) not in own:
            raise ProgpoError(
                f"{_name(shards, row)}: its response is none of the actions that the policy, which is constrained, "
                "could choose from; roll out with this policy anew"
            )
        parts.append(Allowed.of(own, response))
    return Allowed.join(parts)


def _check_same_steps(shards: pa.Table, advantages: pa.Table) -> None:
    ours, theirs = (np.stack([table[name].to_numpy() for name in KEYS], 1) for table in (shards, advantages))
    for table, keys, what in ((shards, ours, "shards"), (advantages, theirs, "advantages")):
        double = np.flatnonzero((keys[1:] == keys[:-1]).all(1))
        if double.size:
            raise ProgpoError(f"{_name(table, int(double[0]))}: twice in the {what}")
    if np.array_equal(ours, theirs):
        return
    missing = sorted(set(map(tuple, ours.tolist())) - set(map(tuple, theirs.tolist())))
    surplus = sorted(set(map(tuple, theirs.tolist())) - set(map(tuple, ours.tolist())))
    key, problem = (missing[0], "no advantage for it") if missing else (surplus[0], "not in the shards")
    name = ", ".join(f"{part} {number}" for part, number in zip(KEYS, key, strict=True))
    raise ProgpoError(
        f"{name}: {problem}; make the advantages from these shards, all of them and no others (`progpo advantages`)"
    )


def _name(table: pa.Table, row: int) -> str:
    return ", ".join(f"{name} {table[name][row].as_py()}" for name in KEYS)
