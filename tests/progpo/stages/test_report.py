"""The report pools seeds, keeps the arms' order, and refuses inputs that it can't place."""

import csv
import json
from pathlib import Path

import pytest

from progpo.artifacts import write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.settings.experiment import ReportStage
from progpo.stages.report import run
from progpo.statistics import wilson

SETTINGS = ReportStage(experiment="exp", arms=("grpo", "progpo"), seeds=(0, 1), confidence=0.95)


def rate(successes: int, episodes: int) -> dict:
    return {"episodes": episodes, "successes": successes, "success": successes / episodes, "steps": 10.0}


def evaluation(root: Path, seed: int, policy: str, successes: int) -> Path:
    path = root / f"seed-{seed}" / policy / "evaluation" / "summary.json"
    types = {"pick_two_obj_and_place": rate(0, 5), "pick_and_place_simple": rate(successes, 5)}
    write_json(path, {"splits": {"valid_seen": {**rate(successes, 10), "types": types}}})
    trajectories = path.with_name("trajectories.parquet")
    trajectories.write_text("")
    write_manifest(trajectories, "evaluate", {}, [trajectories, path])
    return path


def iteration(root: Path, seed: int, arm: str, number: int, success: float) -> Path:
    path = root / f"seed-{seed}" / arm / f"iteration-{number:03d}" / "advantages.json"
    overall = {"success_rate": success, "failed_fraction": 0.5, "first_visit_rate": 0.3, "valid_action_rate": 0.9}
    write_json(path, {**overall, "by_task_type": {}})
    table = path.with_name("advantages.parquet")
    table.write_text("")
    write_manifest(table, "advantages", {}, [table, path])
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    found = [evaluation(tmp_path, seed, "warmup", 1 + seed) for seed in (0, 1)]
    found += [evaluation(tmp_path, seed, "progpo/iteration-002", 4) for seed in (0, 1)]
    found += [evaluation(tmp_path, seed, "grpo/iteration-002", 3) for seed in (0, 1)]
    found += [
        iteration(tmp_path, seed, arm, n, 0.1 * n) for seed in (0, 1) for arm in ("grpo", "progpo") for n in (1, 2)
    ]
    return found


def test_tables(inputs: list[Path], tmp_path: Path) -> None:
    text = run(SETTINGS, inputs, tmp_path / "report" / "results.md", strict=True)
    with (tmp_path / "report" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    overall = [row for row in rows if row["task_type"] == "all"]
    assert [row["arm"] for row in overall] == ["warmup", "grpo", "progpo"]
    assert [int(row["episodes"]) for row in overall] == [20, 20, 20]
    assert [int(row["successes"]) for row in overall] == [3, 6, 8]
    low, high = wilson(3, 20)
    assert (float(overall[0]["low"]), float(overall[0]["high"])) == pytest.approx((low, high))
    assert (float(overall[0]["seed_min"]), float(overall[0]["seed_max"])) == pytest.approx((0.1, 0.2))

    assert f"15.0 [{100 * low:.1f}, {100 * high:.1f}]" in text
    markdown = (tmp_path / "report" / "results.md").read_text()
    assert "| progpo | 2 | 20 | 40.0 [21.9, 61.3] | 80 | 0 |" in markdown
    assert "| 2 | 20 | 50 | 20 | 50 |" in markdown

    with (tmp_path / "report" / "curves.csv").open() as file:
        curves = list(csv.DictReader(file))
    assert [(row["arm"], row["seed"], row["iteration"]) for row in curves[:3]] == [
        ("grpo", "0", "1"),
        ("grpo", "0", "2"),
        ("grpo", "1", "1"),
    ]


def test_order_of_inputs_changes_nothing(inputs: list[Path], tmp_path: Path) -> None:
    assert run(SETTINGS, inputs, tmp_path / "a") == run(SETTINGS, inputs[::-1], tmp_path / "b")
    assert (tmp_path / "a" / "curves.csv").read_text() == (tmp_path / "b" / "curves.csv").read_text()


def test_refusals(inputs: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "report"
    stray = tmp_path / "summary.json"
    stray.write_text("{}")
    with pytest.raises(ProgpoError, match="whose is it"):
        run(SETTINGS, [stray], output)
    with pytest.raises(ProgpoError, match="no evaluation"):
        run(SETTINGS, inputs[-1:], output)
    inputs[0].write_text(json.dumps({"splits": {}}))
    with pytest.raises(ProgpoError, match=r"summary\.json: changed"):
        run(SETTINGS, inputs, output)
    assert not output.exists()


def test_two_inputs_of_the_same_place_are_refused(inputs: list[Path], tmp_path: Path) -> None:
    other = evaluation(tmp_path, 0, "grpo/iteration-001", 2)
    with pytest.raises(ProgpoError, match=r"iteration-002/.*iteration-001/.*both are of grpo, seed 0"):
        run(SETTINGS, [*inputs, other], tmp_path / "report")
    other = iteration(tmp_path / "elsewhere", 1, "progpo", 2, 0.5)
    with pytest.raises(ProgpoError, match=r"progpo/iteration-002/.*elsewhere/.*both are of progpo, seed 1"):
        run(SETTINGS, [*inputs, other], tmp_path / "report")
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({}, "lacks 'splits'"),
        ([], "not an evaluation's summary"),
        ({"splits": None}, "not an evaluation's summary"),
        ({"splits": {"valid_seen": rate(1, 2)}}, "lacks 'types'"),
        ({"splits": {"valid_seen": {"types": {}, "successes": 1}}}, "lacks 'episodes'"),
        ({"splits": {"valid_seen": {**rate(1, 2), "types": {}, "episodes": 0}}}, "1 successes in 0 episodes"),
    ],
)
def test_an_incomplete_summary_is_named(inputs: list[Path], tmp_path: Path, content: object, reason: str) -> None:
    inputs[0].write_text(json.dumps(content))
    table = inputs[0].with_name("trajectories.parquet")
    write_manifest(table, "evaluate", {}, [table, inputs[0]])
    with pytest.raises(ProgpoError, match=rf"seed-0/warmup/evaluation/summary\.json: .*{reason}"):
        run(SETTINGS, inputs, tmp_path / "report", strict=True)
