"""Measure the WebShop environment: loading, memory and steps, and how they grow with the catalogue.

Each size is measured in a process of its own. The larger catalogues are the products of the first, copied under other
asins. Times are the process's CPU time, which other work on the machine changes little.
"""

import argparse
import json
import os
import platform
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.alfworld.__main__ import _cpu
from benchmarks.webshop.measure import measure, replicate
from envs.webshop.generate import generate
from envs.webshop.task_settings import Difficulty

BASE = 1000
#: Wanted: of 256 environments on 1,000 products.
MOST_MIB = 400
MOST_MS = 0.2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webshop", description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of a catalogue; default: 1,000 products generated here")
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 50_000], help="larger catalogues, in products")
    parser.add_argument("--slots", type=int, default=256, help="environments (default 256)")
    parser.add_argument("--steps", type=int, default=20_000, help="steps to time (default 20,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the shopper")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as place:
        base = given.data or Path(place) / "base"
        if given.data is None:
            generate(base, given.seed, Difficulty(products=BASE))
        for size in (None, *given.sizes):
            folder = base
            if size is not None:
                folder = Path(place) / str(size)
                replicate(base, folder, size)
            with get_context("spawn").Pool(1) as pool:
                found.append(pool.apply(measure, (str(folder), given.slots, given.steps, given.seed)))
    figures = {
        "machine": {"cpu": _cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "slots": given.slots,
        "catalogues": found,
    }
    _print(figures)
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _print(figures: dict[str, Any]) -> None:
    table = Table(title=f"WebShop, {figures['slots']} environments a process")
    for heading in (
        "products",
        "goals",
        "load s",
        "index s",
        "goals s",
        "MiB loaded",
        "indexed",
        "with goals",
        "in all",
    ):
        table.add_column(heading, justify="right")
    for kind in ("search", "click", "buy", "all"):
        table.add_column(f"{kind} ms", justify="right")
    for found in figures["catalogues"]:
        table.add_row(
            f"{found['products']:,}",
            f"{found['goals']:,}",
            *(f"{found[f'{name}_s']:.2f}" for name in ("load", "index", "goals")),
            *(f"{found[f'{name}_mib']:.0f}" for name in ("load", "index", "goals", "shopped")),
            *(f"{found['steps'][kind]['ms']:.3f}" for kind in ("search", "click", "buy", "all")),
        )
    console = Console(width=140)
    console.print(table)
    first = figures["catalogues"][0]
    for name, value, most in (
        ("MiB", first["shopped_mib"], MOST_MIB),
        ("ms a step", first["steps"]["all"]["ms"], MOST_MS),
    ):
        met = "met" if value < most else "missed"
        console.print(f"{first['products']:,} products: {value:.3g} {name}, wanted under {most}: {met}")
    console.print("{cpu}, {cores} cores, Python {python}".format(**figures["machine"]))


if __name__ == "__main__":
    main()
