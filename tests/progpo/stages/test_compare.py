"""The compare stage: what it reads of folders, and the files it writes."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from progpo.artifacts import read_manifest, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.settings.base import validate
from progpo.settings.experiment import CompareStage, ReportStage
from progpo.stages.compare import run

SETTINGS = validate(CompareStage, {"compare": {"resamples": 100}}, "test")


def evaluation(root: Path, seed: int, policy: str, successes: list[int]) -> None:
    path = root / f"seed-{seed}/{policy}/evaluation/summary.json"
    tasks = {
        f"task-{number}": {"task_type": "fetch", "episodes": 1, "successes": success}
        for number, success in enumerate(successes)
    }
    part = {"episodes": len(tasks), "successes": sum(successes), "steps": 3.0}
    write_json(path, {"splits": {"valid": {**part, "types": {"fetch": part}, "tasks_by_id": tasks}}})
    trajectories = path.with_name("trajectories.parquet")
    trajectories.write_text("")
    write_manifest(trajectories, "evaluate", {}, [trajectories, path])


def iteration(root: Path, seed: int, arm: str, number: int, base: str, progress: dict | None) -> None:
    folder = root / f"seed-{seed}/{arm}/iteration-{number:03d}"
    rates = ("success_rate", "failed_fraction", "first_visit_rate", "valid_action_rate")
    write_json(folder / "advantages.json", dict.fromkeys(rates, 0.5))
    (folder / "advantages.parquet").write_text("")
    recipe = {"base": base, "progress": progress}
    write_manifest(
        folder / "advantages.parquet", "advantages", recipe, [folder / "advantages.json", folder / "advantages.parquet"]
    )
    write_json(folder / "update.json", {"entropy": 0.5})
    (folder / "policy").mkdir()
    write_manifest(folder / "policy", "update", {}, [folder / "update.json"])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "exp"
    for seed in (0, 1):
        evaluation(folder, seed, "warmup", [0, 0, 1, seed])
        for place, (arm, base, progress) in enumerate(
            [("alone", "rloo", None), ("plain", "gigpo", None), ("pro", "gigpo", {"weight": 0.3})]
        ):
            for number in (1, 2):
                iteration(folder, seed, arm, number, base, progress)
            evaluation(folder, seed, f"{arm}/iteration-002", [place > 0, place > 1, 1, 1])
    return folder


def test_files_of_one_experiment(root: Path, tmp_path: Path) -> None:
    text = run(SETTINGS, [root], tmp_path / "report", strict=True)
    assert (tmp_path / "report/compare.md").read_text() == text
    assert "| plain - alone | 2 | 2 | +25.0 [25.0, 25.0]" in text
    assert "| pro - plain | 2 | 2 | +25.0 [25.0, 25.0]" in text
    assert "## Area under the learning curve" in text
    table = pq.read_table(tmp_path / "report/compare.parquet")
    with (tmp_path / "report/compare.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert table.num_rows == len(rows)
    assert list(rows[0]) == table.column_names
    assert {"hard", "middle", "easy", "fetch", "all"} == set(table["subset"].to_pylist())
    assert str(table.schema.field("seeds").type) == "int32"
    assert sorted(read_manifest(tmp_path / "report/compare.md").files) == [
        "compare.csv",
        "compare.md",
        "compare.parquet",
    ]


def test_a_second_run_writes_the_same(root: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(SETTINGS, [root], tmp_path / name)
    for name in ("compare.md", "compare.csv", "compare.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_settings_say_which_files_are_meant(root: Path, tmp_path: Path) -> None:
    evaluation(root, 0, "plain/iteration-003", [0, 0, 0, 0])
    experiment = ReportStage(experiment="exp", arms=("pro", "plain"), seeds=(0, 1), iterations=2)
    text = run(SETTINGS.model_copy(update={"experiment": experiment}), [root], tmp_path / "report", strict=True)
    assert "| alone" not in text
    assert "| pro - plain | 2 | 2 | +25.0 [25.0, 25.0]" in text
    assert "| plain - pro | 2 | 2 | -25.0" in text


def test_several_experiments(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    evaluation(other, 0, "warmup", [0, 0, 0, 0])
    evaluation(other, 0, "mine/iteration-005", [1, 1, 1, 1])
    settings = validate(CompareStage, {"compare": {"resamples": 100, "base": "exp/plain"}}, "test")
    text = run(settings, [root, other], tmp_path / "report")
    assert "# Comparison of exp, other" in text
    assert "| other/mine - exp/plain | 1 |  | +25.0 {" in text
    assert "| exp/alone - plain | 2 |" in text


def test_refusals(root: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ProgpoError, match="nowhere: no such folder"):
        run(SETTINGS, [tmp_path / "nowhere"], tmp_path / "report")
    with pytest.raises(ProgpoError, match="empty: holds no evaluation"):
        run(SETTINGS, [tmp_path / "empty"], tmp_path / "report")
    with pytest.raises(ProgpoError, match="two folders are called 'exp'"):
        run(SETTINGS, [root, root], tmp_path / "report")
    with pytest.raises(ProgpoError, match="'ppo' is not among the arms"):
        run(validate(CompareStage, {"compare": {"base": "ppo"}}, "test"), [root], tmp_path / "report")
    (root / "seed-0/pro/iteration-002/evaluation/summary.json").write_text("{}")
    with pytest.raises(ProgpoError, match=r"pro/iteration-002/evaluation/summary\.json: changed"):
        run(SETTINGS, [root], tmp_path / "report")
    assert not (tmp_path / "report").exists()
