"""Whether a run came to what was published."""

import shutil
from pathlib import Path

import pytest

from progpo.errors import ProgpoError
from progpo.report import figures
from progpo.report.match import match
from progpo.report.publish import publish
from progpo.results import WARMUP
from progpo.settings.experiment import load_experiment
from progpo.status import record
from tests.progpo.stages.test_report import evaluation, iteration, update


def make(root: Path, seeds: tuple[int, ...], success: float = 0.25) -> Path:
    """Make a run of one arm, as the stages leave it."""
    for seed in seeds:
        evaluation(root, seed, WARMUP, 1)
        iteration(root, seed, "grpo", 1, success)
        update(root, seed, "grpo", 1, 0.5, [])
        evaluation(root, seed, "grpo/iteration-001", 4)
    return root


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(figures, "CAPTIONS", ("success",))
    root = make(tmp_path / "first" / "exp", (0, 1))
    config = {"experiment": "exp", "iterations": 1, "seeds": [0, 1], "arms": {"grpo": {"base": "grpo"}}}
    record(root, load_experiment(config))
    publish(root, tmp_path / "published")
    return tmp_path / "published"


def test_part_of_a_run_is_compared_in_that_part(published: Path, tmp_path: Path) -> None:
    again = make(tmp_path / "again" / "exp", (1,))
    told = match(again, published)
    assert "1 of 2 rows of curves.parquet and 20 of 40 rows of evaluations.parquet" in told


def test_each_difference_is_named(published: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "other" / "exp", (0,), success=0.375)
    with pytest.raises(ProgpoError, match=r"arm grpo, seed 0, iteration 1: success 0.375, published 0.25"):
        match(other, published)
    evaluated = make(tmp_path / "third" / "exp", (0,))
    shutil.rmtree(evaluated / "seed-0" / "grpo" / "iteration-001" / "evaluation")
    evaluation(evaluated, 0, "grpo/iteration-001", 5)
    with pytest.raises(ProgpoError, match=r"1 rows are not as published:\n.*successes 1, published 0"):
        match(evaluated, published)


def test_nothing_in_common_is_an_error(published: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match="no arm, seed and iteration in common"):
        match(make(tmp_path / "fourth" / "exp", (7,)), published)
