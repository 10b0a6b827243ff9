"""The padded loop that the update is timed against computes the same."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.update.__main__ import CASES, summary
from benchmarks.update.measure import products
from benchmarks.update.padded import batches_of, padded_loss
from progpo.artifacts import write_manifest
from progpo.policy.checkpoint import create_scratch, save_files
from progpo.policy.optimisation import Optimisation
from progpo.policy.sequences import TokenSequence
from progpo.policy.update import Updater
from progpo.settings.advantages import AdvantageSettings
from progpo.settings.stages import PolicySettings, UpdateSettings
from progpo.stages import advantages
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

SIZES = {"hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 2, "intermediate_size": 64}


@pytest.fixture(scope="module")
def policy() -> Any:
    return create_scratch(PolicySettings(**SIZES), ["go to cabinet 1", "You see a cabinet 1."], seed=0)


def make(vocabulary: int, count: int = 7) -> list[TokenSequence]:
    rng = np.random.default_rng(0)
    sequences = []
    for owner in range(count):
        tokens = rng.integers(vocabulary, size=int(rng.integers(10, 60))).astype(np.int32)
        positions = np.sort(rng.choice(np.arange(1, len(tokens)), size=len(tokens) // 3, replace=False))
        values = rng.normal(size=len(positions)).astype(np.float32)
        sequences.append(TokenSequence(owner, tokens, positions, -4 + 0.1 * values, values))
    return sequences


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_both_ways_give_the_same_loss_and_gradients(policy: Any, kl: float, monkeypatch: pytest.MonkeyPatch) -> None:
    sequences = make(len(policy.tokenizer))
    settings = UpdateSettings(kl=kl, batch_tokens=150)
    reference = create_scratch(PolicySettings(**SIZES), ["go to cabinet 1", "You see a cabinet 1."], seed=1).model
    model = copy.deepcopy(policy.model)
    loss = padded_loss(model, reference if kl else None, sequences, 7, settings, 0.9)
    gradients = {name: item.grad for name, item in model.named_parameters()}

    other = copy.deepcopy(policy.model)
    found = {}

    def step(self: Optimisation) -> float:
        found.update({name: item.grad.clone() for name, item in other.named_parameters()})
        return 0.0

    monkeypatch.setattr(Optimisation, "step", step)
    metrics = Updater(other, reference, settings).update(sequences, 7, 0.9, seed=0, iteration=1)
    assert metrics["loss"] == pytest.approx(loss, rel=1e-4)
    for name, gradient in gradients.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-6, msg=name)


def test_padded_batches_keep_to_their_budget() -> None:
    sequences = make(10, 20)
    batches = batches_of(sequences, 150)
    assert [item.owner for batch in batches for item in batch] == list(range(20))
    assert len(batches) > 3
    for batch in batches:
        assert len(batch) * max(len(item.tokens) for item in batch) <= 150


def test_products_count_what_cannot_be_done_without(policy: Any) -> None:
    sequences = [TokenSequence(0, np.zeros(10, np.int32), np.arange(5, 10), *(np.zeros(5, np.float32),) * 2)]
    layer = 4 * 32 * 32 + 3 * 32 * 64
    attention = 2 * 2 * 32 * 2 * 10**2 / 2
    head = 2 * 32 * len(policy.tokenizer) * 5
    assert products(policy.model, sequences, passes=3) == 3 * (2 * 2 * layer * 10 + head + attention)


def test_a_measurement_prints_times_and_memory(policy: Any, tmp_path: Path) -> None:
    (tmp_path / "policy").mkdir()
    save_files(policy, tmp_path / "policy")
    write_manifest(tmp_path / "policy", "warmup", {}, files=[*(tmp_path / "policy").iterdir()])
    steps = [Step("o", "p", "a", True, 0.0, False, False, None, None, [5, 6, 7], [8, 9], [-1.0, -1.0])]
    shard = tmp_path / "shard-00.parquet"
    told = [Trajectory(0, number, "t", "x", outcome=number, steps=steps * 3) for number in range(3)]
    write_shard(shard, told, Metadata(kind="rollout", policy=policy.fingerprint, temperature=1.0, layout="append"))
    advantages.run(AdvantageSettings(base="grpo"), [shard], tmp_path / "advantages.parquet", tmp_path / "a.json")
    command = [sys.executable, "-m", "benchmarks.update.measure", str(tmp_path), "packed", "--repeats", "2"]
    done = subprocess.run([*command, "--kl", "0"], capture_output=True, text=True, check=True)
    run = json.loads(done.stdout)
    assert run["tokens"] == 45
    assert run["response_tokens"] == 18
    # The second trajectory has the mean outcome, hence no advantage.
    assert run["computed_share"] == pytest.approx(2 / 3)
    told = summary("packed", "float32", 0.0, [run], {"float32": 1e9})
    assert told["seconds"] == run["cpu"][1]
    assert told["tokens_a_second"] == pytest.approx(45 / run["cpu"][1])
    assert ("packed", "float32", 0.0) in CASES
