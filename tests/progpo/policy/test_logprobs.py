"""Log-probabilities and losses against the plain way: full logits of a padded batch."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import CohereConfig, CohereForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from progpo.errors import ProgpoError
from progpo.policy import logprobs as module
from progpo.policy.logprobs import check_model, logprobs, pack, total_loss

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


def plain(model: Any, tokens: list[np.ndarray], positions: list[np.ndarray], temperature: float) -> Any:
    """Log-probabilities and entropies from full logits."""
    found, entropies = [], []
    for ids, places in zip(tokens, positions, strict=True):
        ids = torch.from_numpy(ids).long()
        every = F.log_softmax(model(input_ids=ids[None]).logits[0].float() / temperature, -1)
        found.append(every[places - 1].gather(1, ids[places, None])[:, 0])
        entropies.append(-(every.exp() * every).sum(-1)[places - 1])
    return torch.cat(found), torch.cat(entropies)


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
@pytest.mark.parametrize("chunk", [61 * 4, 1 << 19])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_losses_and_gradients_are_those_of_full_logits(
    kind: str,
    chunk: int,
    temperature: float,
    data: tuple[list[np.ndarray], list[np.ndarray]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHUNK_LOGITS", chunk)
    monkeypatch.setattr(module, "CHUNK_ROWS", 4)
    model = make_model(kind)
    tokens, positions = data
    batch = pack(tokens, positions)
    slopes = torch.randn(len(batch.targets))
    seen = []

    def objective(found: torch.Tensor, entropies: torch.Tensor | None, part: slice) -> torch.Tensor:
        seen.append(entropies)
        return torch.sin(found) * slopes[part]

    loss = total_loss(model, batch, objective, temperature, entropy=True)
    loss.backward()
    ours = {name: item.grad.clone() for name, item in model.named_parameters()}

    model.zero_grad()
    expected, entropies = plain(model, tokens, positions, temperature)
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
