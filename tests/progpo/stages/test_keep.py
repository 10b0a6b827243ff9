"""The stage that removes what need not stay, and `prune`, which does so by hand."""

import json
from pathlib import Path

import pytest

from progpo import launch
from progpo.errors import ProgpoError
from progpo.settings.experiment import load_experiment
from progpo.settings.keep import KeepSettings, KeepStage
from progpo.stages.keep import prune, run
from progpo.status import describe, record
from tests.progpo.stages.test_best import validation
from tests.progpo.test_pruning import add, there

CONFIG = {
    "experiment": "x",
    "seeds": [3],
    "iterations": 5,
    "arms": {"grpo": {"base": "grpo"}},
    "tasks": {"splits": {"train": 8, "validation": 2, "valid_seen": 2, "valid_unseen": 2}},
    "validation": {"every": 2},
    "keep": {"policies": "best", "optimizer": 1},
}


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five iterations, of which 2, 4 and the last are validated."""
    monkeypatch.setattr(launch, "alive", lambda folder: [])
    root = tmp_path / "artifacts" / "x"
    folder = root / "seed-3" / "grpo"
    for number in range(1, 6):
        add(folder, number)
    for number, successes in ((2, 7), (4, 7), (5, 9)):
        validation(root, f"grpo/iteration-{number:03d}", successes)
    record(root, load_experiment(CONFIG))
    return folder


@pytest.mark.parametrize(("iteration", "policies"), [(2, [2, 3, 4, 5]), (3, [2, 3, 4, 5]), (4, [2, 4, 5]), (5, [2, 5])])
def test_the_best_so_far_and_the_latest_stay(arm: Path, iteration: int, policies: list[int]) -> None:
    settings = KeepStage(keep=KeepSettings(policies="best", optimizer=1), every=2)
    output = arm / f"iteration-{iteration:03d}" / "kept.json"
    run(settings, arm, iteration, output, strict=True)
    assert there(arm, "policy/model.safetensors") == policies
    kept = json.loads(output.read_text())
    assert kept["policies"] == sorted({2, iteration})
    assert kept["optimizer"] == [iteration]
    first = output.read_bytes()
    run(settings, arm, iteration, output, strict=True)
    assert output.read_bytes() == first


def test_refusals_of_the_stage(arm: Path) -> None:
    output = arm / "kept.json"
    with pytest.raises(ProgpoError, match="no iteration 6 that is done"):
        run(KeepStage(keep=KeepSettings(policies=1)), arm, 6, output)
    with pytest.raises(ProgpoError, match="`every`"):
        run(KeepStage(keep=KeepSettings(policies="best")), arm, 5, output)
    (arm / "iteration-002/validation/summary.json").write_text("{}")
    with pytest.raises(ProgpoError, match="changed since"):
        run(KeepStage(keep=KeepSettings(policies="best"), every=2), arm, 5, output, strict=True)
    assert there(arm, "policy/model.safetensors") == [1, 2, 3, 4, 5]
    assert not output.exists()


def test_prune_takes_the_settings_that_were_noted(arm: Path) -> None:
    root = arm.parents[1]
    dry = prune(root, {}, dry_run=True)
    assert there(arm, "policy/model.safetensors") == [1, 2, 3, 4, 5]
    assert prune(root, {}) == dry
    assert there(arm, "policy/model.safetensors") == [2, 5]
    assert there(arm, "policy/optimizer.safetensors") == [5]
    assert there(arm, "shard-*.parquet") == [2, 3, 4, 5]
    assert prune(root, {}) == {}
    assert len(prune(root, {"rollouts": 1, "policies": 1})) == 6 + 1
    assert there(arm, "policy/model.safetensors") == [5]
    text = describe(root)
    assert "removed by keep: the weights of 4 policies, the optimiser state of 4 policies, 6 rollout shards" in text
    (line,) = (line for line in text.splitlines() if line.startswith("seed 3, grpo"))
    assert line.split()[3:5] == ["5/5", "5"]


def test_prune_leaves_what_a_run_that_goes_on_reads(arm: Path, tmp_path: Path) -> None:
    root = arm.parents[1]
    (arm / "iteration-002/validation/summary.json").unlink()
    (arm / "iteration-005/policy/manifest.json").unlink()
    prune(root, {"optimizer": 1, "rollouts": 0})
    # 2 is still to be validated; 4 is the latest that is done; 5 is to be done again, from its shards.
    assert there(arm, "policy/model.safetensors") == [2, 4, 5]
    assert there(arm, "policy/optimizer.safetensors") == [4, 5]
    assert there(arm, "shard-*.parquet") == [5]


def test_refusals_of_prune(arm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = arm.parents[1]
    with pytest.raises(ProgpoError, match=r"prune: keep\.policies: all, best or a number"):
        prune(root, {"policies": "worst"})
    with pytest.raises(ProgpoError, match="says that all stays"):
        prune(root, {"policies": "all", "optimizer": "all"})
    with pytest.raises(ProgpoError, match="no such folder"):
        prune(tmp_path / "nowhere", {})
    for place in (launch.LOCKS, launch.INCOMPLETE):
        left = root.parents[1] / place / "0.lock"
        left.parent.mkdir(parents=True)
        left.touch()
        with pytest.raises(ProgpoError, match="a run works there, or was killed"):
            prune(root, {})
        left.unlink()
    # The project's folder holds a link to artifacts that lie elsewhere.
    project = tmp_path / "project"
    (project / launch.LOCKS).mkdir(parents=True)
    (project / launch.LOCKS / "0.lock").touch()
    (project / "artifacts").symlink_to(root.parent)
    with pytest.raises(ProgpoError, match="a run works there, or was killed"):
        prune(project / "artifacts" / root.name, {})
    monkeypatch.setattr(launch, "alive", lambda folder: [4711])
    with pytest.raises(ProgpoError, match="a run works there"):
        prune(root, {})
    monkeypatch.setattr(launch, "alive", lambda folder: [])
    (root / "logs/settings.json").unlink()
    with pytest.raises(ProgpoError, match="--configfile"):
        prune(root, {})
    assert there(arm, "policy/model.safetensors") == [1, 2, 3, 4, 5]
