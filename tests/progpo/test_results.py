"""Where results lie, and which of them are meant."""

from pathlib import Path

import pytest

from progpo.artifacts import write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.results import Place, existing, expected, load
from progpo.settings.experiment import ReportStage


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a/seed-0/warmup/evaluation/summary.json", Place("warmup", 0, 0, "evaluation")),
        ("a/seed-12/x.y/iteration-003/validation/summary.json", Place("x.y", 12, 3, "validation")),
        ("a/seed-1/grpo/best/evaluation/summary.json", Place("grpo", 1, None, "evaluation")),
        ("a/seed-1/grpo/best.json", Place("grpo", 1, 0, None)),
        ("seed-1/grpo/iteration-1000/update.json", Place("grpo", 1, 1000, None)),
    ],
)
def test_a_path_tells_whose_file_it_is(path: str, place: Place) -> None:
    assert Place.of(Path(path)) == place


def test_a_path_elsewhere_is_nobody_s() -> None:
    with pytest.raises(ProgpoError, match="whose is it"):
        Place.of(Path("a/summary.json"))


def names(root: Path, settings: ReportStage) -> list[str]:
    return sorted(path.relative_to(root / "seed-4").as_posix() for path in expected(root, settings))


def test_expected_files(tmp_path: Path) -> None:
    settings = ReportStage(experiment="x", arms=("a",), seeds=(4,), iterations=3)
    metrics = [f"a/iteration-00{n}/{name}.json" for n in (1, 2, 3) for name in ("advantages", "update")]
    evaluations = ["a/iteration-003/evaluation/summary.json", "warmup/evaluation/summary.json"]
    assert names(tmp_path, settings) == sorted([*metrics, *evaluations])
    settings = settings.model_copy(update={"every": 2, "of": "best"})
    validations = [f"{policy}/validation/summary.json" for policy in ("a/iteration-002", "a/iteration-003", "warmup")]
    evaluations = ["a/best/evaluation/summary.json", "warmup/evaluation/summary.json"]
    assert names(tmp_path, settings) == sorted([*metrics, *validations, *evaluations, "a/best.json"])


def evaluation(root: Path, policy: str) -> Path:
    path = root / f"seed-0/{policy}/evaluation/summary.json"
    write_json(path, {"splits": {"valid": {"episodes": 2, "successes": 1, "steps": 3, "types": {}}}})
    write_manifest(path.with_name("trajectories.parquet"), "evaluate", {}, [path])
    return path


def test_of_several_evaluations_the_latest_is_taken(tmp_path: Path) -> None:
    paths = {name: evaluation(tmp_path, name) for name in ("a/iteration-009", "a/iteration-010", "a/best", "b/best")}
    assert sorted(existing(tmp_path)) == sorted([paths["a/iteration-010"], paths["b/best"]])
    results = load(existing(tmp_path), strict=True)
    assert {key: iteration for key, (iteration, _) in results.evaluations.items()} == {("a", 0): 10, ("b", 0): None}
    best = tmp_path / "seed-0/b/best.json"
    write_json(best, {"iteration": 7})
    write_manifest(best, "best", {}, [best])
    assert load(existing(tmp_path), strict=True).evaluations["b", 0][0] == 7
    assert results.order(["b"]) == ["b", "a"]


def test_a_best_without_an_iteration_is_refused(tmp_path: Path) -> None:
    best = tmp_path / "seed-0/b/best.json"
    write_json(best, {})
    write_manifest(best, "best", {}, [best])
    with pytest.raises(ProgpoError, match=r"best\.json: names no iteration; rerun `progpo best`"):
        load([best])
    best.write_text("[]")
    write_manifest(best, "best", {}, [best])
    with pytest.raises(ProgpoError, match="holds no metrics"):
        load([best])
    with pytest.raises(ProgpoError, match="none of summary"):
        load([tmp_path / "seed-0/b/other.json"])
