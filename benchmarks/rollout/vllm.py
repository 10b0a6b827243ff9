"""Time a rollout of the default policy beside vLLM on the processor: `python -m benchmarks.rollout.vllm`.

Run it in an environment that has both (docs/vllm.md). Both players are processes of their
own in either precision, which load everything and play once before they are timed; then they take turns. A token is
counted once, however often a way reads it again; CPU time is that of a process and its children.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.rollout.workload import WARMUP_TOKENS, make_policy, make_workload
from progpo.policy.backends import open_backend
from progpo.policy.play import play_with
from progpo.settings.stages import RolloutSettings

MISSING = "vllm is not installed here; make an environment for it as docs/vllm.md tells, and run this there"
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Side:
    """One process: who plays (progpo or vLLM), in which precision, and everything else that it is told."""

    vllm: bool
    precision: str
    given: argparse.Namespace

    @property
    def name(self) -> str:
        """As the table has it; what follows the comma is the precision."""
        return f"{'vLLM' if self.vllm else 'progpo'}, {self.precision}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollout.vllm", description=__doc__)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--eager", action="store_true", help="do not let vLLM compile the model")
    parser.add_argument("--warmup-tokens", type=int, default=WARMUP_TOKENS)
    parser.add_argument("--policy", type=Path, help="a policy folder, with --tasks: instead of a fresh one")
    parser.add_argument("--tasks", type=Path, help="a task folder")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    if find_spec("vllm") is None:
        sys.exit(MISSING)
    # Read when torch is imported, which the processes started below do.
    os.environ["OMP_NUM_THREADS"] = str(given.threads)
    runs: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        if given.policy is None or given.tasks is None:
            given.policy, given.tasks = make_policy(Path(place), given.warmup_tokens)
        sides = [Side(vllm, precision, given) for precision in given.precisions for vllm in (False, True)]
        opened = [(side, stack.enter_context(_started(side))) for side in sides]
        for number in range(given.repeats):
            for side, ask in opened:
                runs.setdefault(side.name, []).append(ask(number))
    figures = summary(runs)
    _print(figures, given)
    if given.json:
        given.json.write_text(json.dumps({"cores": os.cpu_count(), "runs": runs, "ways": figures}, indent=1) + "\n")


@contextmanager
def _started(side: Side) -> Iterator[Callable[[Any], Any]]:
    """Start a side's process; give what asks it to play, and end it afterwards."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(side, there))
    process.start()
    there.close()

    def ask(what: Any) -> Any:
        here.send(what)
        return answer()

    def answer() -> Any:
        try:
            return here.recv()
        except EOFError:
            sys.exit(f"{side.name}: its process ended; what it says about it is above")

    try:
        answer()
        yield ask
    finally:
        here.close()
        process.join()


def _serve(side: Side, pipe: Connection) -> None:
    given = side.given
    settings = RolloutSettings(
        backend="vllm" if side.vllm else "progpo",
        batch=given.batch,
        precision=side.precision,
        threads=given.threads,
        vllm={"eager": given.eager},
    )
    # First: it loads vLLM, which wants to be imported before all else that computes.
    backend = open_backend(given.policy, settings, given.temperature, strict=False)
    work = make_workload(Path(), given.policy, given.tasks, given.episodes, given.warmup_tokens)

    def play(number: int) -> dict[str, int]:
        played = play_with(
            backend,
            work.episodes,
            work.make_environment,
            batch=given.batch,
            seed=number,
            iteration=1,
            label=side.name,
        )
        steps = [step for trajectory in played for step in trajectory.steps]
        tokens = sum(len(step.context_tokens) + len(step.response_tokens) for step in steps)
        return {"tokens": tokens, "steps": len(steps), "episodes": len(played)}

    play(0)
    pipe.send("ready")
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        started, watch = _cpu(), time.perf_counter()
        done = play(number)
        pipe.send({"wall": time.perf_counter() - watch, "cpu": _cpu() - started, **done})


def _cpu() -> float:
    """Return the CPU seconds of this process and of its children, those that ended too."""
    this = psutil.Process()
    times = [this.cpu_times(), *(child.cpu_times() for child in this.children(recursive=True))]
    return sum(item.user + item.system for item in times) + times[0].children_user + times[0].children_system


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, dict[str, float]]:
    """Return the figures of each way: medians over its runs, and how much slower than progpo it is.

    Args:
        runs: of each way, named as a `Side`; those of progpo are among them.
    """
    figures: dict[str, dict[str, float]] = {}
    for way, of_way in runs.items():
        speeds = [run["tokens"] / run["wall"] for run in of_way]
        figures[way] = {
            "tokens/s": median(speeds),
            "least": min(speeds),
            "most": max(speeds),
            "tokens/CPU s": median(run["tokens"] / run["cpu"] for run in of_way),
            "episodes/s": median(run["episodes"] / run["wall"] for run in of_way),
        }
    for way, figure in figures.items():
        alike = figures[f"progpo, {way.rpartition(', ')[2]}"]
        for rate, name in (("tokens/s", "wall"), ("tokens/CPU s", "CPU")):
            figure[f"slower than alike, {name}"] = alike[rate] / figure[rate]
            if "progpo, float32" in figures:
                figure[f"slower than float32, {name}"] = figures["progpo, float32"][rate] / figure[rate]
    return figures


def _print(figures: dict[str, dict[str, float]], given: argparse.Namespace) -> None:
    title = f"{given.episodes} episodes, {given.batch} at once, {given.threads} thread(s), {given.repeats} runs each"
    table = Table(title=title)
    for column in (
        "way",
        "tokens/s",
        "least to most",
        "tokens/CPU s",
        "episodes/s",
        "progpo in float32 is faster by (CPU)",
        "progpo in the same precision is faster by (CPU)",
    ):
        table.add_column(column, justify="left" if column == "way" else "right")
    for way, figure in figures.items():
        ratios = [
            f"{figure[f'slower than {whom}, wall']:.1f}x ({figure[f'slower than {whom}, CPU']:.1f}x)"
            if f"slower than {whom}, wall" in figure
            else ""
            for whom in ("float32", "alike")
        ]
        table.add_row(
            way,
            f"{figure['tokens/s']:.0f}",
            f"{figure['least']:.0f} to {figure['most']:.0f}",
            f"{figure['tokens/CPU s']:.0f}",
            f"{figure['episodes/s']:.2f}",
            *ratios,
        )
    Console().print(table)


if __name__ == "__main__":
    main()
