"""Where a run stands, told from what lies there."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from progpo import launch, status
from progpo.artifacts import write_json
from progpo.errors import ProgpoError
from progpo.settings.experiment import Experiment, load_experiment
from progpo.status import Plan, describe, record

CONFIG = {
    "experiment": "x",
    "seeds": [0, 1],
    "iterations": 2,
    "arms": {"a": {"base": "grpo"}, "b": {"base": "gigpo"}},
    "rollout": {"shards": 2},
}


@pytest.fixture
def experiment() -> Experiment:
    return load_experiment(CONFIG)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an experiment, in a run that is not alive; for what tells the age of its logs, no time passes."""
    now = time.time()
    monkeypatch.setattr(status, "time", SimpleNamespace(time=lambda: now))
    monkeypatch.setattr(launch, "alive", lambda folder: [])
    folder = tmp_path / "artifacts" / "x"
    folder.mkdir(parents=True)
    return folder


def finish(root: Path, *manifests: str) -> None:
    for name in manifests:
        write_json(root / name, {})


def log(root: Path, name: str, text: str = "", age: float = 0.0) -> None:
    path = root / "logs" / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)


def row(text: str, name: str) -> list[str]:
    """Return the words of a line of the table."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return line.removeprefix(name).split()


def test_jobs_are_counted(root: Path, experiment: Experiment) -> None:
    jobs = Plan.of(experiment).jobs(root)
    # Two for all; of a seed: warm-up and its evaluation, two shards for both arms and two of each arm, two advantages
    # and updates of each arm, two evaluations; the report.
    assert len(jobs) == 2 + 2 * (2 + 2 + 4 + 8 + 2) + 1
    assert len({job.manifest for job in jobs}) == len({job.log for job in jobs}) == len(jobs)
    validated = load_experiment(
        {**CONFIG, "tasks": {"splits": {"train": 4, "validation": 2, "valid_seen": 2}}}
        | {
            "validation": {"every": 1},
            "evaluation": {"of": "best", "splits": ["valid_seen"]},
        }
    )
    # Of a seed more: the validations of the warm-up and of each arm's two iterations, and each arm's best.
    assert len(Plan.of(validated).jobs(root)) == len(jobs) + 2 * (1 + 4 + 2)
    corrected = Plan.of(load_experiment({**CONFIG, "corrections": {"rounds": 2}})).jobs(root)
    # Of a seed more: two rounds, each played and learned from; the last one makes the warm-up's policy.
    assert len(corrected) == len(jobs) + 2 * 4
    assert len({job.manifest for job in corrected}) == len({job.log for job in corrected}) == len(corrected)
    made = [job.manifest.relative_to(root / "seed-0/warmup").as_posix() for job in corrected[2:7]]
    assert made == [
        "round-0/policy/manifest.json",
        "round-1/corrections.parquet.manifest.json",
        "round-1/policy/manifest.json",
        "round-2/corrections.parquet.manifest.json",
        "policy/manifest.json",
    ]


def test_what_is_done_running_and_to_come(root: Path, experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    record(root, experiment)
    finish(root, "tasks/manifest.json", "demonstrations/demonstrations.parquet.manifest.json")
    finish(root, "seed-0/warmup/policy/manifest.json", "seed-0/shared/iteration-001/shard-00.parquet.manifest.json")
    log(root, "seed-0/shared/iteration-001/shard-01", "rollout: 2 of 8 episodes\rrollout: 4 of 8 episodes\n\n")
    monkeypatch.setattr(launch, "alive", lambda folder: [4711] if folder == root.parents[1] else [])
    text = describe(root)
    assert text.startswith(f"{root}: running (process 4711); 4 of 39 jobs done\n")
    assert row(text, "tasks") == ["done"]
    assert row(text, "seed 0, a") == ["0/2", "running:", "rollout", "1"]
    assert row(text, "seed 1, a") == ["0/2", "to", "come"]
    assert row(text, "report") == ["to", "come"]
    assert "running: seed-0/shared/iteration-001/shard-01 (0 s ago): rollout: 4 of 8 episodes" in text


def test_a_run_that_ended_early(root: Path, experiment: Experiment) -> None:
    record(root, experiment)
    finish(root, "tasks/manifest.json")
    log(root, "demonstrate", "progpo: error: the disk is full\nprogpo: error: remedy: free space\n", age=300)
    log(root, "seed-0/warmup", "warmup: 3 of 9 steps", age=7300)
    text = describe(root)
    assert ": not running; 1 of 39 jobs done" in text
    assert row(text, "demonstrate") == ["failed"]
    assert row(text, "seed 0, warmup") == ["stopped:", "warmup"]
    assert "failed: demonstrate (5 min ago): progpo: error: remedy: free space" in text
    assert "stopped: seed-0/warmup (2 h ago): warmup: 3 of 9 steps" in text


def test_a_lock_tells_of_a_run_elsewhere(root: Path, experiment: Experiment) -> None:
    record(root, experiment)
    log(root, "tasks")
    locks = root.parents[1] / launch.LOCKS
    locks.mkdir(parents=True)
    assert ": not running;" in describe(root)
    (locks / "0.output.lock").touch()
    text = describe(root)
    assert "running on another machine, or killed" in text
    assert "running: tasks (0 s ago): nothing said yet" in text
    # What was left by an earlier run is still to come in this one.
    log(root, "tasks", "old", age=60)
    assert row(describe(root), "tasks") == ["to", "come"]


def test_the_latest_success_and_the_disk_use(root: Path, experiment: Experiment) -> None:
    record(root, experiment)
    for iteration, success in ((1, 0.25), (2, 0.5)):
        folder = root / f"seed-0/a/iteration-00{iteration}"
        write_json(folder / "advantages.json", {"success_rate": success})
        finish(folder, "advantages.parquet.manifest.json", "policy/manifest.json")
    write_json(root / "seed-0/a/iteration-002/evaluation/summary.json", {"splits": {"seen": {"success": 0.375}}})
    (root / "seed-0/a/iteration-002/policy/model.safetensors").write_bytes(bytes(3_000_000))
    (root / "seed-0/a/iteration-002/advantages.json.partial").write_text("{")
    text = describe(root)
    assert row(text, "seed 0, a")[0] == "2/2"
    assert "50.0 % (iteration 2)" in text
    assert "seen 37.5 %" in text
    assert text.splitlines()[-1] == "disk: 3 MB (policies 3)"


def test_without_noted_settings_what_there_is_is_counted(root: Path, tmp_path: Path) -> None:
    finish(root, "tasks/manifest.json", "seed-3/mine/iteration-001/policy/manifest.json")
    (root / "seed-3/shared/iteration-001").mkdir(parents=True)
    text = describe(root)
    assert "what has not begun is not counted" in text
    assert row(text, "seed 3, mine")[0] == "1/1"
    config = tmp_path / "x.yaml"
    config.write_text("experiment: x\niterations: 7\nseeds: [3]\narms: {mine: {base: grpo}}\n")
    assert row(describe(root, config), "seed 3, mine")[0] == "1/7"
    config.write_text("experiment: y\narms: {mine: {base: grpo}}\n")
    with pytest.raises(ProgpoError, match="of the experiment 'y', not of"):
        describe(root, config)


def test_settings_of_another_version_are_as_good_as_none(root: Path) -> None:
    finish(root, "tasks/manifest.json")
    write_json(root / status.RECORDED, {"experiment": "x", "unknown": 1})
    assert "what has not begun is not counted" in describe(root)


def test_a_folder_that_holds_nothing_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match="holds nothing of an experiment; name its folder"):
        describe(root)
    with pytest.raises(ProgpoError, match="no such folder"):
        describe(tmp_path / "nowhere")
