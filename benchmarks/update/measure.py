"""One measurement, in a process of its own: seconds and memory of a pass over the iteration."""

import argparse
import copy
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.update.data import shards_of
from benchmarks.update.padded import padded_loss
from progpo.advantages.table import read_advantages
from progpo.policy.checkpoint import load_policy
from progpo.policy.sequences import COLUMNS, TokenSequence, make_sequences
from progpo.policy.update import Updater
from progpo.settings.stages import UpdateSettings
from progpo.trajectories.read import read_shards


def load(folder: Path) -> tuple[Any, list[TokenSequence], int, float]:
    """Return policy, sequences, the number of trajectories and the temperature."""
    policy = load_policy(folder / "policy")
    table, metadata = read_shards(shards_of(folder), COLUMNS)
    advantages, _ = read_advantages(folder / "advantages.parquet")
    sequences, trajectories = make_sequences(table, advantages, policy.settings.resolved_layout)
    return policy, sequences, trajectories, metadata[0].temperature


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.update.measure", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("way", choices=["packed", "padded"])
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--kl", type=float, default=0.01)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    policy, sequences, trajectories, temperature = load(given.folder)
    model = policy.model
    if given.way == "padded":
        from transformers import Qwen2ForCausalLM

        model = Qwen2ForCausalLM.from_pretrained(given.folder / "policy", dtype=torch.float32)
    settings = UpdateSettings(kl=given.kl, precision=given.precision, learning_rate=0)
    reference = copy.deepcopy(model) if given.kl else None
    before = peak()
    if given.way == "packed":
        updater = Updater(model, reference, settings)

        def run() -> None:
            updater.update(sequences, trajectories, temperature, seed=0, iteration=1)
    else:
        autocast = torch.bfloat16 if given.precision == "bfloat16" else None
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)

        def run() -> None:
            padded_loss(model, reference, sequences, trajectories, settings, temperature, autocast)
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_gradient_norm)
            optimizer.step()
            optimizer.zero_grad()

    seconds, wall = [], []
    for _ in range(given.repeats):
        started, watch = time.process_time(), time.perf_counter()
        run()
        seconds.append(time.process_time() - started)
        wall.append(time.perf_counter() - watch)
    lengths = [len(item.tokens) for item in sequences]
    print(
        json.dumps(
            {
                "cpu": seconds,
                "wall": wall,
                "peak_mib": peak() - before,
                "tokens": sum(lengths),
                "response_tokens": sum(len(item.positions) for item in sequences),
                "sequences": len(sequences),
                "longest": max(lengths),
                "computed_share": computed_share(sequences) if not given.kl else 1.0,
                "products": products(model, sequences, 4 if given.kl else 3) / sum(lengths),
            }
        )
    )


def computed_share(sequences: list[TokenSequence]) -> float:
    """Return the share of tokens that the packed update computes without KL term."""
    live = [item.live() for item in sequences]
    return sum(len(item.tokens) for item in live if item) / sum(len(item.tokens) for item in sequences)


def products(model: Any, sequences: list[TokenSequence], passes: int) -> float:
    """Return the floating-point operations of the matrix products that cannot be done without.

    Args:
        passes: forward passes' worth: one each for the policy's and the reference's, two for a backward pass.
    """
    config = model.config
    layers = [item.numel() for name, item in model.named_parameters() if item.dim() == 2 and "embed" not in name]
    tokens = sum(len(item.tokens) for item in sequences)
    predicted = sum(len(item.positions) for item in sequences)
    pairs = sum(len(item.tokens) ** 2 / 2 for item in sequences)
    attention = 2 * 2 * config.hidden_size * config.num_hidden_layers * pairs
    return passes * (2 * np.sum(layers) * tokens + 2 * config.hidden_size * config.vocab_size * predicted + attention)


def peak() -> float:
    """Return the most memory that the process has held so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
