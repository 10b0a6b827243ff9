"""What `keep` removes while the workflow runs: nothing that is still read, and nothing reruns for it."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from progpo.artifacts import PARTIAL, verify
from tests.pipeline.running import ROOT, Run

pytestmark = pytest.mark.slow

ARMS = ("grpo", "progpo")
KEEP = {"policies": 1, "optimizer": 1, "rollouts": 1}
SPLITS = {"tasks": {"splits": {"train": 12, "validation": 2, "valid_seen": 4, "valid_unseen": 4}}}


class Light:
    """A run whose stages compute nothing (`stand_in.py`)."""

    def __init__(self, run: Run, arms: tuple[str, ...], **numbers: Any) -> None:
        self.run, self.arms = run, arms
        self.tell(**numbers)
        command = run.folder / "bin" / "progpo"
        command.parent.mkdir()
        stand_in = Path(__file__).with_name("stand_in.py")
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {stand_in} {run.folder / "numbers.json"} "$@"\n')
        command.chmod(0o755)

    def tell(self, **numbers: Any) -> None:
        (self.run.folder / "numbers.json").write_text(json.dumps({"success": {}, **numbers}))

    def configure(self, iterations: int, keep: dict[str, Any], **sections: Any) -> None:
        arms = {"grpo": {"base": "grpo"}, "progpo": {"base": "gigpo", "progress": {}}}
        config = {
            "experiment": "tiny",
            "iterations": iterations,
            "rollout": {"tasks": 2, "shards": 1},
            "arms": {arm: arms[arm] for arm in self.arms},
            "keep": keep,
            **sections,
        }
        (self.run.folder / "config.yaml").write_text(json.dumps(config))

    @property
    def environment(self) -> dict[str, str]:
        path = self.run.environment()["PATH"]
        return {"PATH": f"{self.run.folder / 'bin'}:{path}", "PYTHONPATH": str(ROOT)}

    def __call__(self) -> None:
        result = self.run(**self.environment)
        assert result.returncode == 0, result.stdout

    def planned(self) -> dict[str, int]:
        return self.run.planned(**self.environment)

    def there(self, arm: str, name: str) -> list[int]:
        """Return the iterations of an arm that have a file."""
        return sorted(
            int(path.parts[-2 if "/" not in name else -3][10:]) for path in self.folder(arm).glob(f"*/{name}")
        )

    def folder(self, arm: str) -> Path:
        return self.run.artifacts / "seed-0" / arm


def test_the_best_and_the_latest_stay_and_the_run_can_be_extended(start: Callable[[], Run]) -> None:
    light = Light(start(), ("grpo",), success={2: 6, 4: 5, 5: 8, 6: 3})
    keep = {"policies": "best", "optimizer": 1, "rollouts": 0}
    sections = {**SPLITS, "validation": {"every": 2}, "evaluation": {"of": "best"}}
    light.configure(5, keep, **sections)
    light()
    # The best of all is the last, 5. It is validated as the last alone: in a longer run 2 is the best, so that stays.
    assert json.loads((light.folder("grpo") / "best.json").read_text())["iteration"] == 5
    assert light.there("grpo", "policy/model.safetensors") == [2, 5]
    assert light.there("grpo", "policy/optimizer.safetensors") == [5]
    assert light.there("grpo", "policy/manifest.json") == [1, 2, 3, 4, 5]
    assert light.there("grpo", "shard-*.parquet") == []
    assert light.there("shared", "shard-*.parquet") == [1]
    assert (light.folder("warmup") / "policy/model.safetensors").exists()
    assert verify(light.run.artifacts) == ([], [])
    assert light.planned() == {}

    before = {path: path.stat().st_mtime_ns for path in light.run.artifacts.rglob("*manifest.json")}
    light.configure(7, keep, **sections)
    more = {"rollout": 2, "advantages": 2, "update": 2, "validate": 2, "keep": 2, "best": 1, "evaluate": 1, "report": 1}
    assert light.planned() == more
    light()
    assert light.planned() == {}
    assert json.loads((light.folder("grpo") / "best.json").read_text())["iteration"] == 2
    assert light.there("grpo", "policy/model.safetensors") == [2, 7]
    changed = {path for path, when in before.items() if path.stat().st_mtime_ns != when}
    assert all(path.name.startswith(("best.json", "trajectories", "results", "report")) for path in changed)
    assert verify(light.run.artifacts) == ([], [])
    status = light.run.progpo("status", "artifacts/tiny").stdout
    assert "removed by keep: the weights of 5 policies, the optimiser state of 6 policies, 6 rollout shards" in status
    # A setting that rereads what is away is refused, with the remedy.
    light.configure(7, keep, **sections | {"validation": {"every": 1}})
    refused = light.run(**light.environment)
    assert refused.returncode != 0
    assert re.search(
        r"iteration-00[135]/policy/model.safetensors: was removed by `keep` .policies: best", refused.stdout
    )
    remedy = "--forcerun artifacts/tiny/seed-0/grpo/iteration-001/policy/manifest.json"
    assert remedy in refused.stdout
    light.configure(7, {"policies": "all"}, **sections | {"validation": {"every": 1}})
    result = light.run("--forcerun", remedy.split()[1], **light.environment)
    assert result.returncode == 0, result.stdout
    assert light.there("grpo", "policy/model.safetensors") == [1, 2, 3, 4, 5, 6, 7]
    assert light.planned() == {}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Light:
    """A run of two arms that was not killed; not to be touched."""
    light = Light(Run(tmp_path_factory.mktemp("whole")), ARMS)
    light.configure(4, KEEP)
    light()
    assert light.there("grpo", "policy/model.safetensors") == light.there("progpo", "shard-*.parquet") == [4]
    return light


@pytest.mark.parametrize("job", ["grpo/iteration-003/update.log", "progpo/iteration-003/keep.log"])
def test_a_killed_run_is_taken_up(whole: Light, tmp_path: Path, job: str) -> None:
    light = Light(Run(tmp_path), ARMS, kill=job)
    light.configure(4, KEEP)
    run = light.run
    killed = subprocess.run(
        run.command(),
        cwd=run.folder,
        env=run.environment(**light.environment),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    run.settle()
    assert verify(run.artifacts) == ([], [])
    # The update may be done again, from the policy before: by hand nothing is removed now.
    refused = run.progpo("prune", "artifacts/tiny")
    assert refused.returncode == 1
    assert "was killed and left its lock" in refused.stdout
    light.tell()
    light()
    assert light.planned() == {}
    assert run.contents() == whole.run.contents()
    assert not list(run.artifacts.rglob(f"*{PARTIAL}"))


def test_a_finished_run_is_pruned_extended_and_looked_at(copy: Run) -> None:
    copy.configure({"keep": {"policies": 1, "optimizer": 1, "rollouts": 0}})
    assert copy.planned() == {"keep": 2}
    before = copy.contents()
    result = copy.progpo("prune", "artifacts/tiny", "--dry-run", "--policies", "1", "--rollouts", "0")
    assert result.returncode == 0, result.stdout
    assert (
        "would remove the weights of 2 policies, the optimiser state of 2 policies, 4 rollout shards" in result.stdout
    )
    assert copy.contents() == before
    result = copy()
    assert result.returncode == 0, result.stdout
    assert copy.planned() == {}
    assert copy.progpo("verify", "artifacts/tiny").returncode == 0
    after = copy.contents()
    assert {name: digest for name, digest in before.items() if name in after}.items() <= after.items()

    arm = "artifacts/tiny/seed-0/grpo"
    for words in (["view", f"{arm}/iteration-001"], ["compare", "artifacts/tiny", "--output", "compared"]):
        result = copy.progpo(*words)
        assert result.returncode == 0, result.stdout
    for words, why in (
        (["view", f"{arm}/iteration-002"], "shard-00.parquet: was removed by `keep` (rollouts: 0)"),
        (["play", "alfworld", "--policy", f"{arm}/iteration-001/policy"], "was removed by `keep` (policies: 1)"),
        (["card", f"{arm}/iteration-001/policy"], "was removed by `keep` (policies: 1)"),
    ):
        result = copy.progpo(*words)
        assert result.returncode == 1
        assert why in result.stdout
        assert "Traceback" not in result.stdout
    assert copy.progpo("publish", "artifacts/tiny", "--output", "paper").returncode == 0

    copy.configure({"keep": {"policies": 1, "optimizer": 1, "rollouts": 0}, "iterations": 3})
    assert copy.planned() == {"rollout": 4, "advantages": 2, "update": 2, "evaluate": 2, "report": 1, "keep": 2}
    result = copy()
    assert result.returncode == 0, result.stdout
    assert (
        sorted(path.parts[-3] for path in (copy.folder / arm).glob("*/policy/*.safetensors")) == ["iteration-003"] * 2
    )
