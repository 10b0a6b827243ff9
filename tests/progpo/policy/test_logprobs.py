"""Log-probabilities and losses against the plain way: full logits of a padded batch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import CohereConfig, CohereForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from progpo.errors import ProgpoError
from progpo.policy import logprobs as module
from progpo.policy.choices import Allowed
from progpo.policy.logprobs import check_model, logprobs, pack, total_loss
from progpo.policy.team import checkpoint_layers

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def make_model(kind: str) -> Any:
    torch.manual_seed(2)
    if kind == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)).eval()
    return LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)).eval()


@pytest.fixture
def data() -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    tokens = [rng.integers(61, size=length).astype(np.int32) for length in (9, 30, 4)]
    return tokens, [np.array([1, 2, 8]), np.arange(5, 20), np.array([3])]


def plain(
    model: Any, tokens: list[np.ndarray], positions: list[np.ndarray], temperature: float, allowed: Any = None
) -> Any:
    """Log-probabilities and entropies from full logits, over the tokens that are allowed at each place."""
    found, entropies = [], []
    for number, (ids, places) in enumerate(zip(tokens, positions, strict=True)):
        logits = model(input_ids=torch.from_numpy(ids).long()[None]).logits[0].float() / temperature
        for index, place in enumerate(places):
            among = allowed[number][index] if allowed else list(range(SIZES["vocab_size"]))
            every = F.log_softmax(logits[place - 1, among], -1)
            found.append(every[among.index(ids[place])])
            entropies.append(-(every.exp() * every).sum())
    return torch.stack(found), torch.stack(entropies)


def some_allowed(tokens: list[np.ndarray], positions: list[np.ndarray]) -> list[list[list[int]]]:
    """The token of each place and up to ten others; at times it stands alone."""
    rng = np.random.default_rng(5)
    return [
        [sorted({int(ids[place]), *rng.integers(61, size=rng.integers(11)).tolist()}) for place in places]
        for ids, places in zip(tokens, positions, strict=True)
    ]


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
@pytest.mark.parametrize("chunk", [61 * 4, 1 << 19])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("constrained", [False, True])
def test_losses_and_gradients_are_those_of_full_logits(
    kind: str,
    chunk: int,
    temperature: float,
    constrained: bool,
    data: tuple[list[np.ndarray], list[np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHUNK_LOGITS", chunk)
    monkeypatch.setattr(module, "CHUNK_ROWS", 4)
    model = make_model(kind)
    tokens, positions = data
    allowed = some_allowed(tokens, positions) if constrained else None
    batch = pack(
        tokens,
        positions,
        allowed=[Allowed(np.concatenate(sets).astype(np.int32), np.array(list(map(len, sets)))) for sets in allowed]
        if allowed
        else (),
    )
    slopes = torch.randn(len(batch.targets))
    seen = []

    def objective(found: torch.Tensor, entropies: torch.Tensor | None, part: slice) -> torch.Tensor:
        seen.append(entropies)
        return torch.sin(found) * slopes[part]

    loss = total_loss(model, batch, objective, temperature, entropy=True)
    loss.backward()
    ours = {name: item.grad.clone() for name, item in model.named_parameters()}

    model.zero_grad()
    expected, entropies = plain(model, tokens, positions, temperature, allowed)
    (torch.sin(expected) * slopes).sum().backward()
    torch.testing.assert_close(loss, (torch.sin(expected) * slopes).sum(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.cat(seen), entropies, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logprobs(model, batch, temperature), expected.detach(), rtol=1e-5, atol=1e-5)
    for name, item in model.named_parameters():
        torch.testing.assert_close(ours[name], item.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_gradient_agrees_with_finite_differences(data: tuple[list[np.ndarray], list[np.ndarray]]) -> None:
    model = make_model("qwen2").double()
    batch = pack(*data)

    def value() -> torch.Tensor:
        return total_loss(model, batch, lambda found, *_: found.double() ** 2, 0.8)

    value().backward()
    parameter = model.model.layers[0].mlp.up_proj.weight
    direction = torch.randn_like(parameter)
    slope = (parameter.grad * direction).sum()
    step = 1e-3
    with torch.no_grad():
        parameter += step * direction
        above = value()
        parameter -= 2 * step * direction
        below = value()
    torch.testing.assert_close((above - below).double() / (2 * step), slope, rtol=2e-3, atol=1e-3)


def test_large_logits_do_not_overflow() -> None:
    model = make_model("qwen2")
    with torch.no_grad():
        model.model.embed_tokens.weight *= 300
    tokens, positions = [np.arange(20, dtype=np.int32)], [np.arange(1, 20)]
    found = logprobs(model, pack(tokens, positions), 0.1)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, plain(model, tokens, positions, 0.1)[0].detach(), rtol=1e-4, atol=1e-2)


def test_tokens_after_the_last_predicted_one_are_not_read() -> None:
    batch = pack([np.arange(10)], [np.array([2, 4])])
    assert batch.tokens.tolist() == [0, 1, 2, 3]
    assert batch.rows.tolist() == [1, 3]
    assert batch.targets.tolist() == [2, 4]


def test_model_with_scaled_logits_is_refused() -> None:
    model = CohereForCausalLM(CohereConfig(**SIZES, logit_scale=0.25))
    with pytest.raises(ProgpoError, match="cohere model cannot be trained here"):
        check_model(model)
    check_model(make_model("qwen2"))
    check_model(make_model("llama"))


class Widest(TorchDispatchMode):
    """Notes the most rows of any tensor with a column for each token of the vocabulary."""

    rows = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.t.default:  # the output layer's weights, seen the other way
            return out
        for item in out if isinstance(out, list | tuple) else [out]:
            if isinstance(item, torch.Tensor) and item.dim() > 1 and item.shape[-1] == 61:
                self.rows = max(self.rows, item.numel() // 61)
        return out


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_no_more_logits_than_a_chunk_s_exist_and_none_of_the_context(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(kind)
    batch = pack([np.arange(60, dtype=np.int32) % 61], [np.array([40, 55, 59])])
    with Widest() as seen:
        logprobs(model, batch)
        total_loss(model, batch, lambda found, *_: found, entropy=True).backward()
    # The context's 59 tokens have no logits: a chunk holds the three rows asked for.
    assert seen.rows == 3
    monkeypatch.setattr(module, "CHUNK_LOGITS", 61)
    monkeypatch.setattr(module, "CHUNK_ROWS", 8)
    batch = pack([np.arange(60, dtype=np.int32) % 61], [np.arange(1, 60)])
    with Widest() as seen:
        logprobs(model, batch)
        total_loss(model, batch, lambda found, *_: found, entropy=True).backward()
    assert seen.rows == 8


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_gradient_checkpointing_saves_less_and_changes_no_gradient(
    kind: str, data: tuple[list[np.ndarray], list[np.ndarray]]
) -> None:
    found = []
    for wanted in (False, True):
        model = make_model(kind)
        if wanted:
            checkpoint_layers(model)
        kept = []

        def keep(item: torch.Tensor, kept: list[int] = kept) -> torch.Tensor:
            kept.append(item.numel())
            return item

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda item: item):
            loss = total_loss(model, pack(*data), lambda found, *_: found)
        loss.backward()
        found.append((sum(kept), loss.item(), {name: item.grad for name, item in model.named_parameters()}))
    (all_kept, loss, gradients), (few_kept, same_loss, same_gradients) = found
    assert few_kept < all_kept / 3
    assert same_loss == loss
    for name, gradient in gradients.items():
        torch.testing.assert_close(same_gradients[name], gradient, rtol=1e-6, atol=1e-7, msg=name)


def test_a_frozen_output_layer_gets_no_gradient(data: tuple[list[np.ndarray], list[np.ndarray]]) -> None:
    model = make_model("llama")
    model.lm_head.weight.requires_grad_(False)
    total_loss(model, pack(*data), lambda found, *_: found).backward()
    assert model.lm_head.weight.grad is None
    assert model.model.layers[0].self_attn.q_proj.weight.grad.abs().sum() > 0
