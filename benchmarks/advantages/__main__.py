"""Time the advantages stage for each base, alone and under ProGPO, at growing sizes.

Timed: the whole stage as a function: reading the shards (8 files on a warm disk cache), all of the estimation, the
metrics, and writing the table, the metrics and the manifest. Not timed: the interpreter's start and imports.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.advantages.data import STEPS, make_shards
from benchmarks.advantages.peer import per_step_rescan

BASES = ("grpo", "rloo", "gigpo", "hgpo")
PEER_ROWS = (5_500, 11_000, 22_000)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.advantages", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="step rows")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    arms = {base: {"base": base} for base in BASES}
    arms |= {f"progpo over {base}": {"base": base, "progress": {}} for base in BASES}
    arms["progpo over gigpo, both levels"] = {"base": "gigpo", "progress": {"level": "both"}}
    found: dict[str, dict[int, Any]] = {name: {} for name in arms}
    with tempfile.TemporaryDirectory() as place:
        for rows in sorted(given.rows):
            folder = Path(place) / str(rows)
            make_shards(folder, rows, given.shards)
            for name, settings in arms.items():
                found[name][rows] = _measure(folder, settings, given.repeats)
    peer = {rows: _time_peer(rows) for rows in PEER_ROWS}
    _print(found, peer)
    if given.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        given.json.write_text(json.dumps({"machine": machine, "stage": found, "peer": peer}, indent=1) + "\n")


def growth(times: dict[int, float]) -> float:
    """Return the exponent of rows in the time between the smallest and the largest size: 1 is linear."""
    small, large = min(times), max(times)
    return math.log(times[large] / times[small]) / math.log(large / small) if large > small else math.nan


def _measure(folder: Path, settings: dict[str, Any], repeats: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.advantages.measure", str(folder), json.dumps(settings)]
    done = subprocess.run([*command, "--repeats", str(repeats)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _time_peer(rows: int) -> float:
    names = np.array([f"trajectory-{row // STEPS}" for row in range(rows)], dtype=object)
    start = time.perf_counter()
    per_step_rescan(names, np.zeros(rows), 0.95)
    return time.perf_counter() - start


def _print(found: dict[str, dict[int, Any]], peer: dict[int, float]) -> None:
    sizes = sorted(next(iter(found.values())))
    table = Table(title="advantages stage, seconds (median; smallest to largest for the largest size)")
    table.add_column("arm")
    for rows in sizes:
        table.add_column(f"{rows:,} rows", justify="right")
    for heading in ("spread", "of it: read", "estimate", "peak MiB", "rows^"):
        table.add_column(heading, justify="right")
    for name, by_rows in found.items():
        largest = by_rows[sizes[-1]]
        table.add_row(
            name,
            *(f"{median(by_rows[rows]['stage']):.3f}" for rows in sizes),
            f"{min(largest['stage']):.2f}-{max(largest['stage']):.2f}",
            f"{median(largest['read']):.3f}",
            f"{median(largest['estimate']):.3f}",
            f"{largest['peak_mib']:.0f}",
            f"{growth({rows: median(by_rows[rows]['stage']) for rows in sizes}):.2f}",
        )
    console = Console(width=130)
    console.print(table)
    text = ", ".join(f"{rows:,} rows {seconds:.2f} s" for rows, seconds in peer.items())
    console.print(f"per-step rescan, returns to go alone: {text}: rows^{growth(peer):.2f}")


if __name__ == "__main__":
    main()
