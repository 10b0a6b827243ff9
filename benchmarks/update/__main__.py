"""Time the policy update on the trajectories of one real iteration, packed as the project does it, and padded.

One iteration of the default pipeline is made first (tasks, demonstrations, a short warm-up, rollouts, advantages).
The padded loop fills batches of the same number of tokens, padding included, in the order of the trajectories, and
computes logits everywhere. Both take one optimiser step on the whole iteration, with one thread; each measurement is a
process of its own, and they take turns. Times are CPU time, which other work on the machine changes little.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.update.data import make_iteration

#: (way, precision, KL coefficient)
CASES = [
    (way, precision, kl)
    for kl in (0.01, 0.0)
    for precision in ("float32", "bfloat16")
    for way in ("padded", "packed")
    if precision == "float32" or torch.cpu._is_avx512_bf16_supported()
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.update", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder to make the iteration in, or where it is; default: temporary")
    parser.add_argument("--rounds", type=int, default=2, help="processes for each case")
    parser.add_argument("--repeats", type=int, default=3, help="updates in each process")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.data or Path(place)
        make_iteration(folder)
        found: dict[tuple[str, str, float], list[dict[str, Any]]] = {case: [] for case in CASES}
        for _ in range(given.rounds):
            for way, precision, kl in CASES:
                command = [sys.executable, "-m", "benchmarks.update.measure", str(folder), way]
                options = ["--precision", precision, "--kl", str(kl), "--repeats", str(given.repeats)]
                done = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=True)
                found[way, precision, kl].append(json.loads(done.stdout))
    rates = {precision: matrix_rate(getattr(torch, precision)) for precision in ("float32", "bfloat16")}
    figures = [summary(*case, runs, rates) for case, runs in found.items()]
    _print(figures, rates)
    if given.json:
        given.json.write_text(json.dumps({"cores": os.cpu_count(), "rates": rates, "cases": figures}, indent=1) + "\n")


def matrix_rate(dtype: torch.dtype, rows: int = 16384, inner: int = 128, columns: int = 384) -> float:
    """Return the operations a second of a matrix product of the default policy's shape, one thread, at best."""
    torch.set_num_threads(1)
    left, right = torch.randn(rows, inner).to(dtype), torch.randn(columns, inner).to(dtype)
    best = float("inf")
    for _ in range(20):
        started = time.process_time()
        torch.mm(left, right.t())
        best = min(best, time.process_time() - started)
    return 2 * rows * inner * columns / best


def summary(way: str, precision: str, kl: float, runs: list[dict[str, Any]], rates: dict[str, float]) -> dict[str, Any]:
    """Sum the runs of a case up; the first update of each process, which warms it up, is left out."""
    seconds = [value for run in runs for value in (run["cpu"][1:] or run["cpu"])]
    first = runs[0]
    middle = median(seconds)
    return {
        "way": way,
        "precision": precision,
        "kl": kl,
        "seconds": middle,
        "least": min(seconds),
        "most": max(seconds),
        "tokens_a_second": first["tokens"] / middle,
        "peak_mib": max(run["peak_mib"] for run in runs),
        "matrix_share": first["products"] * first["tokens"] / middle / rates[precision],
        **{name: first[name] for name in ("tokens", "response_tokens", "sequences", "longest", "computed_share")},
    }


def _print(figures: list[dict[str, Any]], rates: dict[str, float]) -> None:
    first = figures[0]
    console = Console(width=130)
    console.print(
        f"{first['sequences']} trajectories, {first['tokens']} tokens (the longest {first['longest']}), of which "
        f"{first['response_tokens']} sampled"
    )
    table = Table(title="one update, one thread")
    for heading in ("case", "CPU s", "spread", "tokens/s", "padded / packed", "peak MiB", "of matrix rate"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    slow = {(item["precision"], item["kl"]): item["seconds"] for item in figures if item["way"] == "padded"}
    for item in figures:
        case = f"{item['way']}, {item['precision']}, {'with KL term' if item['kl'] else 'no KL term'}"
        if item["computed_share"] < 1 and item["way"] == "packed":
            case += f" ({item['computed_share']:.0%} of tokens have a gradient)"
        table.add_row(
            case,
            f"{item['seconds']:.2f}",
            f"{item['least']:.2f}-{item['most']:.2f}",
            f"{item['tokens_a_second']:.0f}",
            f"{slow[item['precision'], item['kl']] / item['seconds']:.1f}x" if item["way"] == "packed" else "",
            f"{item['peak_mib']:.0f}",
            f"{item['matrix_share']:.0%}",
        )
    console.print(table)
    text = ", ".join(f"{precision} {rate / 1e9:.0f} GFLOP/s" for precision, rate in rates.items())
    console.print(f"matrix rate of these shapes: {text}; its share counts only products that cannot be done without")


if __name__ == "__main__":
    main()
