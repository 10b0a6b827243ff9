"""AdamW, its schedule and its state."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from progpo.errors import ProgpoError
from progpo.policy.optimisation import AdamWSettings, Optimisation, schedule

SETTINGS = AdamWSettings(learning_rate=0.1, betas=(0.9, 0.99), weight_decay=0.5, max_gradient_norm=1.0)


def make_model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def push(optimisation: Optimisation, scale: float) -> float:
    model = optimisation.model
    optimisation.backward(scale * (model.weight.sum() + 2 * model.bias.sum()))
    return optimisation.step()


def test_first_step_is_adamw_s() -> None:
    model = make_model()
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    norm = push(Optimisation(model, SETTINGS, "float32"), 3.0)
    assert norm == pytest.approx(3 * (6 * 1 + 2 * 4) ** 0.5)
    # Bias-corrected, the first step is the gradient's sign; matrices alone decay.
    torch.testing.assert_close(model.weight.detach(), weight * (1 - 0.1 * 0.5) - 0.1)
    torch.testing.assert_close(model.bias.detach(), bias - 0.1)


def test_steps_are_those_of_torch() -> None:
    model, other = make_model(), make_model()
    optimisation = Optimisation(model, SETTINGS, "float32")
    groups = [{"params": [other.weight]}, {"params": [other.bias], "weight_decay": 0.0}]
    theirs = torch.optim.AdamW(groups, lr=0.1, betas=(0.9, 0.99), weight_decay=0.5)
    generator = torch.Generator().manual_seed(0)
    for number in range(5):
        data = torch.randn(4, 3, generator=generator)
        optimisation.backward(model(data).square().sum())
        optimisation.step(0.1 / (number + 1))
        theirs.zero_grad()
        other(data).square().sum().backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        for group in theirs.param_groups:
            group["lr"] = 0.1 / (number + 1)
        theirs.step()
        torch.testing.assert_close(model.weight, other.weight)
        torch.testing.assert_close(model.bias, other.bias)


def test_training_in_one_process_imports_neither_the_compiler_nor_what_several_need() -> None:
    code = """
import sys, torch
import progpo.policy.trained, progpo.policy.update, progpo.policy.warmup
from progpo.policy.optimisation import AdamWSettings, Optimisation
optimisation = Optimisation(torch.nn.Linear(2, 2), AdamWSettings(0.1, (0.9, 0.99), 0.0, 1.0), "auto")
with optimisation.autocast():
    optimisation.backward(optimisation.model(torch.ones(1, 2)).float().sum())
optimisation.step()
optimisation.check_parameters()
heavy = ("torch._dynamo", "torch.distributed.tensor", "torch.distributed.fsdp", "torch.distributed.elastic", "peft")
sys.exit(", ".join(name for name in heavy if name in sys.modules) or 0)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_restored_state_goes_on_to_the_same_bits() -> None:
    model = make_model()
    optimisation = Optimisation(model, SETTINGS, "float32")
    for scale in (1.0, 0.01):
        push(optimisation, scale)
    again = make_model()
    again.load_state_dict(model.state_dict())
    restored = Optimisation(again, SETTINGS, "float32")
    restored.restore(optimisation.state(), optimisation.steps, Path("state"))
    for scale in (0.5, -2.0):
        push(optimisation, scale)
        push(restored, scale)
    assert restored.steps == 4
    assert torch.equal(model.weight, again.weight)
    assert torch.equal(model.bias, again.bias)


def test_a_state_of_another_model_is_refused() -> None:
    optimisation = Optimisation(make_model(), SETTINGS, "float32")
    push(optimisation, 1.0)
    other = Optimisation(nn.Linear(4, 2), SETTINGS, "float32")
    with pytest.raises(ProgpoError, match="state: not the optimiser state of this policy"):
        other.restore(optimisation.state(), 1, Path("state"))


def test_precision_of_one_stage_does_not_bind_the_next() -> None:
    for precision, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        optimisation = Optimisation(make_model(), SETTINGS, precision)
        with optimisation.autocast():
            assert optimisation.model(torch.ones(2, 3)).dtype is dtype
        # Outside, the model computes as ever.
        assert optimisation.model(torch.ones(2, 3)).dtype is torch.float32


def test_schedule_rises_linearly_and_falls_as_a_cosine() -> None:
    assert schedule(0.05, 0.1, 0.2) == pytest.approx(0.5)
    assert schedule(0.1, 0.1, 0.2) == pytest.approx(1.0)
    assert schedule(0.55, 0.1, 0.2) == pytest.approx(0.6)
    assert schedule(1.0, 0.1, 0.2) == pytest.approx(0.2)
    assert schedule(1.3, 0.1, 0.2) == pytest.approx(0.2)
    assert schedule(0.5, 0.0, 0.0) == pytest.approx(0.5)
    # A warm-up longer than the whole work never gets to the peak.
    assert schedule(1.0, 2.0, 0.2) == pytest.approx(0.5)


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(scale: float) -> None:
    optimisation = Optimisation(make_model(), SETTINGS, "float32")
    push(optimisation, 1.0)
    before = [item.detach().clone() for item in optimisation.model.parameters()]
    with pytest.raises(ProgpoError, match=r"diverged after step 1: the gradient's norm is .*learning_rate"):
        push(optimisation, scale)
    for old, now in zip(before, optimisation.model.parameters(), strict=True):
        assert torch.equal(old, now)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_parameters_that_are_not_finite_are_refused(value: float) -> None:
    model = make_model()
    optimisation = Optimisation(model, SETTINGS, "float32")
    model.weight.data[0, 0] = 3e38
    optimisation.check_parameters()
    model.weight.data[0, 1] = value
    with pytest.raises(ProgpoError, match=r"a number in weight is .*learning_rate"):
        optimisation.check_parameters()
