"""The report pools seeds, keeps the arms' order, and refuses inputs that it can't place."""

import csv
import json
from functools import partial
from pathlib import Path

import pytest

from progpo.artifacts import write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.settings.experiment import ReportStage
from progpo.stages import report
from progpo.statistics import wilson

#: The tables alone: the page has tests of its own (`tests/progpo/report`).
run = partial(report.run, page=False)
SETTINGS = ReportStage(experiment="exp", arms=("grpo", "progpo"), seeds=(0, 1), confidence=0.95)


def rate(successes: int, episodes: int) -> dict:
    return {"episodes": episodes, "successes": successes, "success": successes / episodes, "steps": 10.0}


def evaluation(root: Path, seed: int, policy: str, successes: int, stage: str = "evaluation") -> Path:
    path = root / f"seed-{seed}" / policy / stage / "summary.json"
    types = {"pick_two_obj_and_place": rate(0, 5), "pick_and_place_simple": rate(successes, 5)}
    tasks = {
        f"task-{number}": {
            "task_type": list(types)[number // 5],
            "episodes": 1,
            "successes": int(5 <= number < 5 + successes),
        }
        for number in range(10)
    }
    write_json(path, {"splits": {"valid_seen": {**rate(successes, 10), "types": types, "tasks_by_id": tasks}}})
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


def test_scores_are_told_where_they_differ_from_success(inputs: list[Path], tmp_path: Path) -> None:
    plain = run(SETTINGS, inputs, tmp_path / "report" / "results.md")
    assert "score" not in plain
    for number, path in enumerate(inputs[:2]):
        summary = json.loads(path.read_text())
        summary["splits"]["valid_seen"]["score"] = 0.5 + number / 4
        write_json(path, summary)
        write_manifest(path.with_name("trajectories.parquet"), "evaluate", {}, [path])
    text = run(SETTINGS, inputs, tmp_path / "report" / "results.md")
    header = next(line for line in text.splitlines() if line.startswith("arm"))
    assert header.split()[:5] == ["arm", "seeds", "episodes", "all", "score"]
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith(("warmup", "grpo"))}
    assert lines["warmup"][6] == "62.5"
    assert lines["grpo"][6] == "30.0"


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


def update(root: Path, seed: int, arm: str, number: int, entropy: float, alarms: list[dict]) -> Path:
    folder = root / f"seed-{seed}" / arm / f"iteration-{number:03d}"
    path = folder / "update.json"
    names = ("kl", "policy_kl", "clip_fraction", "gradient_norm", "ratio_mean", "ratio_deviation")
    write_json(path, {"entropy": entropy, **dict.fromkeys(names, 0.125), "alarms": alarms})
    weights = folder / "policy" / "weights"
    weights.parent.mkdir()
    weights.write_text("")
    write_manifest(folder / "policy", "update", {}, [weights, path])
    return path


def test_validation_best_iteration_and_alarms(inputs: list[Path], tmp_path: Path) -> None:
    validations = [
        *(evaluation(tmp_path, seed, "warmup", 1, "validation") for seed in (0, 1)),
        *(evaluation(tmp_path, seed, f"grpo/iteration-00{n}", 2 + n, "validation") for seed in (0, 1) for n in (1, 2)),
        *(evaluation(tmp_path, 0, f"progpo/iteration-00{n}", 6 - n, "validation") for n in (1, 2)),
    ]
    bests = []
    for seed, arm, chosen in [(0, "grpo", 2), (1, "grpo", 2), (0, "progpo", 1)]:
        bests.append(tmp_path / f"seed-{seed}/{arm}/best.json")
        write_json(bests[-1], {"iteration": chosen})
        write_manifest(bests[-1], "best", {}, [bests[-1]])
    alarm = {"alarm": "entropy", "value": 0.01, "limit": 0.1, "message": "the entropy collapsed"}
    updates = [update(tmp_path, 0, "grpo", n, 0.5 / n, [alarm] if n == 2 else []) for n in (1, 2)]
    text = run(SETTINGS, [*inputs, *validations, *bests, *updates], tmp_path / "report", strict=True)
    markdown = (tmp_path / "report" / "results.md").read_text()
    assert "## Validation: success % on valid_seen (*: the best of a seed)" in markdown
    assert (
        "| iteration | grpo | progpo |\n|---|---|---|\n| 0 | 10 | 10 |\n| 1 | 30 | 50* |\n| 2 | 40* | 40 |" in markdown
    )
    assert "| grpo | 1 | 2 | 40 |" in markdown
    assert "| progpo | 0 | 1 | 50 |" in markdown
    assert "| grpo | 0 | entropy | 1 | 2 | the entropy collapsed |" in markdown
    assert "Alarms" in text
    with (tmp_path / "report" / "curves.csv").open() as file:
        curves = {(row["arm"], row["seed"], row["iteration"]): row for row in csv.DictReader(file)}
    row = curves["grpo", "0", "2"]
    assert (float(row["entropy"]), float(row["ratio"]), float(row["validation"])) == (0.25, 0.125, 0.4)
    assert (row["alarms"], row["success"]) == ("entropy", "0.2")
    assert (curves["warmup", "1", "0"]["validation"], curves["warmup", "1", "0"]["success"]) == ("0.1", "")
    assert curves["progpo", "1", "1"]["entropy"] == ""


def test_of_a_folder_the_settings_say_what_is_read(inputs: list[Path], tmp_path: Path) -> None:
    for seed in (0, 1):
        for arm in ("grpo", "progpo"):
            for number in (1, 2):
                update(tmp_path, seed, arm, number, 0.5, [])
    left_over = [evaluation(tmp_path, 0, "grpo/iteration-001", 5), evaluation(tmp_path, 1, "old/iteration-002", 5)]
    settings = SETTINGS.model_copy(update={"iterations": 2})
    run(settings, [tmp_path], tmp_path / "report", strict=True)
    assert all(path.exists() for path in left_over)
    with (tmp_path / "report" / "results.csv").open() as file:
        overall = [row for row in csv.DictReader(file) if row["task_type"] == "all"]
    assert [(row["arm"], row["successes"]) for row in overall] == [("warmup", "3"), ("grpo", "6"), ("progpo", "8")]
    with pytest.raises(ProgpoError, match=r"iteration-003/advantages\.parquet\.manifest\.json: missing"):
        run(SETTINGS.model_copy(update={"iterations": 3}), [tmp_path], tmp_path / "report", strict=True)


def test_the_best_is_reported_where_that_is_set(inputs: list[Path], tmp_path: Path) -> None:
    every = [path for path in inputs if "progpo/iteration-002/evaluation" not in path.as_posix()]
    best = evaluation(tmp_path, 0, "progpo/best", 5)
    text = run(SETTINGS.model_copy(update={"of": "best"}), [*every, best], tmp_path / "report")
    assert "of each arm the best iteration by validation" in text
    assert "| progpo | 1 | 10 | 50.0" in (tmp_path / "report" / "results.md").read_text()


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
