"""Time both ALFWorld engines at loading a game, starting an episode and taking a step, and loading a whole split.

The engines take turns, game by game, at the same commands, so that what slows the machine slows both. Times are the
process's CPU time, which other work on the machine changes little. The fast engine is timed with all that `step` and
`reset` of the environment return (info and state key included), the official one without.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.alfworld.measure import compare, load_all
from envs.alfworld.generate import generate

#: A step is fast enough at either its ratio or this.
STEP_LIMIT = 40e-6
TARGETS = {"load": 300, "reset": 5000, "step": 500}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alfworld", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of released games; default: games generated here")
    parser.add_argument("--games", type=int, default=12, help="games to compare the engines on (default 12)")
    parser.add_argument("--steps", type=int, default=15, help="commands a game (default 15)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of games and commands")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.data or _generate(Path(place), max(given.games, 200), given.seed)
        paths = sorted(map(str, folder.rglob("game.tw-pddl")))
        if not paths:
            sys.exit(f"no game.tw-pddl below {folder}")
        chosen = np.random.default_rng(given.seed).permutation(paths)[: given.games].tolist()
        # The first game pays for the imports and for first calls: it is played, and not counted.
        times = [compare(path, given.steps, given.seed) for path in chosen[:1] + chosen][1:]
        train = [path for path in paths if "/train/" in path] or paths
        with get_context("spawn").Pool(1) as pool:
            whole = pool.apply(load_all, (train,))
    figures = {
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "games": len(chosen),
        "operations": {name: summary([time[name] for time in times]) for name in TARGETS},
        "all": whole,
    }
    _print(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


def summary(times: list[tuple[float, float]]) -> dict[str, Any]:
    """Return medians and quartiles over games of (official, fast) seconds and of their ratio."""
    official, fast = zip(*times, strict=True)
    ratios = [slow / quick for slow, quick in times]
    return {
        "official": median(official),
        "fast": median(fast),
        "fast_quartiles": _quartiles(fast),
        "ratio": median(ratios),
        "ratio_quartiles": _quartiles(ratios),
    }


def _quartiles(values: Any) -> list[float]:
    return [values[0]] * 2 if len(values) == 1 else quantiles(values, n=4)[::2]


def _generate(folder: Path, count: int, seed: int) -> Path:
    for index in range(count):
        generate(seed, "train", index).write(folder / "train")
    return folder


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


def _print(figures: dict[str, Any]) -> None:
    table = Table(title=f"official and fast engine, medians over {figures['games']} games (quartiles)")
    for heading in ("", "official ms", "fast ms", "quartiles", "times as fast", "quartiles", "wanted", ""):
        table.add_column(heading, justify="left" if heading == "" else "right")
    for name, found in figures["operations"].items():
        enough = found["ratio"] >= TARGETS[name] or (name == "step" and found["fast"] <= STEP_LIMIT)
        table.add_row(
            name,
            f"{found['official'] * 1e3:.1f}",
            f"{found['fast'] * 1e3:.4f}",
            "-".join(f"{seconds * 1e3:.4f}" for seconds in found["fast_quartiles"]),
            f"{found['ratio']:,.0f}",
            "-".join(f"{ratio:,.0f}" for ratio in found["ratio_quartiles"]),
            f"{TARGETS[name]:,}" + (f" or {STEP_LIMIT * 1e3:.2f} ms" if name == "step" else ""),
            "met" if enough else "missed",
        )
    console = Console(width=120)
    console.print(table)
    whole = figures["all"]
    console.print(
        f"all {whole['games']:,} games: {whole['seconds']:.2f} s, {whole['games_mib']:.0f} MiB "
        f"({whole['process_mib']:.0f} MiB the process; wanted for 3,553: under 6 s and 400 MB)"
    )
    console.print("{cpu}, {cores} cores, Python {python}".format(**figures["machine"]))


if __name__ == "__main__":
    main()
