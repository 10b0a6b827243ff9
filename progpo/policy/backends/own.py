"""The project's own sampler as a backend: all live episodes advance together, a token at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from progpo.policy.backends.base import Answer, Backend, Turn
from progpo.policy.checkpoint import Policy
from progpo.policy.choices import continuations, narrowed
from progpo.policy.precision import compute_device, compute_dtype
from progpo.policy.sampler import Sampler
from progpo.seeds import stream

#: Random numbers drawn at once, for one trajectory.
BLOCK = 64


class OwnSampler(Backend):
    """See `progpo.policy.sampler`. Each trajectory draws from a random stream of its own, so that which others it is
    played beside changes no random number.

    Args:
        policy: with its weights; they are moved to the device.
        temperature: of sampling; 0: greedy.
        precision: of the forward pass: "float32", "bfloat16" or "auto".
        device: where to compute; None: the GPU where there is one, else the processor.
    """

    def __init__(self, policy: Policy, temperature: float, precision: str = "float32", device: Any = None) -> None:
        super().__init__(policy, temperature)
        policy.model.to(device or compute_device())
        dtype = compute_dtype(precision)
        self._autocast = None if dtype == policy.model.dtype else dtype
        self._dtype = dtype

    def facts(self) -> dict[str, Any]:
        dtype = str(self._dtype).removeprefix("torch.")
        return {"backend": "progpo", "device": self.policy.model.device.type, "dtype": dtype}

    def begin(self, rows: int) -> None:
        limit = self.policy.settings.max_context_tokens
        # The memory of an earlier set's cache is given up before this one's is taken.
        self._sampler = None
        self._sampler = Sampler(self.policy.model, rows, limit, self.temperature, self._autocast, self.name)
        #: By their row in the cache.
        self._rows: list[_Row] = []

    def ask(self, turn: Turn) -> None:
        cache = self._sampler.cache
        index = self._find(turn.key)
        if index is None:
            index = cache.open()
            self._rows.append(_Row(turn))
        cache.rewind(index, turn.shared)
        self._rows[index].begin(turn, turn.prompt[cache.lengths[index] :])

    def answers(self) -> list[Answer]:
        logits = self._sampler.logits([row.unread for row in self._rows])
        allowed = [row.allowed() for row in self._rows] if self.renderer.constrained else None
        tokens, logprobs = self._sampler.choose(logits, [row.draw() for row in self._rows], allowed)
        done: list[Answer] = []
        # The last row first: those that leave are replaced by the last, which then was looked at.
        for row, token, logprob in zip(reversed(self._rows), reversed(tokens), reversed(logprobs), strict=True):
            row.add(token, logprob)
            if token in self.renderer.end_ids or len(row.response) == self.renderer.response_limit:
                done.append(Answer(row.turn, row.response, row.logprobs))
        return done

    def leave(self, key: tuple[int, int, int, int]) -> None:
        index = self._find(key)
        self._sampler.cache.close(index)
        last = self._rows.pop()
        if index < len(self._rows):
            self._rows[index] = last

    def _find(self, key: tuple[int, int, int, int]) -> int | None:
        return next((index for index, row in enumerate(self._rows) if row.turn.key == key), None)


@dataclass
class _Row:
    """An episode's turn in the cache, and the tokens that the model shall read next."""

    turn: Turn
    unread: list[int] = field(default_factory=list)
    response: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    choices: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        self._random = stream("sample", *self.turn.key)
        self._uniforms: list[float] = []

    def begin(self, turn: Turn, unread: list[int]) -> None:
        self.turn, self.unread, self.response, self.logprobs = turn, unread, [], []
        self.choices = turn.choices

    def allowed(self) -> list[int]:
        """Return the tokens that may come next, of a constrained policy."""
        return continuations(self.choices, len(self.response))

    def add(self, token: int, logprob: float) -> None:
        """Take the token that was sampled."""
        self.choices = narrowed(self.choices, len(self.response), token)
        self.response.append(token)
        self.logprobs.append(logprob)
        self.unread = [token]

    def draw(self) -> float:
        """Return the next number of the trajectory's random stream."""
        if not self._uniforms:
            self._uniforms = self._random.random(BLOCK)[::-1].tolist()
        return self._uniforms.pop()
