"""The update as it is written at first: padded batches, the stock forward pass, logits everywhere."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from progpo.policy.loss import clipped_surrogate, k3, token_weights
from progpo.policy.sequences import TokenSequence
from progpo.settings.stages import UpdateSettings


def pad(sequences: Sequence[TokenSequence]) -> tuple[Tensor, Tensor]:
    """Return tokens (B, L), padded on the right, and the attention mask."""
    longest = max(len(item.tokens) for item in sequences)
    tokens = torch.zeros(len(sequences), longest, dtype=torch.long)
    mask = torch.zeros(len(sequences), longest, dtype=torch.long)
    for row, item in enumerate(sequences):
        tokens[row, : len(item.tokens)] = torch.from_numpy(item.tokens)
        mask[row, : len(item.tokens)] = 1
    return tokens, mask


def spread(sequences: Sequence[TokenSequence], longest: int, values: Callable[[TokenSequence], Any]) -> Tensor:
    """Return (B, L - 1): values of the sampled tokens where they are predicted, 0 elsewhere."""
    out = torch.zeros(len(sequences), longest)
    for row, item in enumerate(sequences):
        out[row, item.positions] = torch.as_tensor(values(item), dtype=torch.float32)
    return out[:, 1:]


def logprobs_of(model: Any, tokens: Tensor, mask: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies (B, L - 1) of all tokens but the first."""
    logits = model(input_ids=tokens, attention_mask=mask, use_cache=False).logits[:, :-1].float() / temperature
    every = torch.log_softmax(logits, -1)
    with torch.no_grad():
        entropies = -(every.exp() * every).sum(-1)
    return every.gather(-1, tokens[:, 1:, None])[..., 0], entropies


def batches_of(sequences: Sequence[TokenSequence], budget: int) -> list[list[TokenSequence]]:
    """Divide sequences, in their order, among padded batches of at most `budget` tokens, padding included."""
    batches: list[list[TokenSequence]] = [[]]
    longest = 0
    for item in sequences:
        longest = max(longest, len(item.tokens))
        if batches[-1] and longest * (len(batches[-1]) + 1) > budget:
            batches.append([])
            longest = len(item.tokens)
        batches[-1].append(item)
    return batches


def padded_loss(
    model: Any,
    reference: Any | None,
    sequences: Sequence[TokenSequence],
    trajectories: int,
    settings: UpdateSettings,
    temperature: float,
    autocast: torch.dtype | None = None,
) -> float:
    """Add the gradient of all sequences in one minibatch to the model's; return the loss."""
    counts = np.zeros(trajectories, np.int64)
    for item in sequences:
        counts[item.owner] += len(item.positions)
    weights = token_weights(counts, settings.loss, settings.constant_tokens)
    total = 0.0
    for batch in batches_of(sequences, settings.batch_tokens):
        tokens, mask = pad(batch)
        longest = tokens.shape[1]
        old = spread(batch, longest, lambda item: item.logprobs)
        advantages = spread(batch, longest, lambda item: item.advantages)
        weight = spread(batch, longest, lambda item: np.full(len(item.positions), weights[item.owner]))
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            now, _ = logprobs_of(model, tokens, mask, temperature)
            losses = clipped_surrogate(torch.exp(now - old), advantages, settings.clip)
            if reference is not None:
                with torch.no_grad():
                    target, _ = logprobs_of(reference, tokens, mask, temperature)
                losses = losses + settings.kl * k3(now, target)
        # Selected, not multiplied: a ratio where nothing was sampled may be infinite.
        loss = torch.where(weight > 0, losses, 0.0).mul(weight).sum()
        loss.backward()
        total += loss.item()
    return total
