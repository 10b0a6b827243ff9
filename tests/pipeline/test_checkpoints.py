"""The configs for released checkpoints: planned whole, and run with a tiny checkpoint of the same kind."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from qwen import make_checkpoint

from progpo.artifacts import verify
from progpo.policy.checkpoint import load_policy
from progpo.policy.rendering import make_renderer
from progpo.settings.experiment import load_experiment
from progpo.status import Plan
from tests.pipeline.running import ROOT, Run

pytestmark = pytest.mark.slow

CONFIGS = sorted((ROOT / "config").glob("qwen2.5-*.yaml"))
#: What makes a config small, whatever the environment.
SMALL: dict[str, Any] = {
    "experiment": "tiny",
    "iterations": 1,
    "rollout": {"tasks": 2, "group_size": 2, "shards": 1},
    "update": {"minibatches": 2, "learning_rate": 1e-3, "processes": 1, "strategy": "ddp"},
    "evaluation": {"tasks": 2},
}
#: ... and by config. Both have prompts too long for two past steps.
SMALLER: dict[str, dict[str, Any]] = {
    "qwen2.5-1.5b-alfworld": {
        "environment": {"max_steps": 4},
        "tasks": {
            "source": "generated",
            "splits": {"train": 6, "valid_seen": 2, "valid_unseen": 2},
            "difficulty": {"rooms": "small", "receptacles": 0.5, "distractors": [2, 4]},
        },
        "policy": {"max_context_tokens": 452, "max_response_tokens": 12},
    },
    "qwen2.5-7b-webshop": {
        "environment": {"max_steps": 4},
        "tasks": {
            "source": "generated",
            "splits": {"train": 24, "test": 4},
            "difficulty": {"products": 40, "options": [0, 1]},
        },
        "policy": {"max_context_tokens": 410, "max_response_tokens": 12},
    },
}


def configure(folder: Path, name: str, changes: dict[str, Any]) -> Run:
    """Make a folder to run a shipped config in, with changes to its sections."""
    config = yaml.safe_load((ROOT / "config" / f"{name}.yaml").read_text())
    for section, values in changes.items():
        config[section] = {**config.get(section, {}), **values} if isinstance(values, dict) else values
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return Run(folder)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_whole_experiment_is_planned(path: Path, tmp_path: Path) -> None:
    """150 iterations of two arms, from the checkpoint as it is: no demonstrations."""
    jobs = Counter(job.stage for job in Plan.of(load_experiment(path)).jobs(tmp_path))
    assert "demonstrate" not in jobs
    assert (jobs["warmup"], jobs["advantages"], jobs["update"], jobs["evaluate"]) == (1, 300, 300, 3)
    # The first iteration's shards are shared by both arms.
    assert jobs["rollout"] == 4 * (2 * 150 - 1)
    # Snakemake plans the same: one config whole, which takes a while, of the others the first iterations.
    run = configure(tmp_path, path.stem, {} if path == CONFIGS[0] else {"iterations": 3})
    plan = Plan.of(load_experiment(run.folder / "config.yaml"))
    assert run.planned() == Counter(job.stage for job in plan.jobs(run.artifacts))


@pytest.fixture(scope="module", params=sorted(SMALLER))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A complete run of a config on a tiny checkpoint; not to be touched."""
    folder = tmp_path_factory.mktemp(request.param)
    checkpoint = make_checkpoint(folder / "checkpoint", tied="1.5b" in request.param)
    own = SMALLER[request.param]
    changes = {**SMALL, **own, "policy": {**own["policy"], "path": str(checkpoint)}}
    made = configure(folder, request.param, changes)
    result = made()
    assert result.returncode == 0, result.stdout
    return made


def rows(run: Run) -> list[dict[str, Any]]:
    shards = sorted((run.artifacts / "seed-0/shared/iteration-001").glob("shard-*.parquet"))
    return [row for shard in shards for row in pq.read_table(shard).to_pylist()]


def test_artifacts_are_whole_and_nothing_is_left_to_do(run: Run) -> None:
    assert verify(run.artifacts) == ([], [])
    assert run.planned(PYTHONHASHSEED="1") == {}
    assert not (run.artifacts / "demonstrations").exists()
    status = run.progpo("status", "artifacts/tiny").stdout
    assert "to come" not in status, status


def test_the_policy_before_training_is_the_checkpoint(run: Run) -> None:
    import torch
    from safetensors.torch import load_file

    given = load_file(run.folder / "checkpoint/model.safetensors")
    taken = load_file(run.artifacts / "seed-0/warmup/policy/model.safetensors")
    assert given.keys() == taken.keys()
    assert all(torch.equal(given[name].float(), taken[name]) for name in given)
    metrics = json.loads((run.artifacts / "seed-0/warmup/metrics.json").read_text())
    assert (metrics["tokens"], metrics["curve"], metrics["final"]) == (0, [], None)


def test_prompts_tell_the_task_and_are_cut_from_its_oldest_step(run: Run) -> None:
    policy = load_policy(run.artifacts / "seed-0/warmup/policy")
    renderer = make_renderer(policy)
    cut = 0
    begun = ""
    for row in rows(run):
        text = policy.tokenizer.decode(row["context_tokens"], skip_special_tokens=False)
        begun = row["observation"] if row["step"] == 0 else begun
        assert begun.strip() in text
        assert row["observation"].strip() in text
        assert text.endswith("<|im_start|>assistant\n")
        assert "<action>" in text
        assert len(row["context_tokens"]) <= renderer.context_limit
        told = text.count("[action ")
        assert told + row["history_cut"] == min(row["step"], 2)
        cut += row["history_cut"] > 0
    assert 0 < cut < len(rows(run))
    for arm in ("gigpo", "progpo"):
        metrics = json.loads((run.artifacts / f"seed-0/{arm}/iteration-001/advantages.json").read_text())
        assert metrics["cut_prompts"] == cut
    curves = (run.artifacts / "report/curves.csv").read_text().splitlines()
    place = curves[0].split(",").index("cut_prompts")
    assert float(curves[1].split(",")[place]) == pytest.approx(cut / len(rows(run)), abs=1e-3)


def test_prompts_list_what_can_be_done(run: Run) -> None:
    policy = load_policy(run.artifacts / "seed-0/warmup/policy")
    first = next(row for row in rows(run) if row["step"] == 0)
    text = policy.tokenizer.decode(first["context_tokens"], skip_special_tokens=False)
    assert ("- search[<words>]\n" in text) == ("WebShop" in text)
    assert ("- inventory\n" in text) == ("WebShop" not in text)
    assert "click[search]" not in text


def test_updates_change_the_policy_and_keep_its_tokenizer(run: Run) -> None:
    seed = run.artifacts / "seed-0"
    before = load_policy(seed / "warmup/policy")
    for arm in ("gigpo", "progpo"):
        after = load_policy(seed / arm / "iteration-001/policy")
        assert after.tokenizer_fingerprint == before.tokenizer_fingerprint
        update = json.loads((seed / arm / "iteration-001/update.json").read_text())
        assert update["optimizer_steps"] > 0
        assert update["logprob_difference"] < 1e-3
        # A random policy says nothing well-formed: each step has the penalty, and so a gradient.
        assert after.fingerprint != before.fingerprint
