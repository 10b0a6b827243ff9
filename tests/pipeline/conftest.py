"""One complete run of the tiny config, and copies of it to be changed and damaged."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.running import Run, fresh


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A complete run; not to be touched, nor to be planned in, since the tests' processes share it."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    run = fresh(base / "complete")
    outcome = base / "complete.log"
    # Who needs it first makes it; who comes meanwhile waits.
    with (base / "complete.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not outcome.exists():
            result = run()
            outcome.write_text(f"{result.returncode}\n{result.stdout}")
    assert outcome.read_text().startswith("0\n"), outcome.read_text()
    return run


@pytest.fixture
def copy(complete: Run, tmp_path: Path) -> Run:
    """A copy of the complete run, times kept, to be changed."""
    shutil.copytree(complete.folder, tmp_path / "run", symlinks=True)
    return Run(tmp_path / "run")


@pytest.fixture
def start(tmp_path: Path) -> Callable[[], Run]:
    """Make a fresh folder to run in."""
    return lambda: fresh(tmp_path / "fresh")
