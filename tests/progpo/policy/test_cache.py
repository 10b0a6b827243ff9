"""Packed tokens over ragged rows give what a full forward pass gives."""

import random
from itertools import chain

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

from progpo.errors import ProgpoError
from progpo.policy import sampler as sampling
from progpo.policy.sampler import Sampler

SIZES = {"vocab_size": 90, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}


def make(kind, config, heads, shared):
    torch.manual_seed(1)
    return kind(config(**SIZES, num_attention_heads=heads, num_key_value_heads=shared)).eval()


@pytest.fixture(
    scope="module",
    params=[
        (Qwen2ForCausalLM, Qwen2Config, 4, 4),
        (Qwen2ForCausalLM, Qwen2Config, 4, 2),
        (LlamaForCausalLM, LlamaConfig, 4, 1),
    ],
    ids=["qwen2", "qwen2-grouped", "llama-multiquery"],
)
def model(request):
    return make(*request.param)


def conversations(count, rng):
    """Token sequences, some beginning alike, and how each is cut into what is read at once."""
    begin = [rng.randrange(90) for _ in range(31)]
    found = []
    for number in range(count):
        chunks = [begin if number % 2 else [rng.randrange(90) for _ in range(rng.randrange(1, 40))]]
        chunks += [[rng.randrange(90) for _ in range(rng.choice([1, 1, 1, 7, 300]))] for _ in range(rng.randrange(9))]
        found.append(chunks)
    return found


@pytest.mark.parametrize("most", [8192, 40, 3])
def test_every_chunk_s_logits_are_those_of_a_full_pass(model, most, monkeypatch):
    monkeypatch.setattr(sampling, "MOST_TOKENS", most)
    rng = random.Random(0)
    waiting, rows = conversations(12, rng), 5
    with torch.no_grad():
        full = [model(torch.tensor([list(chain(*chunks))])).logits[0] for chunks in waiting]
    sampler = Sampler(model, rows, limit=4000, temperature=1.0)
    queue, live = list(range(len(waiting))), []
    while queue or live:
        while queue and len(live) < rows:
            sampler.cache.open()
            live.append((queue.pop(0), 0))
        found = sampler.logits([waiting[which][at] for which, at in live])
        for row in reversed(range(len(live))):
            which, at = live[row]
            end = len(list(chain(*waiting[which][: at + 1])))
            assert torch.allclose(found[row], full[which][end - 1], atol=1e-5)
            assert sampler.cache.lengths[row] == end
            live[row] = (which, at + 1)
            if at + 1 == len(waiting[which]):
                sampler.cache.close(row)
                last = live.pop()
                if row < len(live):
                    live[row] = last
    assert sampler.cache.lengths == []


def test_a_rewound_row_forgets_what_it_held(model):
    sampler = Sampler(model, 1, limit=64, temperature=1.0)
    sampler.cache.open()
    sampler.logits([[1, 2, 3, 4, 5]])
    sampler.cache.rewind(0, 2)
    found = sampler.logits([[6, 7]])
    with torch.no_grad():
        expected = model(torch.tensor([[1, 2, 6, 7]])).logits[0, -1]
    assert torch.allclose(found[0], expected, atol=1e-5)


def test_no_row_outgrows_the_limit(model):
    sampler = Sampler(model, 1, limit=8, temperature=1.0)
    sampler.cache.open()
    with pytest.raises(ValueError, match="limit of 8"):
        sampler.logits([list(range(9))])


def test_the_model_s_own_attention_is_left_as_it_was(model):
    before = model.config._attn_implementation
    sampler = Sampler(model, 1, limit=8, temperature=1.0)
    sampler.cache.open()
    sampler.logits([[1, 2]])
    assert model.config._attn_implementation == before


def test_a_model_with_sliding_windows_is_refused():
    config = MistralConfig(**SIZES, num_attention_heads=4, num_key_value_heads=4, sliding_window=8)
    with pytest.raises(ProgpoError, match="sliding_attention"):
        Sampler(MistralForCausalLM(config), 1, limit=8, temperature=1.0)


def test_tokens_are_drawn_by_inverse_cumulative_distribution(model):
    probabilities = torch.tensor([[0.2, 0.0, 0.5, 0.3]])
    logits = probabilities.log() * 2 + 5
    sampler = Sampler(model, 1, limit=8, temperature=2.0)
    for uniform, token in [(0.0, 0), (0.19, 0), (0.21, 2), (0.69, 2), (0.71, 3), (1 - 2**-53, 3)]:
        tokens, logprobs = sampler.choose(logits, [uniform])
        assert tokens == [token]
        assert logprobs == pytest.approx([probabilities[0, token].log().item()], abs=1e-6)
    tokens, logprobs = Sampler(model, 1, limit=8, temperature=0).choose(logits / 2, [0.0])
    assert tokens == [2]
    assert logprobs == pytest.approx([probabilities[0, 2].log().item()], abs=1e-6)


def test_draws_follow_the_distribution(model):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(1, 6, generator=generator)
    uniforms = torch.rand(20000, generator=generator, dtype=torch.float64).tolist()
    tokens, _ = Sampler(model, 1, limit=8, temperature=1.0).choose(logits.expand(20000, -1), uniforms)
    shares = torch.bincount(torch.tensor(tokens), minlength=6) / 20000
    assert torch.allclose(shares, logits.softmax(-1)[0], atol=0.015)


def test_bfloat16_is_near(model):
    tokens = [list(range(40)), list(range(10))]
    exact = Sampler(model, 2, limit=64, temperature=1.0)
    rough = Sampler(model, 2, limit=64, temperature=1.0, autocast=torch.bfloat16)
    for sampler in (exact, rough):
        sampler.cache.open()
        sampler.cache.open()
    assert rough.cache._kept[0].dtype == torch.bfloat16
    assert torch.allclose(rough.logits(tokens), exact.logits(tokens), atol=0.02)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_refused(model, value, temperature):
    sampler = Sampler(model, 2, limit=8, temperature=temperature, name="policy 0123")
    logits = torch.zeros(2, 90)
    logits[1, 7] = value
    with pytest.raises(ProgpoError, match="policy 0123: its logits are not finite"):
        sampler.choose(logits, [0.5, 0.5])
