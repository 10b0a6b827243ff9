"""SIGKILL of the whole process group in the middle of a stage, then the same command again.

What comes of it is what a run makes that was never killed: so two runs of the same config are identical as well.
"""

import csv
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from progpo.artifacts import PARTIAL, verify
from tests.pipeline.running import Run

pytestmark = pytest.mark.slow

#: The stages that are killed, one after the other: how its log and its benchmark are called, and what it writes last.
KILLED = {
    "seed-0/warmup": "seed-0/warmup/policy/manifest.json",
    "seed-0/shared/iteration-001/shard-00": "seed-0/shared/iteration-001/shard-00.parquet.manifest.json",
    "seed-0/grpo/iteration-002/update": "seed-0/grpo/iteration-002/policy/manifest.json",
}
#: Seconds after which something has gone wrong; only a machine that does much else comes near.
LIMIT = 1800


def start_and_kill(run: Run, stage: str, seconds: float) -> str:
    """Start a run, kill it so long after a stage began, or when that has written its last; return its output."""
    log = run.artifacts / "logs" / f"{stage}.log"
    # It may have begun before the last kill.
    log.unlink(missing_ok=True)
    told = run.folder / "killed.log"
    with told.open("w") as output:
        process = subprocess.Popen(
            run.command(),
            cwd=run.folder,
            env=run.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + LIMIT
    while not log.exists():
        assert process.poll() is None, told.read_text()
        assert time.monotonic() < deadline, told.read_text()
        time.sleep(0.02)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (run.artifacts / KILLED[stage]).exists():
        assert process.poll() is None, told.read_text()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    run.settle()
    return told.read_text()


def duration(run: Run, stage: str) -> float:
    """Return how long a stage took, in seconds."""
    with (run.artifacts / "benchmarks" / f"{stage}.tsv").open() as file:
        return float(next(csv.DictReader(file, delimiter="\t"))["s"])


def test_a_run_killed_in_stage_after_stage_is_taken_up(complete: Run, start: Callable[[], Run]) -> None:
    run = start()
    kept: dict[Path, int] = {}
    for number, stage in enumerate(KILLED):
        delay = random.Random().uniform(0.0, duration(complete, stage))
        print(f"{stage}: killed {delay:.2f} s after its start")
        told = start_and_kill(run, stage, delay)
        assert ("an earlier run was killed; unlocking" in told) == (number > 0)
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        # What stands under an artifact's name is whole; finished stages are as their manifests say.
        assert verify(run.artifacts) == ([], [])
        # A job that was killed between its last write and Snakemake's record of it is done again; all others are kept.
        kept = run.done()
        assert len(kept) > number

    result = run()
    assert result.returncode == 0, result.stdout
    assert "an earlier run was killed; unlocking" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert not [path for path in run.artifacts.rglob(f"*{PARTIAL}")]
    assert not [path for path in run.artifacts.rglob("*.progress")]
    assert run.contents() == complete.contents()


def test_a_living_run_is_not_unlocked(start: Callable[[], Run]) -> None:
    run = start()
    process = subprocess.Popen(
        run.command(), cwd=run.folder, env=run.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        locks = run.folder / ".snakemake" / "locks"
        deadline = time.monotonic() + LIMIT
        while not (locks.is_dir() and any(locks.iterdir())):
            assert process.poll() is None, "the run ended before it held a lock"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        second = run()
        assert second.returncode == 1
        assert "another run is alive" in second.stdout
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
