"""The sampler's run, with the time that each part of it takes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.rollout.workload import Workload
from envs.alfworld.environment import AlfworldEnvironment
from progpo.policy import play as playing
from progpo.policy.rendering import PlainRenderer
from progpo.policy.sampler import Sampler


@dataclass
class Shares:
    """Seconds of a run, and in the model (with the choice of tokens), the environment and the tokenizer."""

    wall: float = 0.0
    model: float = 0.0
    environment: float = 0.0
    tokenizer: float = 0.0


def play_measured(work: Workload, temperature: float, batch: int) -> tuple[dict[str, Any], Shares]:
    """Play the episodes with the sampler; return what was done, and where the time went."""
    shares = Shares()
    with (
        _timed(Sampler, ("logits", "choose"), shares, "model"),
        _timed(AlfworldEnvironment, ("reset", "step"), shares, "environment"),
        _timed(PlainRenderer, ("start", "turn", "parse"), shares, "tokenizer"),
    ):
        started, watch = time.process_time(), time.perf_counter()
        trajectories = playing.play(
            work.policy,
            work.episodes,
            work.make_environment,
            temperature=temperature,
            batch=batch,
            seed=0,
            iteration=1,
            label="benchmark",
        )
        cpu, shares.wall = time.process_time() - started, time.perf_counter() - watch
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    played = {
        "cpu": cpu,
        "wall": shares.wall,
        "tokens": sum(len(step.context_tokens) + len(step.response_tokens) for step in steps),
        "steps": len(steps),
        "episodes": len(trajectories),
    }
    return played, shares


@contextmanager
def _timed(owner: type, names: tuple[str, ...], shares: Shares, part: str) -> Iterator[None]:
    """Add the time that these methods take to a part of the shares."""
    usual = {name: getattr(owner, name) for name in names}

    def wrap(method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                setattr(shares, part, getattr(shares, part) + time.perf_counter() - started)

        return timed

    for name, method in usual.items():
        setattr(owner, name, wrap(method))
    try:
        yield
    finally:
        for name, method in usual.items():
            setattr(owner, name, method)
