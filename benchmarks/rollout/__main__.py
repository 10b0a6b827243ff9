"""Time a rollout of the default policy on the fast engine, beside the two usual ways to sample, in one run.

Timed: playing the episodes, models and games loaded before. A token is counted once, however often a way reads it
again. The policy is one that was warmed up for a short while on generated games, or the one that is given.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.rollout.peers import generate_each_turn, padded_cache
from benchmarks.rollout.shares import Shares, play_measured
from benchmarks.rollout.workload import WARMUP_TOKENS, Workload, make_workload

PEERS = {"generate, context read again each turn": generate_each_turn, "batched loop, padded cache": padded_cache}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rollout", description=__doc__)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-steps", type=int, default=50)
    parser.add_argument("--alone", action="store_true", help="leave the other ways out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--warmup-tokens", type=int, default=WARMUP_TOKENS)
    parser.add_argument("--policy", type=Path, help="a policy folder, with --tasks: instead of a fresh one")
    parser.add_argument("--tasks", type=Path, help="a task folder")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as place:
        work = make_workload(Path(place), given.policy, given.tasks, given.episodes, given.warmup_tokens)
        work = replace(work, max_steps=given.max_steps)
        peers = {} if given.alone else PEERS
        runs: dict[str, list[dict[str, Any]]] = {}
        shares: list[Shares] = []
        for _ in range(given.repeats):
            # Interleaved, so that what else the machine does falls on all.
            played, share = play_measured(work, given.temperature, given.batch)
            shares.append(share)
            runs.setdefault("progpo", []).append(played)
            for name, way in peers.items():
                runs.setdefault(name, []).append(_time(work, way, given.temperature, given.batch))
    _print(runs, shares, given)
    if given.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        figures = {"machine": machine, "runs": runs, "shares": [share.__dict__ for share in shares]}
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


def _time(work: Workload, way: Callable[..., Any], temperature: float, batch: int) -> dict[str, Any]:
    torch.manual_seed(0)
    started, watch = time.process_time(), time.perf_counter()
    played = way(work.stock, work.episodes, work.make_environment, temperature, batch)
    return {
        "cpu": time.process_time() - started,
        "wall": time.perf_counter() - watch,
        "tokens": played.tokens,
        "steps": played.steps,
        "episodes": played.episodes,
    }


def _print(runs: dict[str, list[dict[str, Any]]], shares: list[Shares], given: argparse.Namespace) -> None:
    console = Console()
    table = Table(title=f"{given.episodes} episodes, {given.batch} at once, {given.threads} thread(s)")
    for column in ("way", "tokens", "steps", "tokens/s", "least to most", "episodes/s", "progpo is faster by"):
        table.add_column(column, justify="left" if column == "way" else "right")
    speeds = {name: [run["tokens"] / run["wall"] for run in of_way] for name, of_way in runs.items()}
    for name, of_way in runs.items():
        table.add_row(
            name,
            f"{of_way[0]['tokens']}",
            f"{of_way[0]['steps']}",
            f"{median(speeds[name]):.0f}",
            f"{min(speeds[name]):.0f} to {max(speeds[name]):.0f}",
            f"{median(run['episodes'] / run['wall'] for run in of_way):.2f}",
            "" if name == "progpo" else f"{median(speeds['progpo']) / median(speeds[name]):.1f}x",
        )
    console.print(table)
    whole = median(share.wall for share in shares)
    parts = {part: median(getattr(share, part) for share in shares) for part in ("model", "environment", "tokenizer")}
    parts["Python"] = whole - sum(parts.values())
    console.print("progpo's time:", ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in parts.items()))


if __name__ == "__main__":
    main()
