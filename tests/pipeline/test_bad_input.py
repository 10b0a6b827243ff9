"""Bad input ends with one clear message and status 1, before anything is written."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.pipeline.running import ROOT, Run

pytestmark = pytest.mark.slow


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 1, result.stdout
    assert "Traceback" not in result.stdout
    for word in words:
        assert word in result.stdout, result.stdout


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rollouts": {"tasks": 1}}, ["rollouts: unknown setting"]),
        ({"rollout": {"tasks": 0}}, ["rollout.tasks", "greater than or equal to 1"]),
        ({"arms": {"odd": {"base": "grpo", "step_weight": 0.5}}}, ["arms.odd: step_weight", "gigpo"]),
    ],
)
def test_config_is_refused_before_any_job(start, changes: dict, words: list[str]) -> None:
    run = start()
    run.configure(changes)
    refused(run(), *words)
    assert not (run.folder / "artifacts").exists()


def official(folder) -> str:
    return json.dumps({"tasks": {"source": "official", **({"data": str(folder)} if folder else {})}})


def test_official_games_missing(start) -> None:
    run = start()
    environment = {key: value for key, value in run.environment().items() if key != "ALFWORLD_DATA"}
    result = subprocess.run(
        [sys.executable, "-m", "progpo", "tasks", "--settings", official(None), "--output", "tasks"],
        cwd=run.folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    refused(result, "ALFWORLD_DATA", "alfworld-download")
    assert not (run.folder / "tasks").exists()


def test_empty_split_and_broken_game(start, complete: Run) -> None:
    run = start()
    data = run.folder / "data" / "json_2.1.1"
    (data / "train").mkdir(parents=True)
    refused(run.progpo("tasks", "--settings", official(data.parent), "--output", "tasks"), "train")

    game = next((complete.artifacts / "tasks" / "games" / "train").rglob("game.tw-pddl"))
    for split in ("train", "valid_seen", "valid_unseen"):
        trial = data / split / "pick_and_place_simple-Mug-None-Shelf-301" / "trial_T1"
        trial.mkdir(parents=True)
        shutil.copy(game, trial / "game.tw-pddl")
    (data / "train" / "pick_and_place_simple-Mug-None-Shelf-301" / "trial_T1" / "game.tw-pddl").write_text("{")
    result = run.progpo("tasks", "--settings", official(data.parent), "--output", "tasks")
    refused(result, "train/pick_and_place_simple-Mug-None-Shelf-301/trial_T1/game.tw-pddl")
    assert not (run.folder / "tasks").exists()


def test_checkpoint_without_tokenizer(copy: Run) -> None:
    bare = copy.folder / "bare"
    shutil.copytree(copy.artifacts / "seed-0/warmup/policy", bare)
    for name in bare.glob("*token*"):
        name.unlink()
    (bare / "manifest.json").unlink()
    settings = json.dumps({"policy": {"init": "pretrained", "path": str(bare)}})
    demonstrations = str(copy.artifacts / "demonstrations/demonstrations.parquet")
    result = copy.progpo("warmup", demonstrations, "--settings", settings, "--output", "p", "--metrics", "m.json")
    refused(result, "bare", "tokenizer")
    assert not (copy.folder / "p").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_full_disk(copy: Run) -> None:
    small = copy.folder / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        before = copy.contents()
        root = copy.artifacts
        result = copy.progpo(
            *["rollout", "--tasks", str(root / "tasks"), "--policy", str(root / "seed-0/warmup/policy")],
            *["--settings", (ROOT / "tests/pipeline/many.json").read_text(), "--output", "small/shard.parquet"],
        )
        refused(result, "the disk is full", "remedy")
        assert not [path for path in small.iterdir() if path.is_file()]
        assert copy.contents() == before
    finally:
        subprocess.run(["umount", str(small)], check=True)
