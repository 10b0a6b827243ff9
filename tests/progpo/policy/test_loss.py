"""The objective against its formulas, case by case."""

import math

import numpy as np
import pytest
import torch

from progpo.policy.loss import clipped, clipped_surrogate, importance_weights, k3, token_weights

#: ratio, advantage, the surrogate at clip 0.2, whether the clip takes the gradient.
CASES = [
    (1.0, 2.0, -2.0, False),
    (1.1, 2.0, -2.2, False),
    (1.5, 2.0, -2.4, True),
    (0.5, 2.0, -1.0, False),
    (0.5, -2.0, 1.6, True),
    (1.5, -2.0, 3.0, False),
    (1.5, 0.0, 0.0, False),
]


@pytest.mark.parametrize(("ratio", "advantage", "loss", "stopped"), CASES)
def test_surrogate(ratio: float, advantage: float, loss: float, stopped: bool) -> None:
    logarithm = torch.tensor([math.log(ratio)], requires_grad=True)
    r, a = logarithm.exp(), torch.tensor([advantage])
    found = clipped_surrogate(r, a, 0.2)
    assert found.item() == pytest.approx(loss)
    found.sum().backward()
    assert logarithm.grad.item() == pytest.approx(0 if stopped else -ratio * advantage)
    assert clipped(r, a, 0.2).item() is stopped


def test_k3_is_the_formula_and_estimates_the_divergence() -> None:
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.25, 0.25, 0.5])
    estimates = k3(p.log(), q.log())
    d = (q / p).log()
    torch.testing.assert_close(estimates, d.exp() - d - 1)
    assert (estimates >= 0).all()
    # Its mean under p is the divergence itself.
    assert (p * estimates).sum().item() == pytest.approx((p * (p / q).log()).sum().item(), abs=1e-6)
    assert k3(p, p).tolist() == [0, 0, 0]


def test_k3_is_exact_where_the_models_nearly_agree() -> None:
    near = k3(torch.tensor([-1.0]), torch.tensor([-1.0 + 2**-12]))
    assert near.item() == pytest.approx(2**-25, rel=1e-2)


def test_token_weights() -> None:
    counts = np.array([2, 0, 6])
    assert token_weights(counts, "token_mean", 512).tolist() == [1 / 8] * 3
    assert token_weights(counts, "sequence_mean", 512).tolist() == [1 / 4, 0, 1 / 12]
    assert token_weights(counts, "constant", 10).tolist() == [1 / 30] * 3


def test_importance_weights_are_ratios_up_to_the_cap() -> None:
    start, sampled = torch.tensor([0.5, 0.2, 0.8]).log(), torch.tensor([0.25, 0.4, 0.1]).log()
    weights, truncated = importance_weights(start, sampled, 3.0)
    torch.testing.assert_close(weights, torch.tensor([2.0, 0.5, 3.0]))
    assert truncated.tolist() == [False, False, True]
