"""Playing episodes with a policy, many at once.

A finished episode leaves at once and a queued one takes its place: memory is bounded by `batch`, and nothing waits
for the slowest episode but the end of the queue. Each trajectory draws from a random stream of its own, so that which
others it is played beside changes no random number.
"""

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from envs import Task, listed_commands, was_valid
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy
from progpo.policy.precision import compute_dtype
from progpo.policy.rendering import Renderer, make_renderer
from progpo.policy.sampler import Sampler
from progpo.progress import Progress
from progpo.seeds import stream
from progpo.trajectories.records import Step, Trajectory

#: Random numbers drawn at once, for one trajectory.
BLOCK = 64


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
    """Play episodes to their ends.

    An ill-formed or inadmissible action is executed as it is (an environment answers that nothing happens) and
    recorded as not valid. An episode whose context would grow too long is truncated there.

    Args:
        episodes: what to play.
        make_environment: makes an environment; one is made for each slot.
        temperature: of sampling; 0: greedy.
        batch: episodes at once.
        seed, iteration: with an episode's group and trajectory, the key of its random stream.
        precision: of the forward pass: "float32", "bfloat16" or "auto".
        label: of the progress on stderr.

    Returns:
        The trajectories, by (group, trajectory).

    Raises:
        ProgpoError: a task whose first prompt is longer than the context, or a policy whose logits are not finite.
    """
    renderer = make_renderer(policy)
    dtype = compute_dtype(precision)
    sampler = Sampler(
        policy.model,
        min(batch, len(episodes)),
        policy.settings.max_context_tokens,
        temperature,
        autocast=None if dtype == policy.model.dtype else dtype,
        name=f"policy {policy.fingerprint[:12]}".rstrip(),
    )
    queue, tally = deque(episodes), Tally()
    idle: list[Any] = []
    players: list[_Player] = []
    finished: list[Trajectory] = []
    try:
        with Progress(label, len(episodes), "episodes") as progress:
            while queue or players:
                while queue and len(players) < batch:
                    environment = idle.pop() if idle else make_environment()
                    sampler.cache.open()
                    players.append(_Player(queue.popleft(), environment, renderer, seed, iteration))
                for row, player in enumerate(players):
                    sampler.cache.rewind(row, player.kept)
                logits = sampler.logits([player.unread for player in players])
                tokens, logprobs = sampler.choose(logits, [player.draw() for player in players])
                for row in reversed(range(len(players))):
                    player = players[row]
                    if player.advance(tokens[row], logprobs[row], tally):
                        sampler.cache.close(row)
                        last = players.pop()
                        if last is not player:
                            players[row] = last
                        idle.append(player.environment)
                        finished.append(player.trajectory)
                progress.update(tally.episodes, tally.describe, tally.tokens, now=not (queue or players))
    finally:
        for environment in [*idle, *(player.environment for player in players)]:
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
        unread: tokens that the model has not read: what it shall read next.
        kept: tokens before them that it need not read again.
    """

    episode: Episode
    environment: Any
    renderer: Renderer
    seed: int
    iteration: int
    trajectory: Trajectory = field(init=False)
    unread: list[int] = field(init=False)
    kept: int = 0

    def __post_init__(self) -> None:
        task = self.episode.task
        key = (self.seed, self.iteration, self.episode.group, self.episode.trajectory)
        self._random = stream("sample", *key)
        self._uniforms: list[float] = []
        self._observation, self._info = self.environment.reset(options=dict(task.options))
        self.trajectory = Trajectory(self.episode.group, self.episode.trajectory, task.id, task.task_type)
        self._history: list[tuple[str, str]] = []
        context = self.renderer.start(self._observation, listed_commands(self._info))
        if len(context) > self.renderer.context_limit:
            raise ProgpoError(
                f"policy.max_context_tokens: task {task.id} begins with {len(context)} tokens, and a response may take "
                f"{self.renderer.response_limit}; set it to {len(context) + self.renderer.response_limit} or more"
            )
        self._context = self.unread = context
        self._cut = 0 if self.renderer.layout == "window" else None
        self._response: list[int] = []
        self._logprobs: list[float] = []
        #: Tokens of the whole conversation (append), of prompt and response (window).
        self._length = len(context)

    def draw(self) -> float:
        """Return the next number of the trajectory's random stream."""
        if not self._uniforms:
            self._uniforms = self._random.random(BLOCK)[::-1].tolist()
        return self._uniforms.pop()

    def advance(self, token: int, logprob: float, tally: Tally) -> bool:
        """Take the token that was sampled; return whether the episode is over."""
        self.kept += len(self.unread)
        self._response.append(token)
        self._logprobs.append(logprob)
        self._length += 1
        ended = token in self.renderer.end_ids
        if not ended and len(self._response) < self.renderer.response_limit:
            self.unread = [token]
            return False
        over = self._act()
        tally.steps += 1
        tally.read += len(self._context)
        tally.sampled += len(self._response)
        if not over and not self._go_on(ended):
            self.trajectory.steps[-1].truncated = over = True
            tally.overflowed += 1
        if over:
            self.trajectory.outcome = sum(step.reward for step in self.trajectory.steps)
            self.trajectory.score = float(self._info["score"])
            tally.episodes += 1
        return over

    def _act(self) -> bool:
        """Execute the response in the environment and record the step; return whether the episode is over."""
        before, info = self._observation, self._info
        action, formed = self.renderer.parse(self._response)
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
                context_tokens=self._context,
                history_cut=self._cut,
                response_tokens=self._response,
                response_logprobs=self._logprobs,
            )
        )
        self._history.append((before, action))
        return terminated or truncated

    def _go_on(self, ended: bool) -> bool:
        """Prepare the next context; return whether there is room for it and for a response."""
        admissible = listed_commands(self._info)
        if self.renderer.layout == "append":
            context = self.renderer.turn(self._observation, admissible, ended)
            # The token sampled last was never read.
            self.unread = [self._response[-1], *context]
        else:
            context, self._cut = self.renderer.window(self._history, self._observation, admissible)
            self.kept = _shared_prefix(self._context, context[:-1])
            self.unread = context[self.kept :]
            self._length = 0
        self._length += len(context)
        self._context, self._response, self._logprobs = context, [], []
        return self._length <= self.renderer.context_limit


def _shared_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens two sequences begin with alike."""
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        shared += 1
    return shared
