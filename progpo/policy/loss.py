"""The objective of the policy update.

PPO's clipped surrogate (arXiv 1707.06347, eq. 7) on advantages that are given, plus an estimate of the KL divergence
to a reference policy as GRPO has it (arXiv 2402.03300, eq. 4; the estimator is Schulman's k3). Token losses are
weighted so that their plain sum over all micro-batches of a minibatch is the loss: gradients accumulate exactly.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

Averaging = Literal["token_mean", "sequence_mean", "constant"]


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return -min(r A, clip(r, 1 - clip, 1 + clip) A) of each token.

    Args:
        ratio: (R,) r = p(token) / p at sampling, both at the sampling temperature.
        advantages: (R,) of the steps that the tokens belong to.
    """
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


def clipped(ratio: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """Return (R,) bool: which tokens have no gradient, because the ratio has gone far enough the advantage's way."""
    return ((ratio > 1 + clip) & (advantages > 0)) | ((ratio < 1 - clip) & (advantages < 0))


def k3(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Return e^d - d - 1 with d = log p_ref - log p: an unbiased, never negative estimate of KL(p || p_ref)."""
    difference = reference - logprobs
    return torch.expm1(difference) - difference


def importance_weights(start: Tensor, sampled: Tensor, cap: float) -> tuple[Tensor, Tensor]:
    """Return what makes up for a sampler whose probabilities are not the trainer's, and which of it was truncated.

    The same weights in the same policy give other numbers in another engine or number format. Truncated importance
    weights (Ionides 2008, doi 10.1198/106186008X320456) keep the gradient's expectation but for the truncation, which
    bounds its variance.

    Args:
        start: (R,) log-probabilities by the trainer, of the policy that the update starts from.
        sampled: (R,) those at sampling, by the sampler.
        cap: the largest weight.

    Returns:
        (R,) min(e^(start - sampled), cap), and (R,) bool.
    """
    weights = torch.exp(start - sampled)
    return weights.clamp(max=cap), weights > cap


def token_weights(counts: np.ndarray, averaging: Averaging, constant_tokens: int) -> np.ndarray:
    """Return the weight of each token of a minibatch's trajectories, by trajectory.

    Args:
        counts: (trajectories,) response tokens of each.
        averaging: "token_mean": all tokens alike; "sequence_mean": the mean over trajectories of their tokens' means;
            "constant": the sum over `constant_tokens` and the number of trajectories (Dr. GRPO, arXiv 2503.20783).

    Returns:
        (trajectories,) float64; their sum, each taken `counts` times, is 1 for the first two.
    """
    counts = counts.astype(np.float64)
    if averaging == "token_mean":
        return np.full(len(counts), 1 / max(counts.sum(), 1))
    if averaging == "sequence_mean":
        present = max(np.count_nonzero(counts), 1)
        return np.divide(1, present * counts, out=np.zeros_like(counts), where=counts > 0)
    return np.full(len(counts), 1 / (constant_tokens * max(len(counts), 1)))
