"""What answers the turns of episodes: the one interface that `progpo.policy.play` drives."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy
from progpo.policy.rendering import Renderer, make_renderer
from progpo.seeds import stream


@dataclass(frozen=True)
class Turn:
    """A turn of an episode that waits for its response.

    Attributes:
        key: (seed, iteration, group, trajectory): of the trajectory's random stream.
        step: of the trajectory, from 0.
        prompt: all tokens that the response follows. The list belongs to the episode, and grows once it is answered.
        shared: how many of them begin the prompt, followed by the response, of the episode's turn before.
        choices: the responses among which the answer is (`policy.constrained`); empty: any may be.
    """

    key: tuple[int, int, int, int]
    step: int
    prompt: list[int]
    shared: int = 0
    choices: Sequence[Sequence[int]] = ()

    @property
    def seed(self) -> int:
        """The seed of this turn alone, below 2**63."""
        return int(stream("turn", *self.key, self.step).integers(2**63))


@dataclass(frozen=True)
class Answer:
    """The response to a turn.

    Attributes:
        turn: that it answers.
        tokens: of the response, its end token included where one was sampled.
        logprobs: of these tokens, at the sampling temperature (greedy: at 1).
    """

    turn: Turn
    tokens: list[int]
    logprobs: list[float]


class Backend(ABC):
    """A policy that can be asked for responses. Episodes take their turns independently of each other.

    Used as a context manager, or closed by `close`.

    Attributes:
        policy: who answers; its model holds weights only where the backend computes with them itself.
        renderer: of the policy.
        temperature: of sampling; 0: greedy.
    """

    def __init__(self, policy: Policy, temperature: float) -> None:
        self.policy, self.temperature = policy, temperature
        self.renderer: Renderer = make_renderer(policy)

    @property
    def name(self) -> str:
        """The policy, for messages."""
        return f"policy {self.policy.fingerprint[:12]}".rstrip()

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what a manifest notes about who computed."""

    @abstractmethod
    def begin(self, rows: int) -> None:
        """Get ready for a new set of episodes, at most `rows` at once; nothing of an earlier set may show in it."""

    @abstractmethod
    def ask(self, turn: Turn) -> None:
        """Take a turn in. An episode has one turn at a time, and is new to the backend at its first."""

    @abstractmethod
    def answers(self) -> Sequence[Answer]:
        """Work for a while; return the answers that are there now, perhaps none.

        Of an episode that was answered, the next call is `ask` or `leave`, before `answers` is called again.

        Raises:
            ProgpoError: nothing to be had from the policy.
        """

    def leave(self, key: tuple[int, int, int, int]) -> None:
        """Take note that an episode is over."""
        return

    def close(self) -> None:
        """Give up what is held."""
        return

    def __enter__(self) -> "Backend":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def diverged(self) -> ProgpoError:
        """Return the error for log-probabilities that are not finite."""
        return ProgpoError(
            f"{self.name}: its logits are not finite, it has diverged; train it anew with a lower `learning_rate`"
        )
