"""The own sampler on a device. No machine of the tests has a GPU: the device without data shows what is left behind."""

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from progpo.policy.backends import open_backend
from progpo.policy.backends.own import OwnSampler
from progpo.policy.checkpoint import load_policy
from progpo.policy.precision import compute_device, compute_dtype
from progpo.policy.sampler import Sampler
from progpo.settings.stages import RolloutSettings


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_pass_stays_on_the_model_s_device(dtype):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=90, num_key_value_heads=1, **sizes)).eval().to("meta", dtype)
    sampler = Sampler(model, rows=3, limit=1000, temperature=1.0)
    assert (sampler.decoder is None) == (dtype == torch.bfloat16)
    for _ in range(3):
        sampler.cache.open()
    # The second row begins as the first, the third outgrows the cache's first capacity.
    chunks = [[1, 2, 3], [1, 2, 3], list(range(80)) * 4]
    for step in range(3):
        logits = sampler.logits(chunks if step == 0 else [[step]] * 3)
        assert (logits.device.type, logits.shape, logits.dtype) == ("meta", (3, 90), torch.float32)
        sampler.cache.rewind(2, 300)
    sampler.cache.close(0)
    assert sampler.logits([[7], [8]]).device.type == "meta"


def test_on_a_gpu_weights_are_held_as_they_are_computed_with(made, monkeypatch):
    moved = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, device: moved.append((device.type, self.dtype)))
    for precision in ("auto", "float32", "bfloat16"):
        backend = open_backend(made / "policy", RolloutSettings(precision=precision), 1.0, strict=True)
        assert backend._autocast is None
    assert moved == [("cuda", torch.bfloat16), ("cuda", torch.float32), ("cuda", torch.bfloat16)]


def test_without_a_gpu_weights_stay_exact_on_the_processor(made, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (compute_device().type, compute_dtype("bfloat16")) == ("cpu", torch.bfloat16)
    backend = open_backend(made / "policy", RolloutSettings(precision="bfloat16"), 1.0, strict=True)
    assert backend.policy.model.dtype == torch.float32
    assert backend.facts() == {"backend": "progpo", "device": "cpu", "dtype": "bfloat16"}
    assert OwnSampler(load_policy(made / "policy"), 1.0, device="meta").policy.model.device.type == "meta"
