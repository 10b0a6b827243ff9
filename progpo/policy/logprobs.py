"""Log-probabilities of chosen tokens, and losses over them, without logits where there is no loss.

Hidden states are computed for packed sequences; the output layer sees only the rows that predict a token in question,
a chunk of them at a time, and its logits are gone when their part of the loss and of the gradient is known. So memory
is bounded by the hidden states, whatever the vocabulary.

Shapes: N tokens, R of them predicted, C hidden size, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from progpo.errors import ProgpoError
from progpo.policy import packed
from progpo.policy.choices import Allowed, restricted

#: Logits that exist at once; fits the second-level cache of a processor core, more or less.
CHUNK_LOGITS = 1 << 19
#: The same on an accelerator, where small products are slow: a quarter of a GiB.
ACCELERATOR_CHUNK_LOGITS = 1 << 26
#: Rows of a chunk at least, whatever the vocabulary.
CHUNK_ROWS = 64
#: The name under which transformers knows attention inside packed sequences.
PACKED = "progpo_packed"

#: (log-probabilities (n,), entropies (n,) or None, which of the R predicted tokens) -> losses (n,), to be summed.
Objective = Callable[[Tensor, Tensor | None, slice], Tensor]


@dataclass(frozen=True)
class Batch:
    """Packed sequences and the tokens to predict in them.

    Attributes:
        tokens: (N,) int64, all sequences one after another, each up to the token before its last predicted one.
        lengths: of the sequences.
        rows: (R,) int64, which of the N tokens stand before a predicted one.
        targets: (R,) int64, the predicted tokens.
        allowed: (K,) int64, the tokens that may stand at the first predicted one's place, at the second's, ...; None:
            all may at all.
        ends: (R + 1,) where those of each place begin, and the last's end.
    """

    tokens: Tensor
    lengths: tuple[int, ...]
    rows: Tensor
    targets: Tensor
    allowed: Tensor | None = None
    ends: np.ndarray | None = None

    def restrict(self, logits: Tensor, part: slice) -> Tensor:
        """Return a part's logits, in which only what is allowed has a chance."""
        if self.allowed is None:
            return logits
        counts = np.diff(self.ends[part.start : part.stop + 1])
        rows = torch.from_numpy(np.repeat(np.arange(len(counts)), counts)).to(logits.device)
        return restricted(logits, rows, self.allowed[self.ends[part.start] : self.ends[part.stop]])


def pack(
    tokens: Sequence[np.ndarray],
    positions: Sequence[np.ndarray],
    device: torch.device | str = "cpu",
    allowed: Sequence[Allowed | None] = (),
) -> Batch:
    """Pack sequences.

    Args:
        tokens: of each sequence.
        positions: of each sequence, the places of the tokens to predict, ascending, from 1; at least one.
        allowed: what may stand there; None, for all sequences or for none: anything.
    """
    lengths = tuple(int(places[-1]) for places in positions)
    read = np.concatenate([item[:length] for item, length in zip(tokens, lengths, strict=True)])
    starts = np.cumsum([0, *lengths[:-1]])
    rows = np.concatenate([places - 1 + start for places, start in zip(positions, starts, strict=True)])
    targets = np.concatenate([item[places] for item, places in zip(tokens, positions, strict=True)])
    return Batch(
        torch.from_numpy(read.astype(np.int64)).to(device),
        lengths,
        torch.from_numpy(rows.astype(np.int64)).to(device),
        torch.from_numpy(targets.astype(np.int64)).to(device),
        *_choices([item for item in allowed if item is not None], device),
    )


def _choices(allowed: Sequence[Allowed], device: torch.device | str) -> tuple[Tensor, np.ndarray] | tuple[()]:
    if not allowed:
        return ()
    every = Allowed.join(allowed)
    return torch.from_numpy(every.tokens.astype(np.int64)).to(device), np.cumsum([0, *every.counts])


def check_model(model: Any) -> None:
    """Refuse a model whose logits or attention are not what this module computes.

    Raises:
        ProgpoError: layers with other than full attention; logits that are not the output layer's product alone.
    """
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    with torch.inference_mode():
        probe = torch.arange(4, device=model.device)[None] % model.config.vocab_size
        logits = model(input_ids=probe, use_cache=False).logits[0].float()
        batch = Batch(probe[0], (4,), torch.arange(4, device=model.device), probe[0])
        product = F.linear(hidden_states(model, batch), model.get_output_embeddings().weight).float()
    if kinds != {"full_attention"} or (logits - product).abs().max() > 1e-3 * logits.abs().max().clamp(min=1):
        raise ProgpoError(
            f"policy: a {model.config.model_type} model cannot be trained here (it needs full attention in all layers, "
            "and logits that are its output layer's product and nothing else)"
        )


def hidden_states(model: Any, batch: Batch) -> Tensor:
    """Return the hidden states (R, C) from which a batch's tokens are predicted."""
    # On an accelerator, attention in one kernel is worth more than what is saved around it.
    if batch.tokens.device.type == "cpu" and packed.supported(model):
        return packed.hidden_states(model, batch.tokens, batch.lengths, batch.rows)
    from transformers import AttentionInterface

    AttentionInterface.register(PACKED, _attend)
    positions = torch.cat([torch.arange(length, device=batch.tokens.device) for length in batch.lengths])
    usual = model.config._attn_implementation
    model.config._attn_implementation = PACKED
    try:
        output = model.base_model(
            input_ids=batch.tokens[None], position_ids=positions[None], use_cache=False, progpo_lengths=batch.lengths
        )
    finally:
        model.config._attn_implementation = usual
    return output.last_hidden_state[0, batch.rows]


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    scaling: float,
    progpo_lengths: tuple[int, ...],
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it: query (1, H, N, D), key and value (1, K, N, D); inside each sequence."""
    parts = (item.split(progpo_lengths, 2) for item in (query, key, value))
    shared = query.shape[1] != key.shape[1]
    out = [
        F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=shared)
        for q, k, v in zip(*parts, strict=True)
    ]
    return torch.cat(out, 2).transpose(1, 2), None


def logprobs(model: Any, batch: Batch, temperature: float = 1.0) -> Tensor:
    """Return log-probabilities (R,) of a batch's tokens, float32, without gradient."""
    with torch.no_grad():
        hidden, weight = _lowered(hidden_states(model, batch), model.get_output_embeddings().weight)
        found = [_Chunk(hidden[part], weight, batch, part, temperature).logprobs for part in _parts(hidden, weight)]
    return torch.cat(found)


def total_loss(
    model: Any, batch: Batch, objective: Objective, temperature: float = 1.0, entropy: bool = False
) -> Tensor:
    """Return the sum of an objective over a batch's tokens, a scalar with gradient.

    Args:
        objective: gives the loss of tokens by their log-probabilities; called for one chunk after another. A loss may
            depend on its own token's log-probability alone.
        entropy: whether the objective gets the distributions' entropies too.
    """
    hidden = hidden_states(model, batch)
    weight = model.get_output_embeddings().weight
    return _TotalLoss.apply(hidden, weight, batch, temperature, objective, entropy)


class _TotalLoss(Function):
    """The output layer and the loss in one: each chunk's gradient is computed while its logits are there."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        batch: Batch,
        temperature: float,
        objective: Objective,
        entropy: bool,
    ) -> Tensor:
        grad_hidden = torch.empty_like(hidden)
        # Where adapters alone are trained, the output layer needs no gradient.
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        total = torch.zeros((), device=hidden.device)
        hidden, weight = _lowered(hidden, weight)
        for part in _parts(hidden, weight):
            chunk = _Chunk(hidden[part], weight, batch, part, temperature, entropy)
            with torch.enable_grad():
                losses = objective(chunk.logprobs.requires_grad_(), chunk.entropies, part)
                (slopes,) = torch.autograd.grad(losses.sum(), chunk.logprobs)
            total += losses.detach().sum()
            # d log p(target) / d logits = (one-hot of the target - p) / temperature
            slopes = (slopes / temperature)[:, None]
            grad_logits = chunk.exponentials.mul_(-slopes / chunk.normaliser)
            grad_logits = grad_logits.scatter_add_(1, batch.targets[part, None], slopes).to(weight.dtype)
            grad_hidden[part] = torch.mm(grad_logits, weight)
            if grad_weight is not None:
                grad_weight += torch.mm(grad_logits.t(), hidden[part])
        ctx.save_for_backward(grad_hidden, grad_weight)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad, None if grad_weight is None else grad_weight * grad, None, None, None, None


class _Chunk:
    """The softmax of n rows, over what is allowed.

    Attributes:
        logprobs: (n,) of the targets.
        entropies: (n,) where asked for.
        exponentials: (n, V) of the logits less their maximum.
        normaliser: (n, 1) their sums.
    """

    def __init__(
        self, hidden: Tensor, weight: Tensor, batch: Batch, part: slice, temperature: float, entropy: bool = False
    ) -> None:
        logits = batch.restrict(torch.mm(hidden, weight.t()).float(), part)
        if temperature != 1.0:
            logits /= temperature
        logits -= logits.amax(-1, keepdim=True)
        chosen = logits.gather(1, batch.targets[part, None])[:, 0]
        self.exponentials = logits.exp() if entropy else logits.exp_()
        self.normaliser = self.exponentials.sum(-1, keepdim=True)
        log_normaliser = self.normaliser[:, 0].log()
        self.logprobs = chosen - log_normaliser
        self.entropies = None
        if entropy:
            self.entropies = log_normaliser - torch.linalg.vecdot(self.exponentials, logits) / self.normaliser[:, 0]


def _lowered(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return both in the dtype of the autocast region, if there is one."""
    kind = hidden.device.type
    if not torch.is_autocast_enabled(kind):
        return hidden, weight
    dtype = torch.get_autocast_dtype(kind)
    return hidden.to(dtype), weight.to(dtype)


def _parts(hidden: Tensor, weight: Tensor) -> list[slice]:
    """Return slices of the rows whose logits are computed at once."""
    rows, most = len(hidden), CHUNK_LOGITS if hidden.device.type == "cpu" else ACCELERATOR_CHUNK_LOGITS
    step = max(CHUNK_ROWS, most // len(weight))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
