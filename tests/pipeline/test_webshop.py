"""WebShop through the whole pipeline."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from progpo.artifacts import verify
from tests.pipeline.running import Run, fresh

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).with_name("webshop.yaml")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A complete run; not to be touched."""
    run = fresh(tmp_path_factory.mktemp("shop"))
    shutil.copy(CONFIG, run.folder / "config.yaml")
    result = run()
    assert result.returncode == 0, result.stdout
    assert "Success % on test" in result.stdout
    return run


def test_artifacts_are_whole_and_nothing_is_left_to_do(shop: Run) -> None:
    assert verify(shop.artifacts) == ([], [])
    assert shop.planned(PYTHONHASHSEED="1") == {}


def test_what_was_shown_was_won(shop: Run) -> None:
    shown = pq.read_table(shop.artifacts / "demonstrations/demonstrations.parquet")
    assert set(shown["score"].to_pylist()) == {1.0}
    actions = [
        action
        for action, valid in zip(*(shown[name].to_pylist() for name in ("action", "valid")), strict=True)
        if valid
    ]
    assert sum(action.startswith("search[") for action in actions) >= 24
    metrics = json.loads((shop.artifacts / "demonstrations/metrics.json").read_text())
    assert metrics["variants"]["clean"]["all"]["success"] == 1.0


def test_rewards_are_scores_and_the_gate_is_success(shop: Run) -> None:
    folder = shop.artifacts / "seed-0"
    shards = sorted((folder / "shared/iteration-001").glob("shard-*.parquet"))
    rows = [row for shard in shards for row in pq.read_table(shard).to_pylist()]
    assert {row["task_type"] for row in rows} <= {"beauty", "electronics", "fashion", "garden", "grocery"}
    ends = [row for row in rows if row["terminated"] or row["truncated"]]
    assert all(row["outcome"] == row["score"] for row in ends)
    assert all(row["reward"] == (row["score"] if row["terminated"] else 0.0) for row in ends)
    scores: dict[int, list[float]] = {}
    for row in ends:
        scores.setdefault(row["group"], []).append(row["score"])
    failed = sum(max(of_group) < 1 for of_group in scores.values()) / len(scores)
    metrics = json.loads((folder / "progpo/iteration-001/advantages.json").read_text())
    assert metrics["failed_fraction"] == failed
