"""Fixtures for all tests."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the checkout; without it the test is skipped."""
    if not SHARED.is_dir():
        pytest.skip(f"no reference data at {SHARED}")
    return SHARED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the cluster's tests first: they take longest and mostly wait, so other workers should not wait for them."""
    items.sort(key=lambda item: "slurm" not in item.path.parts)
