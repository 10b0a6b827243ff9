"""Sampling tokens for many conversations at once; each token is encoded once.

At every step each live conversation has tokens that the model has not read: a new observation, or the token sampled
last. All of them go through the model together, packed (see `progpo.policy.cache`), so that no conversation waits
for another's turn to end, and one that is over costs nothing.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from progpo.errors import ProgpoError
from progpo.policy import packed
from progpo.policy.cache import Chunks, RaggedCache
from progpo.policy.choices import limited
from progpo.policy.decoder import Decoder

#: The name under which transformers knows our attention.
RAGGED = "progpo_ragged"
#: Most tokens that the model reads at once; bounds the memory that long prompts take.
MOST_TOKENS = 8192


class Sampler:
    """A model and the cache of the conversations that it is in.

    Args:
        model: any causal language model of transformers with full attention in all layers.
        rows: conversations at once.
        limit: longest conversation, in tokens.
        temperature: of sampling; 0: greedy.
        autocast: dtype of the forward pass where it is not the weights' own.
        name: of the policy, for messages.

    Raises:
        ProgpoError: a model with other than full attention layers.
    """

    def __init__(
        self,
        model: Any,
        rows: int,
        limit: int,
        temperature: float,
        autocast: torch.dtype | None = None,
        name: str = "policy",
    ) -> None:
        self.model, self.temperature, self.autocast, self.name = model, temperature, autocast, name
        config = model.config
        _refuse_other_attention(config)
        heads = config.num_attention_heads
        self.cache = RaggedCache(
            config.num_hidden_layers,
            rows,
            getattr(config, "num_key_value_heads", None) or heads,
            getattr(config, "head_dim", None) or config.hidden_size // heads,
            limit,
            autocast or model.dtype,
            model.device,
        )
        self.decoder = Decoder(model, autocast or model.dtype, limit) if packed.supported(model) else None

    def logits(self, chunks: Sequence[Sequence[int]]) -> Tensor:
        """Let every open conversation read its new tokens.

        Args:
            chunks: of each row of the cache that is in use, at least one token each.

        Returns:
            (B, vocabulary), float32: of what follows each chunk.
        """
        copies: list[tuple[int, int, int]] = []
        unread: list[Sequence[int]] = []
        begun: dict[tuple[int, ...], int] = {}
        for row, chunk in enumerate(chunks):
            unread.append(chunk)
            if self.cache.lengths[row] == 0 and len(chunk) > 1:
                source = begun.setdefault(tuple(chunk), row)
                if source != row:
                    # A group's episodes begin alike: the beginning is read once.
                    copies.append((source, row, len(chunk) - 1))
                    unread[-1] = chunk[-1:]
        while sum(map(len, unread)) > MOST_TOKENS:
            room, pieces = MOST_TOKENS, []
            for tokens in unread:
                pieces.append(tokens[: min(len(tokens) - 1, room)])
                room -= len(pieces[-1])
            if room == MOST_TOKENS:
                break
            self._read(pieces, ())
            unread = [tokens[len(piece) :] for tokens, piece in zip(unread, pieces, strict=True)]
        return self._read(unread, copies)

    def _read(self, chunks: Sequence[Sequence[int]], copies: Sequence[tuple[int, int, int]]) -> Tensor:
        placed = self.cache.place([len(chunk) for chunk in chunks], copies)
        filler = (0,)
        tokens = torch.tensor([token for chunk in chunks for token in chunk or filler], device=self.model.device)
        with torch.inference_mode():
            if self.decoder:
                return self.decoder.logits(tokens, placed, self.cache)
            with self._autocast():
                return _stock_logits(self.model, self.cache, tokens, placed).float()

    def _autocast(self) -> Any:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(self.model.device.type, self.autocast)

    def choose(
        self, logits: Tensor, uniforms: Sequence[float], allowed: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[int], list[float]]:
        """Choose a token for each row by the inverse of its cumulative distribution.

        Args:
            logits: (B, vocabulary).
            uniforms: (B,) numbers in [0, 1); not looked at when greedy.
            allowed: each row's tokens to choose from; None: all.

        Returns:
            The tokens, and their log-probabilities at the sampling temperature (at 1, when greedy).

        Raises:
            ProgpoError: logits that are not finite.
        """
        if allowed is not None:
            logits = limited(logits, allowed)
        logprobs = torch.log_softmax(logits / self.temperature if self.temperature else logits, -1)
        if self.temperature:
            cumulative = logprobs.double().exp_().cumsum_(-1)
            levels = torch.tensor(np.asarray(uniforms), device=logits.device)[:, None] * cumulative[:, -1:]
            tokens = torch.searchsorted(cumulative, levels, right=True).clamp_(max=logits.shape[-1] - 1)
        else:
            tokens = logprobs.argmax(-1, keepdim=True)
        chosen = logprobs.gather(-1, tokens)[:, 0].tolist()
        # A NaN or an infinity among a row's logits makes NaN of all its log-probabilities, so one of them tells.
        if not all(map(math.isfinite, chosen)):
            raise ProgpoError(
                f"{self.name}: its logits are not finite, it has diverged; train it anew with a lower `learning_rate`"
            )
        return tokens[:, 0].tolist(), chosen


def _refuse_other_attention(config: Any) -> None:
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds and getattr(config, "sliding_window", None):
        kinds = {"sliding_attention"}
    if kinds - {"full_attention"} or getattr(config, "attn_logit_softcapping", None):
        raise ProgpoError(
            f"policy: a {config.model_type} model with {', '.join(sorted(kinds)) or 'capped'} attention cannot be "
            "sampled; use one with full attention in all layers"
        )


def _stock_logits(model: Any, cache: RaggedCache, tokens: Tensor, chunks: Chunks) -> Tensor:
    """Run a model of transformers over packed tokens, with our attention in place of its own."""
    from transformers import AttentionInterface

    AttentionInterface.register(RAGGED, _attend)
    usual = model.config._attn_implementation
    model.config._attn_implementation = RAGGED
    try:
        output = model(
            input_ids=tokens[None],
            position_ids=chunks.positions[None],
            use_cache=False,
            logits_to_keep=chunks.last,
            progpo=(cache, chunks),
        )
    finally:
        model.config._attn_implementation = usual
    return output.logits[0]


def _attend(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float, progpo: Any, **_: Any
) -> tuple[Tensor, None]:
    """Attention as transformers calls it: query (1, H, N, D), key and value (1, K, N, D)."""
    cache, chunks = progpo
    queries, keys, values = (item[0].transpose(0, 1) for item in (query, key, value))
    return cache.attend(module.layer_idx, chunks, queries * scaling, torch.stack((keys, values), 1))[None], None
