"""Trackers get one run an arm and seed: TensorBoard's files are read back, the others' interface is stood in for."""

import importlib.machinery
import json
import os
import sys
import types
from pathlib import Path

import pytest

from progpo import export
from progpo.artifacts import damage, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.results import WARMUP
from progpo.settings.experiment import ExportStage, ReportStage
from tests.progpo.stages.test_report import evaluation, iteration, update

SETTINGS = ExportStage(experiment=ReportStage(experiment="named", arms=("progpo",), seeds=(0, 1), iterations=2))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "exp"
    for seed in (0, 1):
        evaluation(root, seed, WARMUP, 1)
        evaluation(root, seed, "progpo/iteration-002", 4)
        home = root / f"seed-{seed}" / WARMUP
        points = [{"step": step, "loss": 2.0 / step, "action_loss": 1.0 / step, "tokens": 9 * step} for step in (1, 5)]
        write_json(home / "metrics.json", {"curve": points})
        (home / "policy").mkdir()
        write_manifest(home / "policy", "warmup", {"warmup": {"tokens": 45}}, [home / "metrics.json"])
        for number in (1, 2):
            table = iteration(root, seed, "progpo", number, 0.1 * number).with_name("advantages.parquet")
            update(root, seed, "progpo", number, 0.5, [])
            recipe = {"base": "gigpo", "progress": {"weight": 0.3, "always_on": False, "note": None}}
            write_manifest(table, "advantages", recipe, [table, table.with_name("advantages.json")])
    return root


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """Packages `wandb` and `trackio` that take down what they are told."""
    runs: list[dict] = []

    class Run:
        def __init__(self, **given) -> None:
            self.seen = {**given, "points": [], "finished": False}
            runs.append(self.seen)

        def log(self, values: dict, step: int) -> None:
            self.seen["points"].append((step, values))

        def finish(self) -> None:
            self.seen["finished"] = True

    for name in ("wandb", "trackio"):
        module = types.ModuleType(name)
        module.init = Run
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    return runs


@pytest.mark.parametrize(("online", "mode"), [(False, "offline"), (True, "online")])
def test_a_run_for_each_arm_and_seed(
    root: Path, stand_in: list[dict], tmp_path: Path, online: bool, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    names = export.run(SETTINGS.model_copy(update={"online": online}), root, "wandb", tmp_path / "out", strict=True)
    assert names == ["warmup-seed-0", "progpo-seed-0", "warmup-seed-1", "progpo-seed-1"]
    assert [seen["name"] for seen in stand_in] == names
    assert all(seen["finished"] and seen["project"] == "named" and seen["mode"] == mode for seen in stand_in)
    warmup, arm = stand_in[:2]
    assert warmup["points"] == [
        (1, {"warmup/loss": 2.0, "warmup/action_loss": 1.0, "warmup/tokens": 9}),
        (
            5,
            {
                "warmup/loss": 0.4,
                "warmup/action_loss": 0.2,
                "warmup/tokens": 45,
                "evaluation/valid_seen": 0.1,
                "evaluation/valid_seen/pick_two_obj_and_place": 0.0,
                "evaluation/valid_seen/pick_and_place_simple": 0.2,
            },
        ),
    ]
    assert [step for step, _ in arm["points"]] == [1, 2]
    first, last = (values for _, values in arm["points"])
    assert (first["rollout/success"], last["rollout/success"]) == (0.1, 0.2)
    assert (first["update/entropy"], first["rollout/failed_fraction"]) == (0.5, 0.5)
    assert last["evaluation/valid_seen"] == 0.4
    assert "evaluation/valid_seen" not in first
    assert (
        arm["config"]
        | {
            "arm": "progpo",
            "seed": 0,
            "advantages.base": "gigpo",
            "advantages.progress.weight": 0.3,
            "warmup.warmup.tokens": 45,
        }
        == arm["config"]
    )


def test_validation_is_a_curve_from_the_warmup_on(
    root: Path, stand_in: list[dict], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation(root, 0, WARMUP, 2, "validation")
    for number in (1, 2):
        evaluation(root, 0, f"progpo/iteration-00{number}", 2 + number, "validation")
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")
    monkeypatch.setenv("TRACKIO_SPACE_ID", "somebody/somewhere")
    export.run(ExportStage(), root, "trackio", tmp_path / "out")
    assert Path(os.environ["TRACKIO_DIR"]).parent == tmp_path
    assert "TRACKIO_SPACE_ID" not in os.environ
    arm = next(seen for seen in stand_in if seen["name"] == "progpo-seed-0")
    assert arm["project"] == "exp"
    assert [(step, values["validation/success"]) for step, values in arm["points"]] == [(0, 0.2), (1, 0.3), (2, 0.4)]


def test_the_folder_is_made_anew_and_no_other_is_taken(root: Path, stand_in: list[dict], tmp_path: Path) -> None:
    folder = tmp_path / "out"
    for _ in range(2):
        export.run(SETTINGS, root, "wandb", folder)
    assert json.loads((folder / "tracking.json").read_text())["tracker"] == "wandb"
    assert not damage(folder)
    # As after Snakemake removed the output of a failed job.
    (folder / "manifest.json").unlink()
    export.run(SETTINGS, root, "wandb", folder)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").write_text("")
    with pytest.raises(ProgpoError, match="would be lost"):
        export.run(SETTINGS, root, "wandb", other)


def test_a_missing_package_is_named(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(ProgpoError, match=r"wandb is not installed; run: pip install"):
        export.run(SETTINGS, root, "wandb", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tensorboard_reads_it(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    export.run(SETTINGS, root, "tensorboard", tmp_path / "out", strict=True)
    events = EventAccumulator(str(tmp_path / "out" / "progpo-seed-1"))
    events.Reload()
    found = [(event.step, round(event.value, 6)) for event in events.Scalars("rollout/success")]
    assert found == [(1, 0.1), (2, 0.2)]
    assert [event.step for event in events.Scalars("evaluation/valid_seen")] == [2]
