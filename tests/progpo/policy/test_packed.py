"""The packed Qwen2 against the stock one."""

import pytest
import torch
from torch import Tensor
from transformers import Qwen2Config, Qwen2ForCausalLM

from progpo.policy import packed

LENGTHS = (7, 1, 40, 23)


def make_model(kv_heads: int = 4) -> Qwen2ForCausalLM:
    config = Qwen2Config(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
    )
    torch.manual_seed(1)
    model = Qwen2ForCausalLM(config).eval()
    # As training leaves them: gains and biases that are not their initial 1 and 0.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def stock(model: Qwen2ForCausalLM, tokens: Tensor, rows: Tensor) -> Tensor:
    parts = [model.model(input_ids=part[None]).last_hidden_state[0] for part in tokens.split(LENGTHS)]
    return torch.cat(parts)[rows]


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("kept", [0, packed.KEPT_WEIGHTS])
def test_values_and_gradients_are_the_stock_model_s(kv_heads: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "TILE", 16)
    monkeypatch.setattr(packed, "KEPT_WEIGHTS", kept)
    model = make_model(kv_heads)
    tokens = torch.randint(97, (sum(LENGTHS),))
    rows = torch.tensor([0, 6, 7, 8, 30, 47, 48, 50, 70])
    direction = torch.randn(len(rows), 32)
    found = []
    for forward in (
        lambda: packed.hidden_states(model, tokens, LENGTHS, rows),
        lambda: stock(model, tokens, rows),
    ):
        model.zero_grad()
        hidden = forward()
        (hidden * direction).sum().backward()
        found.append((hidden.detach(), {name: item.grad.clone() for name, item in model.named_parameters()}))
    (ours, our_gradients), (theirs, their_gradients) = found
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    for name, gradient in their_gradients.items():
        torch.testing.assert_close(our_gradients[name], gradient, rtol=1e-4, atol=2e-5, msg=name)


def test_sequences_do_not_see_each_other() -> None:
    model = make_model()
    tokens = torch.randint(97, (sum(LENGTHS),))
    rows = torch.arange(8, 48)
    alone = packed.hidden_states(model, tokens[8:48], (40,), torch.arange(40))
    torch.testing.assert_close(packed.hidden_states(model, tokens, LENGTHS, rows), alone, rtol=1e-5, atol=1e-5)


def test_bfloat16_autocast_is_close() -> None:
    model = make_model()
    tokens, rows = torch.randint(97, (sum(LENGTHS),)), torch.arange(sum(LENGTHS))
    exact = packed.hidden_states(model, tokens, LENGTHS, rows)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = packed.hidden_states(model, tokens, LENGTHS, rows)
    assert rounded.dtype == torch.float32
    error = (rounded - exact).norm() / exact.norm()
    assert 0 < error < 0.03


def test_other_models_are_not_supported() -> None:
    model = make_model()
    assert packed.supported(model)
    model.config.layer_types = ["sliding_attention"] * 3
    assert not packed.supported(model)


def test_rounding_for_bfloat16_leaves_the_sequences_as_they_are() -> None:
    tokens = torch.arange(sum(LENGTHS))
    rows = torch.tensor([0, 6, 7, 8, 70])
    padded, lengths, chosen = packed._rounded(tokens, LENGTHS, rows)
    assert [length % packed.ROUND for length in lengths] == [0, 0, 0, 0]
    assert len(padded) == sum(lengths)
    assert padded[chosen[: len(rows)]].tolist() == tokens[rows].tolist()
    start = 0
    for part, length in zip(tokens.split(LENGTHS), lengths, strict=True):
        assert padded[start : start + len(part)].tolist() == part.tolist()
        start += length


@pytest.mark.parametrize("count", [1, 16, 17, 300, 1000, 4097, 100_000])
def test_round_numbers_are_few_and_near(count: int) -> None:
    rounded = packed._up(count)
    assert count <= rounded < count * 17 / 16 + packed.ROUND
    assert rounded % packed.ROUND == 0
    assert len({packed._up(number) for number in range(1024, 2048)}) <= 17
