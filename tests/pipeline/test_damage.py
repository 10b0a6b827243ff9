"""Damage is noticed, refused and listed; the remedy that the message names works."""

import shutil

import pytest

from tests.pipeline.running import Run

pytestmark = pytest.mark.slow

WARMUP = "seed-0/warmup/policy"
LAST = "seed-0/grpo/iteration-002"


def test_verify_of_a_complete_run(complete: Run) -> None:
    result = complete.progpo("verify", "artifacts/tiny")
    assert result.returncode == 0, result.stdout


def test_edited_weights(complete: Run, copy: Run) -> None:
    weights = copy.artifacts / LAST / "policy/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert copy.planned() == {}, "snakemake sees only the manifest: that is why there is one"

    listed = copy.progpo("verify", "artifacts/tiny")
    assert listed.returncode == 1
    assert f"{LAST}/policy/model.safetensors: changed" in listed.stdout

    refused = copy("--forcerun", f"artifacts/tiny/{LAST}/evaluation/summary.json")
    assert refused.returncode != 0
    assert f"{LAST}/policy/model.safetensors: changed" in refused.stdout
    remedy = next(line for line in refused.stdout.splitlines() if "remedy:" in line)
    result = copy(*remedy.partition("--cores all ")[2].split())
    assert result.returncode == 0, result.stdout
    assert copy.contents() == complete.contents()


def test_deleted_intermediate_is_listed(copy: Run) -> None:
    (copy.artifacts / "seed-0/shared/iteration-001/shard-01.parquet").unlink()
    listed = copy.progpo("verify", "artifacts/tiny")
    assert listed.returncode == 1
    assert "shard-01.parquet: missing" in listed.stdout


def test_truncated_shard_is_refused(copy: Run) -> None:
    shard = copy.artifacts / "seed-0/shared/iteration-001/shard-01.parquet"
    shard.write_bytes(shard.read_bytes()[:-100])
    outputs = ["--output", "out.parquet", "--metrics", "out.json"]
    result = copy.progpo("advantages", str(shard), "--settings", '{"base": "grpo"}', *outputs)
    assert result.returncode == 1
    assert "shard-01.parquet" in result.stdout
    assert "Traceback" not in result.stdout
    assert not (copy.folder / "out.parquet").exists()


def test_shards_of_another_policy_are_refused_by_the_update(copy: Run) -> None:
    """Iteration 2's shards were rolled out by iteration 1's policy, not by the warm-up."""
    arm = copy.artifacts / "seed-0/grpo"
    shards = [str(arm / f"iteration-002/shard-{shard:02d}.parquet") for shard in range(2)]
    advantages = ["--advantages", str(arm / "iteration-002/advantages.parquet")]
    result = copy.progpo(
        *["update", *shards, *advantages, "--policy", str(copy.artifacts / WARMUP)],
        *["--output", "policy", "--metrics", "update.json", "--iteration", "2"],
    )
    assert result.returncode == 1
    assert "policy" in result.stdout
    assert "Traceback" not in result.stdout
    assert not (copy.folder / "policy").exists()


def test_shards_of_two_policies_are_refused_by_the_advantages(copy: Run) -> None:
    first = copy.artifacts / "seed-0/shared/iteration-001/shard-00.parquet"
    second = copy.artifacts / "seed-0/grpo/iteration-002/shard-01.parquet"
    outputs = ["--output", "out.parquet", "--metrics", "out.json"]
    result = copy.progpo("advantages", str(first), str(second), "--settings", '{"base": "grpo"}', *outputs)
    assert result.returncode == 1
    assert "polic" in result.stdout


def test_stages_by_hand_make_the_same_files(complete: Run, copy: Run) -> None:
    """The commands, without the workflow, on the workflow's files."""
    from progpo.settings.experiment import load_experiment

    experiment = load_experiment(copy.folder / "config.yaml")
    root, arm = copy.artifacts, copy.artifacts / "seed-0/progpo/iteration-001"
    shards = [str(root / f"seed-0/shared/iteration-001/shard-{shard:02d}.parquet") for shard in range(2)]
    warmup = str(root / WARMUP)
    shutil.rmtree(arm)
    rollout = ["rollout", "--tasks", str(root / "tasks"), "--policy", warmup, "--output", shards[0]]
    advantages = ["advantages", *shards, "--output", str(arm / "advantages.parquet")]
    update = ["update", *shards, "--policy", warmup, "--reference", warmup, "--output", str(arm / "policy")]
    commands = [
        [*rollout, "--settings", experiment.stage("rollout")],
        [
            *advantages,
            "--metrics",
            str(arm / "advantages.json"),
            "--settings",
            experiment.stage("advantages", "progpo"),
        ],
        [*update, "--advantages", str(arm / "advantages.parquet"), "--metrics", str(arm / "update.json")],
    ]
    commands[2] += ["--settings", experiment.stage("update"), "--strict"]
    for command in commands:
        result = copy.progpo(*command)
        assert result.returncode == 0, result.stdout
    assert copy.contents() == complete.contents()
