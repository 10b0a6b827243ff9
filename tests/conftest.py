"""Fixtures for all tests."""

import os
import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
SHARED = TESTS.parents[1] / "shared"
#: The files that take longest, first, lest all processes but one wait at the end. Those on the cluster mostly wait
#: themselves. What needs the complete run of `pipeline/` follows the one that makes it.
FIRST = [
    "slurm/test_slurm.py",
    "pipeline/test_checkpoints.py",
    "pipeline/test_caching.py",
    "pipeline/test_status.py",
    "pipeline/test_webshop.py",
    "pipeline/test_kill.py",
    "pipeline/test_features.py",
    "pipeline/test_keep.py",
    "pipeline/test_damage.py",
    "pipeline/test_bad_input.py",
]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the checkout; without it the test is skipped."""
    if not SHARED.is_dir():
        pytest.skip(f"no reference data at {SHARED}")
    return SHARED


def pytest_configure() -> None:
    """Have what tests start heed interrupts, also where the tests run in a shell's background, which ignores them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest first; with `--no-loadscope-reorder`, pytest-xdist keeps to that."""
    places = {TESTS / name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process a core, and one for the tests on the cluster, which mostly wait."""
    return len(os.sched_getaffinity(0)) + 1
