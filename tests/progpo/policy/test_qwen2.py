"""The plain Qwen2 modules and the decoder compute and save what transformers does."""

import json

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from progpo.policy import packed, qwen2
from progpo.policy.sampler import Sampler

SIZES = {"vocab_size": 90, "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3}


@pytest.fixture(scope="module", params=[(True, 4), (False, 2), (True, 1)], ids=["tied", "grouped", "multiquery"])
def stock(request):
    tied, shared = request.param
    torch.manual_seed(2)
    config = Qwen2Config(
        **SIZES, num_attention_heads=4, num_key_value_heads=shared, tie_word_embeddings=tied, initializer_range=0.1
    )
    model = Qwen2ForCausalLM(config).eval()
    with torch.no_grad():
        # Biases and gains that would show if they were left out.
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.3 * torch.randn_like(parameter)
    return model


@pytest.fixture(scope="module")
def folder(stock, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    stock.save_pretrained(folder)
    return folder


def test_the_logits_are_the_same(stock, folder):
    assert qwen2.loadable(folder)
    lean = qwen2.load(folder, torch.float32).eval()
    tokens = torch.randint(0, 90, (3, 70), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = stock(tokens).logits
        assert torch.allclose(lean(tokens).logits, expected, atol=1e-5)
        assert packed.supported(lean)
        hidden = packed.hidden_states(lean, tokens.flatten(), [70] * 3, torch.arange(210))
        found = hidden @ lean.get_output_embeddings().weight.T
        assert torch.allclose(found, expected.flatten(0, 1), atol=1e-5)
        sampler = Sampler(lean, 3, limit=70, temperature=1.0)
        for _ in range(3):
            sampler.cache.open()
        for begin, end in [(0, 50), (50, 51), (51, 70)]:
            found = sampler.logits(tokens[:, begin:end].tolist())
            assert torch.allclose(found, expected[:, end - 1], atol=1e-5)


def test_it_is_saved_to_the_same_bytes(folder, tmp_path):
    qwen2.load(folder, torch.float32).save_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in folder.iterdir())
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (folder / path.name).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "llama"},
        {"hidden_act": "gelu"},
        {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
    ],
)
def test_what_it_does_not_compute_is_left_to_transformers(folder, tmp_path, change):
    qwen2.load(folder, torch.float32).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    assert not qwen2.loadable(tmp_path)
