"""The update, on a tiny policy and trajectories that it sampled."""

import copy
import dataclasses
from pathlib import Path
from typing import Any

import corridor
import numpy as np
import pyarrow as pa
import pytest
import torch

from envs import Task
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy, load_pretrained
from progpo.policy.logprobs import logprobs, pack
from progpo.policy.play import Episode, play
from progpo.policy.sequences import TokenSequence, make_sequences, minibatches
from progpo.policy.update import Updater
from progpo.settings.stages import PolicySettings, UpdateSettings
from progpo.trajectories.write import to_table

TEMPERATURE = 0.8


def sample(policy: Policy, tasks: list[Task]) -> tuple[list[TokenSequence], int]:
    """Sequences of eight trajectories that the policy sampled; every third trajectory has no advantage."""
    episodes = [Episode(group, number, tasks[group]) for group in range(2) for number in range(4)]
    trajectories = play(
        policy, episodes, lambda: corridor.make(max_steps=6), temperature=TEMPERATURE, batch=3, seed=0, iteration=1
    )
    shards = to_table(trajectories)
    rng = np.random.default_rng(0)
    values = rng.normal(size=shards.num_rows)
    values[(shards["trajectory"].to_numpy() + shards["group"].to_numpy()) % 3 == 0] = 0
    keys = ["group", "trajectory", "step"]
    advantages = shards.select(keys).append_column("advantage", pa.array(values))
    return make_sequences(shards, advantages, policy.settings.resolved_layout)


@pytest.fixture(scope="module")
def sampled(scratch: Policy, tasks: list[Task]) -> tuple[list[TokenSequence], int]:
    return sample(scratch, tasks)


def moved(model: Any, amount: float = 0.02) -> Any:
    """A copy of a model, some way off."""
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for item in other.parameters():
            item += amount * torch.randn(item.shape, generator=generator)
    return other


def run(policy: Policy, sampled: tuple[list[TokenSequence], int], **changes: Any) -> tuple[Any, dict[str, Any]]:
    """Update a copy of the policy, with its shifted copy as the reference; return the model and the metrics."""
    settings = UpdateSettings(**changes)
    model = copy.deepcopy(policy.model)
    metrics = Updater(model, moved(model), settings).update(*sampled, TEMPERATURE, seed=0, iteration=1)
    return model, metrics


def test_update_recomputes_the_rollout_s_logprobs(scratch: Policy, sampled: Any) -> None:
    model, metrics = run(scratch, sampled, learning_rate=0, minibatches=2, epochs=2)
    assert metrics["logprob_difference"] < 1e-4
    assert metrics["ratio_deviation"] < 1e-4
    assert metrics["policy_kl"] == pytest.approx(0, abs=1e-8)
    assert metrics["ratio_mean"] == pytest.approx(1, abs=1e-4)
    assert metrics["ratio_max"] == pytest.approx(1, abs=2e-4)
    assert metrics["clip_fraction"] == 0
    for name, item in scratch.model.named_parameters():
        assert torch.equal(item, model.get_parameter(name)), name


def test_update_recomputes_a_pretrained_policy_s_logprobs(pretrained: Any, tasks: list[Task]) -> None:
    policy = load_pretrained(PolicySettings(init="pretrained", path=str(pretrained), max_response_tokens=20))
    sequences, count = sample(policy, tasks)
    assert count == 8
    assert len(sequences) > 8
    _, metrics = run(policy, (sequences, count), learning_rate=0)
    assert metrics["logprob_difference"] < 1e-4


def loop_loss(model: Any, reference: Any, sampled: Any, settings: UpdateSettings) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of all trajectories in one minibatch, and the mean k3, token by token with the stock forward pass."""
    sequences, trajectories = sampled
    by_owner: dict[int, list[torch.Tensor]] = {}
    divergences = []
    for item in sequences:
        ids = torch.from_numpy(item.tokens).long()
        now, ref = (
            torch.log_softmax(which(input_ids=ids[None]).logits[0] / TEMPERATURE, -1) for which in (model, reference)
        )
        for place, old, advantage in zip(item.positions, item.logprobs, item.advantages, strict=True):
            p, p_ref = now[place - 1, ids[place]], ref[place - 1, ids[place]].detach()
            ratio = torch.exp(p - float(old))
            held = min(max(ratio, torch.tensor(1 - settings.clip)), torch.tensor(1 + settings.clip))
            surrogate = -min(ratio * float(advantage), held * float(advantage))
            divergence = torch.exp(p_ref - p) - (p_ref - p) - 1
            divergences.append(divergence.detach())
            by_owner.setdefault(item.owner, []).append(surrogate + settings.kl * divergence)
    if settings.loss == "token_mean":
        tokens = [loss for losses in by_owner.values() for loss in losses]
        total = sum(tokens) / len(tokens)
    elif settings.loss == "sequence_mean":
        total = sum(sum(losses) / len(losses) for losses in by_owner.values()) / len(by_owner)
    else:
        total = sum(sum(losses) for losses in by_owner.values()) / settings.constant_tokens / trajectories
    return total, sum(divergences) / len(divergences)


@pytest.mark.parametrize("averaging", ["token_mean", "sequence_mean", "constant"])
def test_loss_and_gradient_are_those_of_a_plain_loop(scratch: Policy, sampled: Any, averaging: str) -> None:
    # The policy has moved since it sampled, so that ratios are not all 1 and some are clipped.
    settings = UpdateSettings(loss=averaging, kl=0.3, clip=0.1, constant_tokens=100, max_gradient_norm=1e9)
    model = moved(scratch.model, 0.05)
    reference = moved(scratch.model, 0.1)
    expected, divergence = loop_loss(model, reference, sampled, settings)
    expected.backward()
    norm = torch.nn.utils.get_total_norm([item.grad for item in model.parameters()])
    model.zero_grad()
    metrics = Updater(model, reference, settings).update(*sampled, TEMPERATURE, seed=0, iteration=1)
    assert metrics["loss"] == pytest.approx(expected.item(), rel=1e-4)
    assert metrics["gradient_norm"] == pytest.approx(norm.item(), rel=1e-4)
    assert metrics["kl"] == pytest.approx(divergence.item(), rel=1e-3)
    assert metrics["clip_fraction"] > 0.02


@pytest.mark.parametrize("averaging", ["token_mean", "sequence_mean", "constant"])
@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_size_of_the_forward_passes_changes_nothing(scratch: Policy, sampled: Any, averaging: str, kl: float) -> None:
    found = [
        run(scratch, sampled, loss=averaging, kl=kl, batch_tokens=size, minibatches=2, max_gradient_norm=1e9)[1]
        for size in (1, 150, 100_000)
    ]
    for other in found[1:]:
        assert other["loss"] == pytest.approx(found[0]["loss"], rel=1e-4)
        assert other["gradient_norm"] == pytest.approx(found[0]["gradient_norm"], rel=1e-4)
        assert other["optimizer_steps"] == 2


def test_what_has_no_gradient_is_skipped_and_still_counts(scratch: Policy, sampled: Any) -> None:
    sequences, trajectories = sampled
    _, metrics = run(scratch, sampled, kl=0.0)
    dead = sum(not item.advantages.any() for item in sequences)
    assert dead > 0
    assert metrics["zero_advantage_share"] == pytest.approx(dead / trajectories)
    assert metrics["computed_sequences"] == len(sequences) - dead
    assert metrics["computed_tokens"] < metrics["tokens"]
    # The same as with everything computed, by a KL term too small to matter.
    _, all_metrics = run(scratch, sampled, kl=1e-30)
    assert all_metrics["computed_tokens"] == metrics["tokens"]
    assert all_metrics["loss"] == pytest.approx(metrics["loss"], rel=1e-5)
    assert all_metrics["gradient_norm"] == pytest.approx(metrics["gradient_norm"], rel=1e-5)


def test_minibatch_without_gradient_takes_no_step(scratch: Policy, sampled: Any) -> None:
    sequences, trajectories = sampled
    alone = minibatches(trajectories, trajectories, seed=0, iteration=1, epoch=0)
    assert len(alone) == trajectories
    live = {item.owner for item in sequences if item.advantages.any()}
    _, metrics = run(scratch, sampled, kl=0.0, minibatches=trajectories)
    assert metrics["optimizer_steps"] == len(live) < trajectories


def test_kl_to_an_equal_reference_moves_nothing(scratch: Policy, sampled: Any) -> None:
    sequences, trajectories = sampled
    flat = [TokenSequence(s.owner, s.tokens, s.positions, s.logprobs, s.advantages * 0) for s in sequences]
    model = copy.deepcopy(scratch.model)
    updater = Updater(model, copy.deepcopy(model), UpdateSettings(kl=1.0, batch_tokens=100))
    metrics = updater.update(flat, trajectories, TEMPERATURE, seed=0, iteration=1)
    assert metrics["gradient_norm"] == 0
    assert metrics["kl"] == 0
    for name, item in scratch.model.named_parameters():
        assert torch.equal(item, model.get_parameter(name)), name


def test_update_raises_what_was_good_and_lowers_what_was_bad(scratch: Policy, sampled: Any) -> None:
    sequences, _ = sampled
    model, _ = run(scratch, sampled, kl=0.0, learning_rate=1e-3)
    batch = pack([item.tokens for item in sequences], [item.positions for item in sequences])
    change = logprobs(model, batch, TEMPERATURE) - logprobs(scratch.model, batch, TEMPERATURE)
    advantages = torch.from_numpy(np.concatenate([item.advantages for item in sequences]))
    assert (change * advantages).mean() > 0


def test_going_on_in_memory_and_from_a_saved_state_give_the_same_bits(scratch: Policy, sampled: Any) -> None:
    settings = UpdateSettings(kl=0.1, learning_rate=1e-3, minibatches=2)
    model = copy.deepcopy(scratch.model)
    updater = Updater(model, scratch.model, settings)
    for iteration in (1, 2, 3):
        if iteration == 2:
            other = copy.deepcopy(model)
            restarted = Updater(other, scratch.model, settings)
            restarted.optimisation.restore(updater.optimisation.state(), updater.optimisation.steps, Path())
        updater.update(*sampled, TEMPERATURE, seed=0, iteration=iteration)
    for iteration in (2, 3):
        restarted.update(*sampled, TEMPERATURE, seed=0, iteration=iteration)
    assert restarted.optimisation.steps == updater.optimisation.steps == 6
    for name, item in model.named_parameters():
        assert torch.equal(item, other.get_parameter(name)), name


def test_bfloat16_update_is_close_to_float32(scratch: Policy, sampled: Any) -> None:
    exact = run(scratch, sampled, precision="float32")[1]
    rounded = run(scratch, sampled, precision="bfloat16")[1]
    assert rounded["logprob_difference"] > exact["logprob_difference"]
    assert rounded["gradient_norm"] == pytest.approx(exact["gradient_norm"], rel=0.1)


def test_an_update_that_diverges_is_refused(scratch: Policy, sampled: Any) -> None:
    # A rate that the settings would refuse, to diverge for sure.
    settings = UpdateSettings(epochs=3).model_copy(update={"learning_rate": 1e30})
    model = copy.deepcopy(scratch.model)
    with pytest.raises(ProgpoError, match=r"diverged.*lower `learning_rate`"):
        Updater(model, moved(model), settings).update(*sampled, TEMPERATURE, seed=0, iteration=1)


def test_recomputed_probabilities_correct_for_the_sampler(scratch: Policy, sampled: Any) -> None:
    sequences, trajectories = sampled
    rng = np.random.default_rng(1)
    # A sampler whose probabilities are off, some by more than the cap.
    off = [
        dataclasses.replace(s, logprobs=s.logprobs + rng.normal(0, 0.5, len(s.logprobs)).astype(np.float32))
        for s in sequences
    ]
    settings = {"kl": 0.0, "learning_rate": 0.0, "importance_cap": 1.5}
    _, metrics = run(scratch, (off, trajectories), old_logprobs="recompute", minibatches=2, **settings)
    assert metrics["ratio_mean"] == pytest.approx(1, abs=1e-6)
    assert metrics["clip_fraction"] == 0
    assert metrics["ratio_deviation"] > 0.1
    assert 0.05 < metrics["importance_truncated"] < 0.5
    # One minibatch, one epoch: each ratio is 1, so the loss is minus the weighted mean advantage.
    _, metrics = run(scratch, (off, trajectories), old_logprobs="recompute", **settings)
    live = [item for item in off if item.advantages.any()]
    right = logprobs(scratch.model, pack([s.tokens for s in live], [s.positions for s in live]), TEMPERATURE)
    weights = (right - torch.from_numpy(np.concatenate([s.logprobs for s in live]))).exp().clamp(max=1.5)
    advantages = torch.from_numpy(np.concatenate([s.advantages for s in live]))
    count = sum(len(item.positions) for item in off)
    assert metrics["loss"] == pytest.approx(float(-(weights * advantages).sum() / count), rel=1e-3, abs=1e-5)
    # With a sampler that is right, nothing is corrected.
    assert run(scratch, sampled, old_logprobs="recompute")[1]["importance_mean"] == pytest.approx(1, abs=1e-4)
