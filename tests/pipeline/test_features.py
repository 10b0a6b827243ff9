"""Validation during training, the choice of the best iteration, comparison, and the sampling of tasks, in the DAG."""

import csv
import json

import pytest

from progpo.artifacts import read_manifest
from progpo.report.captions import CAPTIONS
from tests.pipeline.running import Run

pytestmark = pytest.mark.slow

SHARED = {"validation": {"every": 1, "split": "valid_seen"}}


def test_validation_adds_its_jobs_and_a_change_of_its_period_reruns_none(copy: Run) -> None:
    copy.configure(SHARED)
    # The warm-up and two iterations of two arms.
    assert copy.planned() == {"validate": 5, "best": 2, "report": 1}
    result = copy()
    assert result.returncode == 0, result.stdout
    assert "Best iteration by validation" in result.stdout
    assert copy.planned() == {}
    rates = {}
    for number in (1, 2):
        folder = copy.artifacts / f"seed-0/grpo/iteration-{number:03d}/validation"
        rates[number] = json.loads((folder / "summary.json").read_text())["splits"]["valid_seen"]["success"]
    best = json.loads((copy.artifacts / "seed-0/grpo/best.json").read_text())
    assert best["iteration"] == (1 if rates[1] >= rates[2] else 2)
    assert (copy.artifacts / "seed-0/grpo" / best["policy"] / "manifest.json").exists()
    with (copy.artifacts / "report/curves.csv").open() as file:
        curves = {(row["arm"], int(row["iteration"])): row for row in csv.DictReader(file)}
    assert {number: float(curves["grpo", number]["validation"]) for number in (1, 2)} == rates
    assert float(curves["progpo", 2]["entropy"]) > 0
    assert float(curves["progpo", 2]["ratio_deviation"]) < 1e-3

    copy.configure({"validation": {"every": 2, "split": "valid_seen"}})
    assert copy.planned() == {"best": 2, "report": 1}

    copy.configure(SHARED | {"evaluation": {"splits": ["valid_unseen"], "of": "best"}})
    # Other splits: the warm-up is evaluated anew, and the arms' best.
    assert copy.planned() == {"evaluate": 3, "report": 1}
    result = copy()
    assert result.returncode == 0, result.stdout
    assert "of each arm the best iteration by validation" in result.stdout
    assert copy.planned() == {}
    manifest = read_manifest(copy.artifacts / "seed-0/grpo/best/evaluation/trajectories.parquet")
    assert f"../../{best['policy']}/manifest.json" in manifest.inputs
    result = copy.progpo("verify", "artifacts/tiny")
    assert result.returncode == 0, result.stdout


def test_compare_is_a_target_of_its_own(copy: Run) -> None:
    result = copy("--keep-going", "compare")
    assert result.returncode == 0, result.stdout
    assert copy.planned() == {}
    report = copy.artifacts / "report"
    assert "progpo - grpo" in (report / "compare.md").read_text()
    before = {name: (report / f"compare.{name}").read_bytes() for name in ("md", "csv")}
    by_hand = copy.progpo("compare", "artifacts/tiny", "--output", "by-hand")
    assert by_hand.returncode == 0, by_hand.stdout
    assert {name: (copy.folder / f"by-hand/compare.{name}").read_bytes() for name in before} == before


def test_snakemake_s_own_report_holds_the_page_and_the_figures(copy: Run) -> None:
    result = copy("--report", "snakemake.html")
    assert result.returncode == 0, result.stdout
    page = (copy.folder / "snakemake.html").read_text()
    for name in ("report.html", "results.csv", *(f"{figure}.svg" for figure in CAPTIONS)):
        assert name in page
    # A caption, rendered.
    assert "The whole report on one page" in page
    assert copy.planned() == {}


def test_curves_go_to_a_tracker_at_the_end(copy: Run) -> None:
    pytest.importorskip("tensorboard")
    copy.configure({"tracking": {"to": ["tensorboard"]}})
    assert copy.planned() == {"export": 1}
    result = copy()
    assert result.returncode == 0, result.stdout
    assert copy.planned() == {}
    folder = copy.artifacts / "tracking/tensorboard"
    for name in ("warmup-seed-0", "grpo-seed-0", "progpo-seed-0"):
        assert list((folder / name).glob("events.out.tfevents.*"))
    assert copy.progpo("verify", "artifacts/tiny").returncode == 0


def test_sampling_by_difficulty_and_without_flat_groups(copy: Run) -> None:
    copy.configure({"rollout": {"sampling": "learnable", "dynamic": {"drop": "flat", "rounds": 1}}})
    assert copy.planned() == {"rollout": 6, "advantages": 4, "update": 4, "evaluate": 2, "report": 1}
    targets = [f"artifacts/tiny/seed-0/{arm}/iteration-002/advantages.parquet" for arm in ("grpo", "progpo")]
    result = copy("--keep-going", *targets)
    assert result.returncode == 0, result.stdout
    # What was made stays made; what was not asked for is left.
    assert copy.planned(PYTHONHASHSEED="1") == {"update": 2, "evaluate": 2, "report": 1}
    for number, arm in ((1, "grpo"), (2, "grpo"), (2, "progpo")):
        folder = copy.artifacts / f"seed-0/{arm}/iteration-{number:03d}"
        metrics = json.loads((folder / "advantages.json").read_text())
        assert metrics["groups"] == 4
        assert metrics["drawn_groups"] == 4 + metrics["dropped_groups"]
        played = sum(entry["episodes"] for entry in metrics["tasks_by_id"].values())
        assert played == 4 * metrics["drawn_groups"]
    second = read_manifest(copy.artifacts / "seed-0/grpo/iteration-002/shard-00.parquet")
    assert "../iteration-001/advantages.json" in second.inputs


def test_corrections_follow_the_warm_up_in_rounds(copy: Run) -> None:
    settings = {"tasks": 6, "tokens": 2000}
    copy.configure({"corrections": {**settings, "rounds": 1}})
    target = "artifacts/tiny/seed-0/warmup/policy/manifest.json"
    assert copy.planned(target) == {"warmup": 1, "correct": 1, "relearn": 1}
    result = copy("--keep-going", target)
    assert result.returncode == 0, result.stdout
    assert copy.planned(target) == {}
    home = copy.artifacts / "seed-0/warmup"
    metrics = json.loads((home / "round-1/corrections.json").read_text())
    assert metrics["episodes"] == 6
    assert metrics["policy_steps"] > 0
    inputs = read_manifest(home / "policy").inputs
    assert {"../round-0/policy/manifest.json", "../round-1/corrections.parquet.manifest.json"} == set(inputs)
    first = (home / "round-1/corrections.parquet").read_bytes()

    # Another round leaves the first one's episodes as they are.
    copy.configure({"corrections": {**settings, "rounds": 2}})
    assert copy.planned(target) == {"correct": 1, "relearn": 2}
    result = copy("--keep-going", target)
    assert result.returncode == 0, result.stdout
    assert (home / "round-1/corrections.parquet").read_bytes() == first
    result = copy.progpo("verify", "artifacts/tiny/seed-0/warmup")
    assert result.returncode == 0, result.stdout
