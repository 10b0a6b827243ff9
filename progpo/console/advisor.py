"""What a policy would do next, and how probable that is."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from progpo.policy.checkpoint import Policy
from progpo.policy.choices import continuations, limited, narrowed
from progpo.policy.rendering import make_renderer
from progpo.policy.sampler import Sampler

#: Responses that are drawn at each step, to learn of actions that no list holds.
DRAWS = 8
#: Responses that are looked at at once.
BATCH = 64


@dataclass(frozen=True)
class Candidate:
    """An action that the policy may take.

    Attributes:
        action: what would be executed.
        probability: of a response that is this action; where responses hold thoughts (`response: think_action`), the
            share of those drawn.
    """

    action: str
    probability: float


@dataclass(frozen=True)
class Advice:
    """What a policy would do.

    Attributes:
        candidates: by falling probability.
        choice: what it drew first (greedy: what it would do).
        thought: the text of that response, where it is more than the action.
    """

    candidates: Sequence[Candidate]
    choice: str
    thought: str | None


class Advisor:
    """Follows one episode as the policy would read it.

    Args:
        policy: whose advice it is.
        temperature: of sampling, at which probabilities are too; 0: greedy, probabilities at 1.
        rng: of what is drawn.
    """

    def __init__(self, policy: Policy, temperature: float, rng: np.random.Generator) -> None:
        self.policy, self.temperature, self.rng = policy, temperature, rng
        self._renderer = make_renderer(policy)
        self._thinks = policy.settings.resolved_response == "think_action"
        self._history: list[tuple[str, str]] = []
        self._context: list[int] = []
        self._observation = ""
        self._choice: list[int] = []
        self._among: Sequence[tuple[int, ...]] = ()

    @property
    def full(self) -> bool:
        """Whether the context has no room for a response: a policy's episode is cut there."""
        return len(self._context) > self._renderer.context_limit

    def start(self, observation: str, admissible: Sequence[str]) -> None:
        """Begin an episode."""
        self._history, self._observation = [], observation
        self._context = self._renderer.start(observation, admissible)

    def follow(self, action: str, observation: str, admissible: Sequence[str]) -> None:
        """Take note of what was done, by whomever, and of what came of it."""
        self._history.append((self._observation, action))
        self._observation = observation
        if self._renderer.layout == "window":
            self._context, _ = self._renderer.window(self._history, observation, admissible)
            return
        own = self._choice and self._renderer.parse(self._choice)[0] == action
        response = self._choice if own else self._renderer.response(action)
        ended = response[-1] in self._renderer.end_ids
        seen = self._renderer.restated(observation, self._history[0][0])
        self._context = [*self._context, *response, *self._renderer.turn(seen, admissible, ended)]
        self._choice = []

    def advise(self, admissible: Sequence[str]) -> Advice:
        """Return what the policy would do now; the context must not be full."""
        if self._renderer.constrained:
            self._among = self._renderer.choices(admissible, self._history, self._observation)
        draws = [tokens for tokens, _ in self._respond([None] * (DRAWS if self.temperature else 1))]
        self._choice = draws[0]
        parsed = [self._renderer.parse(tokens)[0] for tokens in draws]
        if self._thinks:
            found = {action: count / len(parsed) for action, count in Counter(parsed).items()}
        else:
            listed = self._among or (tuple(self._renderer.response(action)) for action in admissible)
            # What is longer than a response may be is never said.
            known = {tokens for tokens in listed if len(tokens) <= self._renderer.response_limit}
            found = {}
            for tokens, logprob in self._respond(sorted(known | set(map(tuple, draws)))):
                action = self._renderer.parse(tokens)[0]
                found[action] = found.get(action, 0.0) + math.exp(logprob)
        candidates = [Candidate(action, probability) for action, probability in found.items()]
        candidates.sort(key=lambda candidate: (-candidate.probability, candidate.action))
        thought = self.policy.tokenizer.backend_tokenizer.decode(self._choice) if self._thinks else None
        return Advice(candidates, parsed[0], thought)

    def _respond(self, forced: Sequence[Sequence[int] | None]) -> list[tuple[list[int], float]]:
        """Go on from the context, each row with its own response: one that is given, or (None) one that is drawn.

        Returns:
            Of each row its response and the response's log-probability.
        """
        results: list[tuple[list[int], float]] = []
        for first in range(0, len(forced), BATCH):
            results += self._respond_at_once(forced[first : first + BATCH])
        return results

    def _respond_at_once(self, forced: Sequence[Sequence[int] | None]) -> list[tuple[list[int], float]]:
        limit = len(self._context) + self._renderer.response_limit
        name = f"policy {self.policy.fingerprint[:12]}".rstrip()
        sampler = Sampler(self.policy.model, len(forced), limit, self.temperature, name=name)
        results: list[tuple[list[int], float]] = [([], 0.0) for _ in forced]
        live = list(range(len(forced)))
        among = [self._among] * len(forced)
        for _ in live:
            sampler.cache.open()
        unread: list[Sequence[int]] = [self._context] * len(live)
        while live:
            logits = sampler.logits(unread)
            if self._among:
                logits = limited(logits, [continuations(among[index], len(results[index][0])) for index in live])
            drawn, _ = sampler.choose(logits, self.rng.random(len(live)))
            logprobs = torch.log_softmax(logits / (self.temperature or 1.0), -1)
            going: list[int] = []
            for row, index in enumerate(live):
                tokens, total = results[index]
                given = forced[index]
                token = drawn[row] if given is None else given[len(tokens)]
                among[index] = narrowed(among[index], len(tokens), token)
                tokens.append(token)
                results[index] = (tokens, total + float(logprobs[row, token]))
                over = token in self._renderer.end_ids or len(tokens) == self._renderer.response_limit
                going.append(len(tokens) < len(given) if given is not None else not over)
            for row in reversed(range(len(live))):
                if not going[row]:
                    sampler.cache.close(row)
                    live[row] = live[-1]
                    live.pop()
            unread = [results[index][0][-1:] for index in live]
        return results
