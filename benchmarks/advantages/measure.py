"""One measurement, in a process of its own so that its peak memory is its own; prints JSON."""

import argparse
import contextlib
import io
import json
import resource
import time
from pathlib import Path

from progpo.advantages.columns import REPORTED, needed_columns
from progpo.advantages.estimate import estimate
from progpo.settings import load_json
from progpo.settings.advantages import AdvantageSettings
from progpo.stages.advantages import run
from progpo.trajectories.read import read_shards


def main() -> None:
    """Time the stage, and its two heavier parts alone, on the shards of a folder."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("settings")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    settings = load_json(AdvantageSettings, given.settings)
    shards = sorted(given.folder.glob("shard-*.parquet"))
    stage, reading, estimating = [], [], []
    for _ in range(given.repeats):
        start = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()):
            run(settings, shards, given.folder / "advantages.parquet", given.folder / "metrics.json")
        stage.append(time.perf_counter() - start)
    # In KiB on Linux. Taken before the parts, which hold a table more than the stage does.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for _ in range(given.repeats):
        start = time.perf_counter()
        table, _ = read_shards(shards, needed_columns(settings), encoded=True, optional=REPORTED)
        middle = time.perf_counter()
        estimate(table, settings)
        estimating.append(time.perf_counter() - middle)
        reading.append(middle - start)
    print(json.dumps({"stage": stage, "read": reading, "estimate": estimating, "peak_mib": peak}))


if __name__ == "__main__":
    main()
