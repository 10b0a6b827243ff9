"""Qwen2's forward pass over packed new tokens and a ragged cache, for sampling on the processor.

The stock model spends most of its time around the matrix products when they are as small as here. This one computes
the same from weights that were put together once: normalisation weights and the scale of the scores go into the
matrices that follow them, and products with the same input are one product.

Shapes: N new tokens, B rows, C hidden size, H query heads, K key/value heads, D head size, F intermediate size.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from progpo.policy.cache import Chunks, RaggedCache


class Decoder:
    """The weights of a Qwen2ForCausalLM, put together for decoding.

    They are copies: a later change of the model is not seen.

    Args:
        model: one that `progpo.policy.packed.supported` supports.
        dtype: in which the matrix products are computed; all else is in float32.
        limit: longest conversation.
    """

    def __init__(self, model: Any, dtype: torch.dtype, limit: int) -> None:
        config, base = model.config, model.model
        self.dtype = dtype
        self._heads, self._shared = config.num_attention_heads, config.num_key_value_heads
        self._eps = config.rms_norm_eps
        with torch.no_grad():
            self._embedding = base.embed_tokens.weight.float()
            # (limit, 1, D) each, the D/2 angles twice.
            positions = torch.arange(limit, device=self._embedding.device)
            angles = base.rotary_emb(positions.float(), positions[None])
            self._cos, self._sin = (item[0, :, None, : item.shape[-1] // 2].float() for item in angles)
            self._layers = [_Layer(layer, dtype) for layer in base.layers]
            output = model.get_output_embeddings().weight.float()
            self._output = (output * base.norm.weight.float()).to(dtype)

    def logits(self, tokens: Tensor, chunks: Chunks, cache: RaggedCache) -> Tensor:
        """Return the logits (B, vocabulary) after each row's new tokens (N,), and put these into the cache."""
        x = F.embedding(tokens, self._embedding)
        cos, sin = self._cos[chunks.positions], self._sin[chunks.positions]
        half, last = cos.shape[-1], len(self._layers) - 1
        for number, layer in enumerate(self._layers):
            # (N, H + 2 K, D): queries, keys, values.
            qkv = F.linear(self._normed(x), layer.qkv, layer.qkv_bias).float().unflatten(1, (-1, 2 * half))
            turning = qkv[:, : self._heads + self._shared]
            a, b = turning[..., :half], turning[..., half:]
            turned = torch.mul(a, cos).addcmul_(b, sin, value=-1), torch.mul(b, cos).addcmul_(a, sin)
            torch.cat(turned, -1, out=turning)
            queries, fresh = qkv[:, : self._heads], qkv[:, self._heads :].unflatten(1, (2, -1))
            attended = cache.attend(number, chunks, queries, fresh).flatten(1)
            if number == last:
                # Of the last layer only the rows' last tokens are of use.
                attended, x = attended[chunks.last], x[chunks.last]
            x = x + F.linear(attended, layer.out)
            gate, up = F.linear(self._normed(x), layer.gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate).mul_(up), layer.down)
        return F.linear(self._normed(x), self._output).float()

    def _normed(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], eps=self._eps).to(self.dtype)


class _Layer:
    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        scales = (attention.scaling, 1.0, 1.0)
        before, between = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        pairs = list(zip(projections, scales, strict=True))
        self.qkv = torch.cat([item.weight * before * scale for item, scale in pairs]).to(dtype)
        self.qkv_bias = torch.cat([item.bias * scale for item, scale in pairs]).to(dtype)
        self.out = attention.o_proj.weight.detach().to(dtype)
        self.gate_up = (torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight)) * between).to(dtype)
        self.down = mlp.down_proj.weight.detach().to(dtype)
