"""The calculated peak of memory beside the one that is measured, on small models; known sizes of released ones."""

import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from progpo.errors import ProgpoError
from progpo.memory import RELEASED, Shape, cache_bytes, describe, rollout_memory, shape_of, update_memory
from progpo.policy import logprobs, packed
from progpo.policy.cache import RaggedCache
from progpo.policy.sequences import TokenSequence
from progpo.policy.update import Updater
from progpo.settings.experiment import load_experiment
from progpo.settings.stages import UpdateSettings

ROOT = Path(__file__).parents[2]
GIB = 2**30
#: By how much the calculation may be off.
TOLERANCE = 0.15


class Live(TorchDispatchMode):
    """Counts the bytes of all tensors that live, as operations make them and as they go."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._seen: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def add(self, tensor: torch.Tensor) -> None:
        memory = tensor.untyped_storage()
        if memory not in self._seen:
            self._seen[memory] = memory.nbytes()
            self.now += memory.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(memory, self._drop, memory.nbytes())

    def _drop(self, count: int) -> None:
        self.now -= count

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for item in tree_leaves(result):
            if isinstance(item, torch.Tensor):
                self.add(item)
        return result


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_update_takes_what_is_calculated(
    monkeypatch: pytest.MonkeyPatch, precision: str, checkpointing: bool
) -> None:
    """With transformers' own model, as on a GPU: two passes, a reference model."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokens, length, responses = 512, 128, 32
    monkeypatch.setattr(packed, "supported", lambda model: False)
    config = Qwen2Config(
        vocab_size=2000,
        hidden_size=96,
        intermediate_size=320,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    settings = UpdateSettings(batch_tokens=tokens, precision=precision, gradient_checkpointing=checkpointing)
    policy, reference = (Qwen2ForCausalLM(config).eval() for _ in range(2))
    updater = Updater(policy, reference, settings)
    numbers = np.random.default_rng(0)
    sequences = [
        TokenSequence(
            owner,
            numbers.integers(0, 2000, length).astype(np.int32),
            np.arange(length - responses, length),
            np.full(responses, -7.6, np.float32),
            np.ones(responses, np.float32),
        )
        for owner in range(2 * tokens // length)
    ]
    live = Live()
    for item in (*policy.parameters(), *reference.parameters()):
        live.add(item)
    for pair in updater.optimisation._moments.values():
        for item in pair:
            live.add(item)
    calculated = update_memory(
        Shape.of(config.to_dict()),
        tokens,
        tokens * responses // length,
        size=4 if precision == "float32" else 2,
        checkpointing=checkpointing,
        chunk_logits=logprobs.CHUNK_LOGITS,
    )
    before = live.now
    assert before == sum(calculated[name] for name in ("weights", "optimiser", "reference"))
    with live:
        updater.update(sequences, len(sequences), 1.0, 0, 1)
    assert calculated["total"] == pytest.approx(live.peak, rel=TOLERANCE)
    # What comes and goes too, not only what is there all the time.
    assert calculated["total"] - before == pytest.approx(live.peak - before, rel=2 * TOLERANCE)


def test_the_cache_is_as_large_as_calculated() -> None:
    shape = Shape(64, 3, 4, 2, 16, 128, 500, True)
    cache = RaggedCache(3, 5, 2, 16, 200, torch.bfloat16, torch.device("cpu"))
    kept = sum(item.untyped_storage().nbytes() for item in cache._kept)
    assert kept == 5 * 200 * cache_bytes(shape, 2) == rollout_memory(shape, 5, 200)["cache"]


@pytest.mark.parametrize(
    ("name", "billions"), [("Qwen2.5-0.5B", 0.494), ("Qwen2.5-1.5B", 1.544), ("Qwen2.5-7B", 7.616)]
)
def test_released_models_have_as_many_parameters_as_their_cards_say(name: str, billions: float) -> None:
    assert RELEASED[name].parameters / 1e9 == pytest.approx(billions, abs=1e-3)
    assert shape_of(f"Qwen/{name}-Instruct") == RELEASED[name]


def test_a_folder_tells_its_shape(pretrained: Path) -> None:
    from safetensors.torch import load_file

    shape = shape_of(str(pretrained))
    assert shape.parameters == sum(item.numel() for item in load_file(pretrained / "model.safetensors").values())


@pytest.mark.parametrize(
    "broken",
    [[1], {"num_attention_heads": 0}, {"hidden_size": "64"}, {"vocab_size": None}, {"num_hidden_layers": -2}],
)
def test_sizes_that_are_none_are_refused(broken: Any, tmp_path: Path) -> None:
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 99,
    }
    config = {**sizes, **broken} if isinstance(broken, dict) else broken
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ProgpoError, match=r"config\.json: its sizes"):
        shape_of(str(tmp_path))


def test_what_is_divided_or_frozen_takes_less() -> None:
    shape = RELEASED["Qwen2.5-7B"]
    whole = update_memory(shape, 16384, 4096, checkpointing=True)
    parts = update_memory(shape, 16384, 4096, checkpointing=True, processes=4, sharded=True)
    lora = update_memory(shape, 16384, 4096, checkpointing=True, lora_rank=32)
    assert whole["optimiser"] == 8 * shape.parameters == 4 * parts["optimiser"]
    assert whole["total"] > 140 * GIB > 80 * GIB > parts["total"] > lora["total"]
    # Of each layer's seven maps (inputs + outputs) x rank, twice for the moments.
    per_layer = 2 * 7168 + 2 * (3584 + 512) + 3 * (3584 + 18944)
    assert lora["optimiser"] == 8 * 28 * 32 * per_layer
    assert lora["reference"] == 0


@pytest.mark.parametrize("path", sorted((ROOT / "config").glob("qwen2.5-*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_configs_fit_80_gib(path: Path) -> None:
    *_, last, _, below = describe(load_experiment(path)).splitlines()
    assert last.startswith("total")
    assert all(0 < float(number) < 80 for number in last.split()[1:])
    # Eight processes of the 7B model, each with a reference; one of the 1.5B.
    assert ("453.9 for an update, 14.2 for a rollout" in below) == ("7b" in path.stem)


def test_the_page_says_what_is_calculated() -> None:
    page = (ROOT / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    names = ("weights", "gradients", "optimiser", "reference", "gathered", "copies", "activations", "head", "total")
    cases = {
        "one": {},
        "one, checkpointing": {"checkpointing": True},
        "one, checkpointing, LoRA of rank 32": {"checkpointing": True, "lora_rank": 32},
        **{
            f"FSDP over {count}, checkpointing": {"checkpointing": True, "processes": count, "sharded": True}
            for count in (2, 4, 8)
        },
    }
    for size in ("1.5B", "7B"):
        shape = RELEASED[f"Qwen2.5-{size}"]
        for case, settings in cases.items():
            found = update_memory(shape, 16384, 4096, **settings)
            assert f"| {size} | {case} | " + " | ".join(f"{found[name] / GIB:.1f}" for name in names) + " |" in page
        for rows in (32, 128):
            for length in (2560, 4608):
                found = rollout_memory(shape, rows, length)
                figures = " | ".join(f"{found[name] / GIB:.1f}" for name in ("weights", "cache", "total"))
                assert f"| {size} | {rows} | {length} | {figures} |" in page


def test_what_cannot_be_calculated_is_said(tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match=r"policy.path: 'somebody/model' is neither"):
        shape_of("somebody/model")
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    with pytest.raises(ProgpoError, match="lacks 'num_attention_heads'"):
        shape_of(str(tmp_path))
    with pytest.raises(ProgpoError, match="made from scratch"):
        describe(load_experiment(ROOT / "config" / "config.yaml"))
