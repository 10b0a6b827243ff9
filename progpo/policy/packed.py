"""Qwen2's forward and backward pass over packed sequences.

The stock model reads a padded batch. Here the tokens of all sequences stand one after another without padding, and
attention runs inside each sequence alone. What is computed is the same; how differs:

- Attention goes through tiles of queries, each with the keys up to its own end, so that the half of the scores
  that causality forbids is mostly never computed. Its matrices are stored (heads, head size, tokens): rotary
  embedding then works on whole contiguous rows, and all products are plain batched matrix products.
- Normalisation and the gated unit are single autograd functions with few passes over memory.
- Output projection and MLP of the last layer see only the rows that are asked for.

Shapes: N tokens, C hidden size, H heads, K key/value heads, D head size, F intermediate size, R rows asked for.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

#: Queries that attend at once. Smaller tiles skip more of the forbidden scores, larger ones make fewer calls.
TILE = 192
#: Most attention weights that one layer keeps for the backward pass; beyond, they are computed again there.
KEPT_WEIGHTS = 1 << 24
#: The attribute by which a model asks for gradient checkpointing.
CHECKPOINTING = "progpo_checkpointing"
#: Sequences in bfloat16 are lengthened to a multiple of this.
ROUND = 16


def supported(model: Any) -> bool:
    """Return whether `hidden_states` computes what this model does.

    It reads weights without calling the modules that own them, so it cannot be had for layers that have adapters, or
    that are gathered from several processes when called.
    """
    config = model.config
    return (
        config.model_type == "qwen2"
        and type(model).__name__ == "Qwen2ForCausalLM"
        and not hasattr(model, "peft_config")
        and not hasattr(model.model.layers[0], "unshard")
        and set(config.layer_types) == {"full_attention"}
        and config.hidden_act == "silu"
        and not (model.training and config.attention_dropout)
        and model.dtype != torch.bfloat16
    )


def hidden_states(model: Any, tokens: Tensor, lengths: Sequence[int], rows: Tensor) -> Tensor:
    """Return the hidden states that the output layer reads.

    Linear layers and attention compute in the dtype of the autocast region, if there is one, the rest in the weights'.

    Args:
        model: a Qwen2ForCausalLM that is `supported`.
        tokens: (N,) all sequences, one after another.
        lengths: of the sequences, N in all.
        rows: (R,) indices among the N tokens.

    Returns:
        (R, C), after the last normalisation.
    """
    base, config = model.model, model.config
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    size = base.layers[0].self_attn.head_dim
    device = tokens.device
    autocast = torch.is_autocast_enabled(device.type)
    dtype = torch.get_autocast_dtype(device.type) if autocast else model.dtype
    wanted = len(rows)
    if dtype == torch.bfloat16 and device.type == "cpu":
        tokens, lengths, rows = _rounded(tokens, lengths, rows)
    bounds = [0, *accumulate(lengths)]
    x = base.embed_tokens(tokens)
    positions = torch.cat([torch.arange(length, device=device) for length in lengths])
    # The module repeats the D/2 frequencies to fill D columns.
    cos, sin = (
        item[0, :, : size // 2].t().to(dtype).contiguous() for item in base.rotary_emb(x[None], positions[None])
    )
    last = len(base.layers) - 1
    run = _checkpointed if getattr(model, CHECKPOINTING, False) else _layer
    for number, layer in enumerate(base.layers):
        x = run(layer, x, cos, sin, bounds, (heads, kv_heads), dtype, rows if number == last else None)
    return _Norm.apply(x[:wanted], base.norm.weight, base.norm.variance_epsilon, x.dtype)


def _layer(
    layer: Any,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    bounds: list[int],
    heads: tuple[int, int],
    dtype: torch.dtype,
    rows: Tensor | None,
) -> Tensor:
    """Return what a layer makes of x (N, C): (N, C), or (R, C) where rows are asked for."""
    attention = layer.self_attn
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    # Queries are scaled through their weights: (H D + 2 K D, C) numbers, not (H D, N).
    scales = (attention.scaling, 1.0, 1.0)
    weight = torch.cat([item.weight * scale for item, scale in zip(projections, scales, strict=True)])
    bias = torch.cat([item.bias * scale for item, scale in zip(projections, scales, strict=True)])
    h = _Norm.apply(x, layer.input_layernorm.weight, layer.input_layernorm.variance_epsilon, dtype)
    qkv = torch.addmm(bias[:, None], weight, h.t())
    attended = _Attention.apply(qkv, cos, sin, bounds, *heads)
    if rows is not None:
        attended, x = attended[:, rows], x[rows]
    x = x + torch.mm(attended.t(), attention.o_proj.weight.t())
    norm, mlp = layer.post_attention_layernorm, layer.mlp
    h = _Norm.apply(x, norm.weight, norm.variance_epsilon, dtype)
    gated = _Gate.apply(F.linear(h, mlp.gate_proj.weight), F.linear(h, mlp.up_proj.weight))
    return x + F.linear(gated, mlp.down_proj.weight)


def _checkpointed(*arguments: Any) -> Tensor:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(_layer, *arguments, use_reentrant=False)


def _rounded(tokens: Tensor, lengths: Sequence[int], rows: Tensor) -> tuple[Tensor, list[int], Tensor]:
    """Lengthen sequences, their sum and the number of rows to a few round numbers; rows in front are as before.

    The library that multiplies bfloat16 matrices compiles a kernel for each new shape, which takes as long as a
    product does. What is added stands after each sequence's end, where nothing attends to it.
    """
    longer = [-(-length // ROUND) * ROUND for length in lengths]
    longer[-1] += _up(sum(longer)) - sum(longer)
    starts, new_starts = (torch.tensor([0, *accumulate(item)][:-1]) for item in (lengths, longer))
    owners = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    places = torch.arange(len(tokens)) + (new_starts - starts)[owners]
    padded = tokens.new_zeros(sum(longer))
    padded[places] = tokens
    chosen = rows.new_zeros(_up(len(rows)))
    chosen[: len(rows)] = places[rows]
    return padded, longer, chosen


def _up(count: int) -> int:
    """Round up by at most a sixteenth, to one of 16 numbers between powers of two, all multiples of `ROUND`."""
    grain = max(ROUND, 1 << max(count.bit_length() - 5, 0))
    return -(-count // grain) * grain


class _Norm(Function):
    """RMSNorm (arXiv 1910.07467): x / sqrt(mean(x^2) + eps) * weight, given in a dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight).to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        grad = grad.to(x.dtype)
        normed = x * scale
        grad_weight = (grad * normed).sum(0)
        grad = grad * weight
        share = torch.linalg.vecdot(grad, normed).unsqueeze(-1).div_(x.shape[-1])
        return grad.addcmul_(normed, share, value=-1).mul_(scale), grad_weight, None, None


class _Gate(Function):
    """SwiGLU (arXiv 2002.05202): silu(gate) * up."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        activated = F.silu(gate)
        ctx.save_for_backward(gate, up, activated)
        return activated * up

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        gate, up, activated = ctx.saved_tensors
        return torch.ops.aten.silu_backward(grad * up, gate), grad * activated


class _Attention(Function):
    """Rotary embedding (arXiv 2104.09864) and causal attention inside each sequence.

    Takes ((H + 2 K) D, N): queries (scaled), keys and values, by heads; returns (H D, N).
    """

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, cos: Tensor, sin: Tensor, bounds: list[int], heads: int, kv_heads: int
    ) -> Tensor:
        turned = torch.empty((heads + kv_heads) * _size(qkv, heads, kv_heads), qkv.shape[1], dtype=qkv.dtype)
        _rotate(qkv[: len(turned)], cos, sin, out=turned)
        q, k, v = _by_head(turned, qkv, heads, kv_heads)
        out = torch.empty_like(q)
        keep = ctx.needs_input_grad[0] and _count(bounds) * heads <= KEPT_WEIGHTS
        kept = []
        for start, low, high in _tiles(bounds):
            weights = _weights(q[:, :, low:high], k[:, :, start:high], low - start)
            out[:, :, low:high] = torch.bmm(v[:, :, start:high], weights.transpose(1, 2))
            if keep:
                kept.append(weights)
        ctx.save_for_backward(turned, qkv, cos, sin, *kept)
        ctx.bounds, ctx.heads, ctx.kv_heads = bounds, heads, kv_heads
        return out.view(-1, qkv.shape[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        turned, qkv, cos, sin, *kept = ctx.saved_tensors
        heads, kv_heads = ctx.heads, ctx.kv_heads
        q, k, v = _by_head(turned, qkv, heads, kv_heads)
        grad = grad.contiguous().view_as(q)
        grad_q, grad_k, grad_v = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for number, (start, low, high) in enumerate(_tiles(ctx.bounds)):
            rows, keys = slice(low, high), slice(start, high)
            weights = kept[number] if kept else _weights(q[:, :, rows], k[:, :, keys], low - start)
            grad_scores = torch._softmax_backward_data(
                torch.bmm(grad[:, :, rows].transpose(1, 2), v[:, :, keys]), weights, -1, weights.dtype
            )
            grad_q[:, :, rows] = torch.bmm(k[:, :, keys], grad_scores.transpose(1, 2))
            grad_k[:, :, keys] += torch.bmm(q[:, :, rows], grad_scores)
            grad_v[:, :, keys] += torch.bmm(grad[:, :, rows], weights)
        if kv_heads < heads:
            grad_k, grad_v = (
                item.view(kv_heads, heads // kv_heads, *item.shape[1:]).sum(1) for item in (grad_k, grad_v)
            )
        out = torch.empty_like(qkv)
        grad_turned = torch.cat((grad_q.flatten(0, 1), grad_k.flatten(0, 1)))
        _rotate(grad_turned, cos, -sin, out=out[: len(turned)])
        out[len(turned) :] = grad_v.flatten(0, 1)
        return out, None, None, None, None, None


def _size(qkv: Tensor, heads: int, kv_heads: int) -> int:
    return qkv.shape[0] // (heads + 2 * kv_heads)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, out: Tensor) -> None:
    """Turn each pair (i, i + D/2) of a head's features by its position's angle: x (.. D, N), cos and sin (D/2, N)."""
    shape = (-1, 2, *cos.shape)
    (a, b), (c, d) = x.view(shape).unbind(1), out.view(shape).unbind(1)
    torch.mul(a, cos, out=c).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=d).addcmul_(a, sin)


def _by_head(turned: Tensor, qkv: Tensor, heads: int, kv_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values, each (H, D, N), keys and values repeated for the heads that share them."""
    size, count = _size(qkv, heads, kv_heads), qkv.shape[1]
    q = turned[: heads * size].view(heads, size, count)
    k, v = (
        item.view(kv_heads, 1, size, count).expand(-1, heads // kv_heads, -1, -1).reshape(heads, size, count)
        for item in (turned[heads * size :], qkv[len(turned) :])
    )
    return q, k, v


def _tiles(bounds: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (start of the sequence, first query, end of the queries) of each tile."""
    return [(start, low, min(low + TILE, end)) for start, end in pairwise(bounds) for low in range(start, end, TILE)]


def _count(bounds: Sequence[int]) -> int:
    return sum((high - low) * (high - start) for start, low, high in _tiles(bounds))


def _weights(q: Tensor, k: Tensor, before: int) -> Tensor:
    """Return attention weights (H, n, m) of queries (H, D, n) to keys (H, D, m), `before` of which precede them.

    The other keys are the queries' own.
    """
    scores = torch.bmm(q.transpose(1, 2), k)
    scores[:, :, before:] += torch.full_like(scores[0, :, before:], -torch.inf).triu_(1)
    return torch.softmax(scores, -1)
