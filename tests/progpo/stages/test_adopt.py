"""A checkpoint taken as it is, by the command that would warm it up."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from progpo.artifacts import read_manifest
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import load_policy
from progpo.settings.base import validate
from progpo.settings.experiment import WarmupStage
from progpo.stages import adopt


def settings(checkpoint: Path, **policy: object) -> WarmupStage:
    data = {"policy": {"init": "pretrained", "path": str(checkpoint), **policy}, "warmup": {"tokens": 0}}
    return validate(WarmupStage, data, "test")


def test_the_weights_stay_and_every_seed_gets_the_same(pretrained: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        place = tmp_path / str(seed)
        adopt.run(settings(pretrained), seed, place / "policy" / "manifest.json", place / "metrics.json")
    given, taken = (load_file(folder / "model.safetensors") for folder in (pretrained, tmp_path / "0" / "policy"))
    assert given.keys() == taken.keys()
    assert all(torch.equal(given[name], taken[name]) for name in given)
    policies = [load_policy(tmp_path / str(seed) / "policy") for seed in (0, 1)]
    assert policies[0].fingerprint == policies[1].fingerprint
    assert policies[0].settings.resolved_response == "think_action"
    manifest = read_manifest(tmp_path / "1" / "policy")
    assert (manifest.stage, manifest.facts["seed"], manifest.inputs) == ("warmup", 1, {})
    metrics = json.loads((tmp_path / "0" / "metrics.json").read_text())
    assert (metrics["tokens"], metrics["optimizer_steps"], metrics["curve"]) == (0, 0, [])
    assert metrics["parameters"] == sum(item.numel() for item in given.values())


def test_a_checkpoint_that_cannot_serve_leaves_nothing(pretrained: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match="reads 4096 tokens at most"):
        adopt.run(settings(pretrained, max_context_tokens=8192), 0, tmp_path / "policy", tmp_path / "metrics.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_command_wants_demonstrations_only_for_a_warm_up(pretrained: Path, tmp_path: Path) -> None:
    def command(given: WarmupStage) -> subprocess.CompletedProcess[str]:
        words = ["warmup", "--settings", given.model_dump_json(), "--output", "policy", "--metrics", "metrics.json"]
        return subprocess.run(
            [sys.executable, "-m", "progpo", *words],
            cwd=tmp_path,
            env={**os.environ},
            text=True,
            capture_output=True,
            check=False,
        )

    wanted = validate(WarmupStage, {"policy": settings(pretrained).policy.model_dump()}, "test")
    refused = command(wanted)
    assert refused.returncode == 1
    assert refused.stderr == (
        "progpo: error: warmup: no demonstrations; name their files, or set warmup.tokens: 0 for none at all\n"
    )
    done = command(settings(pretrained))
    assert done.returncode == 0, done.stderr
    assert "nothing was trained" in done.stderr
    assert load_policy(tmp_path / "policy").settings == settings(pretrained).policy
