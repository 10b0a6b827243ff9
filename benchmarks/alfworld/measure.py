"""What is measured: both engines on one game, and loading many."""

import json
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
import psutil

from envs.alfworld.environment import AlfworldEnvironment
from envs.alfworld.fast import game as fast_game
from envs.alfworld.fast import load_game
from envs.alfworld.parity import Prober
from envs.alfworld.textworld_engine import TextWorldEpisode

#: Repetitions of what takes the fast engine microseconds.
REPEATS = 20


def compare(path: str, steps: int, seed: int) -> dict[str, tuple[float, float]]:
    """Return for each operation the seconds it takes the official engine and the fast one on a game."""
    fast_game._load.cache_clear()
    began = process_time()
    official = TextWorldEpisode(path)
    official_load = process_time() - began
    fast_load = _repeated(lambda: (fast_game._load.cache_clear(), load_game(path)), 3)

    environment = AlfworldEnvironment(max_steps=steps + 1)
    began = process_time()
    official.start()
    official_reset = process_time() - began
    fast_reset = _repeated(lambda: environment.reset(options={"game": path}), REPEATS)

    prober = Prober(json.loads(Path(path).read_text(encoding="utf-8"))["walkthrough"], np.random.default_rng(seed))
    commands, official_steps = [], []
    while len(commands) < steps and not official.won:
        commands.append(prober.choose(official.admissible_commands))
        began = process_time()
        official.step(commands[-1])
        official_steps.append(process_time() - began)
    official.close()

    def play() -> None:
        environment.reset()
        for command in commands:
            environment.step(command)

    fast_step = (_repeated(play, REPEATS) - fast_reset) / len(commands)
    return {
        "load": (official_load, fast_load),
        "reset": (official_reset, fast_reset),
        "step": (sum(official_steps) / len(commands), fast_step),
    }


def load_all(paths: list[str]) -> dict[str, float]:
    """Load games and keep them, in this process; returns the seconds (CPU), the MiB that they take, and MiB in all."""
    process = psutil.Process()
    before = process.memory_info().rss
    began = process_time()
    kept = [load_game(path) for path in paths]
    seconds = process_time() - began
    after = process.memory_info().rss
    return {"games": len(kept), "seconds": seconds, "games_mib": (after - before) / 2**20, "process_mib": after / 2**20}


def _repeated(call: Callable[[], object], times: int) -> float:
    """Return the mean seconds of a call, after one that isn't counted."""
    call()
    began = process_time()
    for _ in range(times):
        call()
    return (process_time() - began) / times
