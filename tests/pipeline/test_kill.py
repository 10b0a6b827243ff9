"""SIGKILL of the whole process group in the middle of a stage, then the same command again."""

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


def wait_for(log: Path, process: subprocess.Popen, limit: float = 300) -> None:
    """Wait until a stage's log exists: its command has started."""
    deadline = time.monotonic() + limit
    while not log.exists():
        assert process.poll() is None, "the run ended before the stage began"
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("stage", "log", "most"),
    [
        ("warmup", "seed-0/warmup.log", 8.0),
        ("rollout", "seed-0/shared/iteration-001/shard-00.log", 5.0),
        ("update", "seed-0/grpo/iteration-001/update.log", 5.0),
    ],
)
def test_killed_run_is_taken_up(complete: Run, start: Callable[[], Run], stage: str, log: str, most: float) -> None:
    delay = random.Random().uniform(0.0, most)
    print(f"{stage}: killed {delay:.2f} s after its start")
    run = start()
    with (run.folder / "killed.log").open("w") as output:
        process = subprocess.Popen(
            run.command(),
            cwd=run.folder,
            env=run.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        wait_for(run.artifacts / "logs" / log, process)
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    run.settle()

    # What stands under an artifact's name is whole; finished stages are as their manifests say.
    assert verify(run.artifacts) == ([], [])
    # A job that was killed between its last write and Snakemake's record of it is done again; all others are kept.
    again = run.incomplete()
    kept = {path: path.stat().st_mtime_ns for path in run.artifacts.rglob("*manifest.json") if path not in again}

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
        deadline = time.monotonic() + 60
        while not (locks.is_dir() and any(locks.iterdir())):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        second = run()
        assert second.returncode == 1
        assert "another run is alive" in second.stdout
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
