"""What several processes must compute as one does: run by a test in one process, and as a script in two.

`python two_processes.py FOLDER SCENARIO..` saves, in the first process, what each scenario gives.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from progpo.policy.lessons import Lesson
from progpo.policy.logprobs import logprobs, pack
from progpo.policy.lora import Adapters
from progpo.policy.sequences import TokenSequence
from progpo.policy.update import Updater
from progpo.policy.warmup import Warmup
from progpo.settings.stages import UpdateSettings, WarmupSettings

#: Of the update: 5 trajectories in 3 minibatches, so that one of two processes has none in some.
UPDATE = {"epochs": 2, "minibatches": 3, "kl": 0.1, "learning_rate": 1e-3, "batch_tokens": 60, "weight_decay": 0.1}
WARMUP = {"tokens": 900, "batch_tokens": 100, "pass_tokens": 40, "warmup_steps": 2, "precision": "float32"}
LORA = {"rank": 3, "alpha": 6}
SCENARIOS: dict[str, dict[str, Any]] = {
    "update-ddp": {},
    "update-ddp-no-kl": {"kl": 0, "loss": "sequence_mean"},
    "update-fsdp": {"strategy": "fsdp"},
    # In one minibatch, so that passes hold several sequences.
    "update-fsdp-checkpointing": {
        "strategy": "fsdp",
        "minibatches": 1,
        "gradient_checkpointing": True,
        "old_logprobs": "recompute",
    },
    "update-ddp-lora": {"lora": LORA},
    "update-fsdp-lora": {"strategy": "fsdp", "lora": LORA, "gradient_checkpointing": True},
    "warmup-ddp": {},
    "warmup-fsdp": {"strategy": "fsdp", "gradient_checkpointing": True},
}


def make_model(tied: bool = True) -> Qwen2ForCausalLM:
    """Return a small model, the same in each process."""
    sizes = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    config = Qwen2Config(**sizes, num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=tied)
    torch.manual_seed(2)
    return Qwen2ForCausalLM(config).eval()


def moved(model: Any, amount: float, seed: int) -> Any:
    """Move a model's weights some way off."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for item in model.parameters():
            item += amount * torch.randn(item.shape, generator=generator)
    return model


def make_sequences() -> list[TokenSequence]:
    """Return sequences of five trajectories that another policy, not far off, sampled; one has no advantage."""
    rng = np.random.default_rng(0)
    sampler = moved(make_model(), 0.02, 7)
    found = []
    for owner, length in enumerate((30, 9, 44, 17, 23)):
        tokens = rng.integers(61, size=length).astype(np.int32)
        positions = np.flatnonzero(rng.random(length) < 0.4)
        positions = np.union1d(positions[positions > 0], [length - 1])
        sampled = logprobs(sampler, pack([tokens], [positions]), 0.8).numpy()
        advantages = rng.normal(size=len(positions)).astype(np.float32) * (owner != 3)
        found.append(TokenSequence(owner, tokens, positions, sampled, advantages))
    return found


class Shown:
    """Lessons without end."""

    def stream(self, start: int = 0) -> Iterator[tuple[int, Lesson]]:
        number = start
        while True:
            rng = np.random.default_rng(number)
            tokens = rng.integers(61, size=rng.integers(4, 60)).astype(np.int32)
            positions = np.arange(1, len(tokens))
            yield number, Lesson(tokens, positions, rng.random(len(positions)) < 0.5)
            number += 1


def compute(name: str) -> dict[str, Any]:
    """Run a scenario, in however many processes there are; return metrics, and weights and moments."""
    changes = SCENARIOS[name]
    if name.startswith("warmup"):
        warmup = Warmup(make_model(), Shown(), WarmupSettings(**{**WARMUP, **changes}))
        warmup.train()
        optimisation, metrics = warmup.optimisation, warmup.curve[-1]
    else:
        settings = UpdateSettings(**{**UPDATE, **changes})
        model = make_model(tied="fsdp" not in name)
        reference: Any = moved(make_model(tied="fsdp" not in name), 0.02, 5)
        if settings.lora:
            reference = Adapters(model, settings.lora, seed=1)
        updater = Updater(model, reference, settings)
        for iteration in (1, 2):
            metrics = updater.update(make_sequences(), 5, 0.8, seed=0, iteration=iteration)
        optimisation = updater.optimisation
    return {"metrics": metrics, "weights": optimisation.weights(), "moments": optimisation.state()}


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    for scenario in sys.argv[2:]:
        found = compute(scenario)
        if found["weights"]:
            torch.save(found, folder / f"{scenario}.pt")
    torch.distributed.destroy_process_group()
