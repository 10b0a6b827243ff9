"""One complete run of the tiny config, and copies of it to be changed and damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipeline.running import Run, fresh


@pytest.fixture(scope="session")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A complete run; not to be touched."""
    run = fresh(tmp_path_factory.mktemp("complete"))
    result = run()
    assert result.returncode == 0, result.stdout
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
