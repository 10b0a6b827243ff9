"""Muon beside torch's, and what it leaves to AdamW."""

import copy
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from progpo.policy.checkpoint import Policy
from progpo.policy.muon import Muon, hidden_matrices, orthogonalised
from progpo.policy.optimisation import AdamWSettings, Optimisation
from progpo.policy.team import Team
from progpo.settings.stages import MuonSettings, WarmupSettings

SHAPES = ((16, 16), (4, 16), (48, 16), (16, 48))


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_come_near_one_and_vectors_stay(shape: tuple[int, int]) -> None:
    given = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    found = orthogonalised(given)
    left, _, right = torch.linalg.svd(given, full_matrices=False)
    middle = left.mT @ found @ right.mT
    values = middle.diagonal(dim1=1, dim2=2)
    assert values.min() > 0.5
    assert values.max() < 1.3
    torch.testing.assert_close(middle, torch.diag_embed(values), atol=1e-4, rtol=0)


def test_steps_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    ours = {str(shape): nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES}
    theirs = copy.deepcopy(ours)
    settings = MuonSettings(learning_rate=0.1, momentum=0.9)
    muon = Muon(ours, settings, 0.5, Team(torch.device("cpu")))
    other = torch.optim.Muon(theirs.values(), lr=0.1, weight_decay=0.5, momentum=0.9)
    for number in range(4):
        other.param_groups[0]["lr"] = 0.1 / (number + 1)
        for left, right in zip(ours.values(), theirs.values(), strict=True):
            left.grad = torch.randn(left.shape, generator=generator)
            right.grad = left.grad.clone()
        muon.step(1 / (number + 1))
        other.step()
    assert all(item.grad is None for item in ours.values())
    for name, item in ours.items():
        # Torch's polynomials are computed in bfloat16.
        torch.testing.assert_close(item, theirs[name], atol=0.01, rtol=0)


class Half(Team):
    """One of two processes, whose sums are taken by the test."""

    def __init__(self, index: int) -> None:
        self.index, self.count = index, 2

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        self.updates = [item.grad.clone() for item in parameters]


def test_processes_share_the_work() -> None:
    parts, wholes = [], []
    for team in (Half(0), Half(1), Team(torch.device("cpu"))):
        generator = torch.Generator().manual_seed(0)
        matrices = {str(number): nn.Parameter(torch.zeros(8, 16)) for number in range(3)}
        for item in matrices.values():
            item.grad = torch.randn(item.shape, generator=generator)
        Muon(matrices, MuonSettings(learning_rate=1.0), 0.0, team).step(1.0)
        if isinstance(team, Half):
            parts.append(team.updates)
        else:
            wholes = [-item for item in matrices.values()]
    assert [bool(part.any()) for part in parts[0]] == [True, False, True]
    for left, right, whole in zip(*parts, wholes, strict=True):
        torch.testing.assert_close(left + right, whole)


def test_embeddings_and_gains_stay_adamw_s(scratch: Policy) -> None:
    matrices = hidden_matrices(scratch.model)
    assert len(matrices) == 7 * scratch.model.config.num_hidden_layers
    assert all("layers" in name and name.endswith("proj.weight") for name in matrices)
    settings = AdamWSettings(learning_rate=0.1, betas=(0.9, 0.99), weight_decay=0.0, max_gradient_norm=1e9)
    found = {}
    for muon in (None, MuonSettings()):
        model = copy.deepcopy(scratch.model)
        optimisation = Optimisation(model, settings, "float32", muon=muon)
        optimisation.backward(model(input_ids=torch.arange(8)[None]).logits.square().mean())
        optimisation.step()
        found[muon is not None] = dict(model.named_parameters())
    for name, item in found[True].items():
        assert torch.equal(item, found[False][name]) == (name not in matrices)


def test_a_restored_state_goes_on_to_the_same_bits(scratch: Policy, tmp_path: Path) -> None:
    settings = AdamWSettings(learning_rate=0.01, betas=(0.9, 0.99), weight_decay=0.1, max_gradient_norm=1.0)

    def make() -> Optimisation:
        return Optimisation(copy.deepcopy(scratch.model), settings, "float32", muon=MuonSettings())

    def push(optimisation: Optimisation, start: int) -> None:
        tokens = torch.arange(start, start + 8)[None]
        optimisation.backward(optimisation.model(input_ids=tokens).logits.square().mean())
        optimisation.step(0.005)

    whole, again = make(), make()
    push(whole, 0)
    again.load_weights({name: item.clone() for name, item in whole.weights().items()})
    again.restore({name: item.clone() for name, item in whole.state().items()}, whole.steps, tmp_path)
    push(whole, 1)
    push(again, 1)
    for left, right in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("other", [{"strategy": "fsdp"}, {"lora": {}}])
def test_whole_matrices_are_wanted(other: dict) -> None:
    with pytest.raises(ValidationError, match="whole matrices"):
        WarmupSettings.model_validate({"muon": {}, **other})
