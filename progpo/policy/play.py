"""Playing episodes with a policy, many at once.

A finished episode leaves at once and a queued one takes its place: memory is bounded by `batch`, and nothing waits
for the slowest episode but the end of the queue. What computes the responses is a backend (`progpo.policy.backends`).
"""

import math
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs import Task, listed_commands, was_valid
from progpo.errors import ProgpoError
from progpo.policy.backends.base import Answer, Backend, Turn
from progpo.policy.checkpoint import Policy
from progpo.policy.rendering import Renderer
from progpo.policy.tutor import Tutor
from progpo.progress import Progress
from progpo.trajectories.records import Step, Trajectory


@dataclass(frozen=True)
class Episode:
    """What to play: a task, and the key of the trajectory it makes."""

    group: int
    trajectory: int
    task: Task


@dataclass
class Tally:
    """What was done so far.

    Attributes:
        episodes, steps: finished.
        read, sampled: tokens of contexts, and of responses.
        overflowed: episodes cut because their context was full.
    """

    episodes: int = 0
    steps: int = 0
    read: int = 0
    sampled: int = 0
    overflowed: int = 0

    @property
    def tokens(self) -> int:
        return self.read + self.sampled

    def describe(self, seconds: float) -> str:
        """Return the end of a line of progress."""
        return (
            f", {self.steps} steps, {self.read} tokens read and {self.sampled} sampled in {seconds:.1f} s "
            f"({self.tokens / seconds:.0f} tokens a second)"
        )


def play(
    policy: Policy,
    episodes: Sequence[Episode],
    make_environment: Callable[[], Any],
    *,
    temperature: float,
    batch: int,
    seed: int,
    iteration: int,
    precision: str = "float32",
    label: str = "play",
) -> list[Trajectory]:
    """Play episodes to their ends with the project's own sampler (`progpo.policy.backends.own`).

    Args:
        policy: with its weights.
        temperature: of sampling; 0: greedy.
        precision: of the forward pass: "float32", "bfloat16" or "auto".
        The rest: see `play_with`.
    """
    from progpo.policy.backends.own import OwnSampler

    with OwnSampler(policy, temperature, precision) as backend:
        return play_with(backend, episodes, make_environment, batch=batch, seed=seed, iteration=iteration, label=label)


def play_with(
    backend: Backend,
    episodes: Sequence[Episode],
    make_environment: Callable[[], Any],
    *,
    batch: int,
    seed: int,
    iteration: int,
    label: str = "play",
    tutor: Callable[[Episode], Tutor] | None = None,
) -> list[Trajectory]:
    """Play episodes to their ends.

    An ill-formed or inadmissible action is executed as it is (an environment answers that nothing happens) and
    recorded as not valid. An episode whose context would grow too long is truncated there.

    Args:
        backend: the policy, and what computes its responses.
        episodes: what to play.
        make_environment: makes an environment; one is made for each slot.
        batch: episodes at once.
        seed, iteration: with an episode's group and trajectory, the key of its random stream.
        label: of the progress on stderr.
        tutor: makes the expert that takes turns with the policy in an episode; None: the policy plays alone.

    Returns:
        The trajectories, by (group, trajectory); with tutors, as demonstrations: without tokens.

    Raises:
        ProgpoError: a task whose first prompt is longer than the context, or a policy whose logits are not finite.
    """
    queue, tally = deque(episodes), Tally()
    idle: list[Any] = []
    live: dict[tuple[int, int, int, int], _Player] = {}
    finished: list[Trajectory] = []
    backend.begin(min(batch, len(episodes)))
    try:
        with Progress(label, len(episodes), "episodes") as progress:
            while queue or live:
                while queue and len(live) < batch:
                    episode = queue.popleft()
                    environment = idle.pop() if idle else make_environment()
                    key = (seed, iteration, episode.group, episode.trajectory)
                    taught = tutor(episode) if tutor else None
                    live[key] = _Player(episode, environment, backend.renderer, key, taught)
                    backend.ask(live[key].turn)
                for answer in backend.answers():
                    if not all(map(math.isfinite, answer.logprobs)):
                        raise backend.diverged()
                    key = answer.turn.key
                    player = live[key]
                    if not player.act(answer, tally):
                        backend.ask(player.turn)
                        continue
                    backend.leave(key)
                    idle.append(live.pop(key).environment)
                    finished.append(player.trajectory)
                progress.update(tally.episodes, tally.describe, tally.tokens, now=not (queue or live))
    finally:
        for environment in [*idle, *(player.environment for player in live.values())]:
            environment.close()
    if tally.overflowed:
        print(
            f"{label}: {tally.overflowed} episodes were cut because their context was full (policy.max_context_tokens)",
            file=sys.stderr,
        )
    return sorted(finished, key=lambda trajectory: (trajectory.group, trajectory.trajectory))


@dataclass
class _Player:
    """One episode on its way.

    Attributes:
        trajectory: so far.
        turn: that waits for its response.
    """

    episode: Episode
    environment: Any
    renderer: Renderer
    key: tuple[int, int, int, int]
    tutor: Tutor | None
    trajectory: Trajectory = field(init=False)
    turn: Turn = field(init=False)

    def __post_init__(self) -> None:
        task = self.episode.task
        self._observation, self._info = self.environment.reset(options=dict(task.options))
        if self.tutor:
            self.tutor.reset(self._observation, self._info)
        self.trajectory = Trajectory(self.episode.group, self.episode.trajectory, task.id, task.task_type)
        self._history: list[tuple[str, str]] = []
        context = self.renderer.start(self._observation, listed_commands(self._info))
        if len(context) > self.renderer.context_limit:
            raise ProgpoError(
                f"policy.max_context_tokens: task {task.id} begins with {len(context)} tokens, and a response may take "
                f"{self.renderer.response_limit}; set it to {len(context) + self.renderer.response_limit} or more"
            )
        self._context = context
        self._cut = 0 if self.renderer.layout == "window" else None
        self.turn = Turn(self.key, 0, list(context), choices=self._choices())

    def act(self, answer: Answer, tally: Tally) -> bool:
        """Take the response to the turn; return whether the episode is over. If not, a new turn waits."""
        response, over = self._act(answer)
        tally.steps += 1
        tally.read += len(self._context)
        tally.sampled += len(answer.tokens)
        if not over and not self._go_on(answer.tokens, response):
            self.trajectory.steps[-1].truncated = over = True
            tally.overflowed += 1
        if over:
            self.trajectory.outcome = sum(step.reward for step in self.trajectory.steps)
            self.trajectory.score = float(self._info["score"])
            tally.episodes += 1
        return over

    def _act(self, answer: Answer) -> tuple[list[int], bool]:
        """Execute the response, or what the tutor puts in its place, and record the step.

        Returns:
            the response's tokens, the policy's or the tutor's, and whether the episode is over.
        """
        before, info, response = self._observation, self._info, answer.tokens
        action, formed = self.renderer.parse(response)
        if self.tutor:
            executed, imitate = self.tutor.decide(before, info, action)
            if executed != action:
                action, formed, response = executed, True, self.renderer.response(executed)
            notes = {"admissible": listed_commands(info), "imitate": imitate}
        else:
            notes = {
                "admissible": listed_commands(info) if self.renderer.constrained else (),
                "context_tokens": self._context,
                "history_cut": self._cut,
                "response_tokens": response,
                "response_logprobs": answer.logprobs,
            }
        self._observation, reward, terminated, truncated, self._info = self.environment.step(action)
        self.trajectory.steps.append(
            Step(
                observation=before,
                next_observation=self._observation,
                action=action,
                valid=formed and was_valid(action, info, self._info),
                reward=float(reward),
                terminated=terminated,
                truncated=truncated,
                state_key=info.get("state_key"),
                next_state_key=self._info.get("state_key"),
                **notes,
            )
        )
        self._history.append((before, action))
        return response, terminated or truncated

    def _go_on(self, sampled: Sequence[int], response: Sequence[int]) -> bool:
        """Prepare the next turn; return whether there is room for its context and for a response.

        Args:
            sampled: the policy's last response, which the backend knows.
            response: that stands in the episode.
        """
        admissible, prompt = listed_commands(self._info), self.turn.prompt
        if self.renderer.layout == "append":
            seen = self.renderer.restated(self._observation, self._history[0][0])
            context = self.renderer.turn(seen, admissible, response[-1] in self.renderer.end_ids)
            shared = len(prompt) + _shared_prefix(sampled, response)
            prompt += response
            prompt += context
        else:
            context, self._cut = self.renderer.window(self._history, self._observation, admissible)
            shared = _shared_prefix(prompt, context[:-1])
            prompt = list(context)
        self._context = context
        self.turn = Turn(self.key, self.turn.step + 1, prompt, shared, self._choices())
        return len(prompt) <= self.renderer.context_limit

    def _choices(self) -> Sequence[Sequence[int]]:
        if not self.renderer.constrained:
            return ()
        return self.renderer.choices(listed_commands(self._info), self._history, self._observation)


def _shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        shared += 1
    return shared
