"""Time update and rollout of a released model's shape on a GPU: `python -m benchmarks.gpu`.

Weights are random (nothing is downloaded), and tokens too; lengths are those of the configs for released checkpoints.
What is timed are the project's own `Updater` and `Sampler`. Beside tokens a second and the measured peak of memory
stand the calculated peak (`progpo.memory`) and the share of the device's own rate at large matrix products in bfloat16;
only products that cannot be done without count. It takes a few minutes; `--shape tiny` runs anywhere.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from progpo.memory import RELEASED, Shape, rollout_memory, update_memory
from progpo.policy import logprobs
from progpo.policy.sampler import Sampler
from progpo.policy.sequences import TokenSequence
from progpo.policy.update import Updater
from progpo.settings.stages import UpdateSettings

TINY = Shape(64, 3, 4, 2, 16, 176, 500, True)
GIB = 2**30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--shape", choices=[*RELEASED, "tiny"], default="Qwen2.5-1.5B")
    parser.add_argument("--prompt", type=int, default=900, help="tokens of a step's prompt")
    parser.add_argument("--response", type=int, default=124, help="tokens of its response")
    parser.add_argument("--batch-tokens", type=int, default=16384, help="of a forward pass of the update")
    parser.add_argument("--passes", type=int, default=4, help="of an update")
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 128], help="episodes that are sampled at once")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    shape = TINY if given.shape == "tiny" else RELEASED[given.shape]
    rate = matrix_rate(device, 8192 if device.type != "cpu" else 512)
    name = torch.cuda.get_device_name() if device.type == "cuda" else device.type
    Console().print(
        f"{name}: {rate / 1e12:.3g} TFLOP/s in bfloat16; {given.shape}: {shape.parameters / 1e9:.3g} billion"
    )
    cases: list[dict[str, Any]] = []
    for checkpointing in (False, True):
        cases.append(attempt(lambda c=checkpointing: time_update(shape, device, given, c), device))
        cases[-1]["case"] = f"update{', checkpointing' if checkpointing else ''}"
    for rows in given.rows:
        cases.append(attempt(lambda r=rows: time_rollout(shape, device, given, r), device))
        cases[-1]["case"] = f"rollout, {rows} at once"
    for case in cases:
        if "operations" in case:
            case["matrix_share"] = case["operations"] / case["seconds"] / rate
    _print(cases)
    if given.json:
        figures = {"device": name, "matrix_rate": rate, "shape": given.shape, "cases": cases}
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


def matrix_rate(device: torch.device, size: int) -> float:
    """Return the operations a second of a large square product in bfloat16, at best."""
    left, right = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    seconds = min(timed(lambda: torch.mm(left, right), device) for _ in range(10))
    return 2 * size**3 / seconds


def timed(work: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds that something takes, until the device is done."""
    wait(device)
    started = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - started


def wait(device: torch.device) -> None:
    """Wait until the device is done."""
    if device.type != "cpu":
        torch.accelerator.synchronize()


def attempt(measure: Callable[[], dict[str, Any]], device: torch.device) -> dict[str, Any]:
    """Measure, with the peak of the device's memory; say so if that does not suffice."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        found = measure()
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    if device.type == "cuda":
        found["peak"] = torch.cuda.max_memory_allocated()
    return found


def make_model(shape: Shape, device: torch.device) -> Any:
    """Make a model of a shape with random weights, float32."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=32768,
    )
    torch.manual_seed(0)
    with device:
        return Qwen2ForCausalLM(config).eval()


def time_update(shape: Shape, device: torch.device, given: argparse.Namespace, checkpointing: bool) -> dict[str, Any]:
    """Time an update with a reference model: one optimiser step over some passes; the first one warms up."""
    settings = UpdateSettings(
        learning_rate=1e-6,
        batch_tokens=given.batch_tokens,
        precision="bfloat16",
        gradient_checkpointing=checkpointing,
    )
    updater = Updater(make_model(shape, device), make_model(shape, device), settings)
    length = given.prompt + given.response
    each = max(1, given.batch_tokens // length)
    sequences = make_sequences(shape, each * given.passes, given.prompt, given.response)
    updater.update(sequences[:each], each, 1.0, 0, 1)
    seconds = timed(lambda: updater.update(sequences, len(sequences), 1.0, 0, 2), device)
    tokens, predicted = len(sequences) * length, len(sequences) * given.response
    # Forward and twice as much backward; forward once more of the reference.
    products = products_of(shape, length)
    operations = 8 * (tokens * products + predicted * shape.hidden * shape.vocabulary)
    calculated = update_memory(
        shape,
        each * length,
        each * given.response,
        checkpointing=checkpointing,
        chunk_logits=logprobs.CHUNK_LOGITS if device.type == "cpu" else logprobs.ACCELERATOR_CHUNK_LOGITS,
    )
    return {
        "seconds": seconds,
        "tokens_a_second": tokens / seconds,
        "operations": operations,
        "calculated": calculated["total"],
    }


def products_of(shape: Shape, length: int) -> int:
    """Return the multiplications a token of a forward pass, without the output layer: linear maps and attention."""
    linear = sum(inputs * outputs for inputs, outputs in shape.linear)
    return shape.layers * (linear + length * shape.heads * shape.head_size)


def make_sequences(shape: Shape, count: int, prompt: int, response: int) -> list[TokenSequence]:
    """Make steps' sequences of random tokens."""
    numbers = np.random.default_rng(0)
    return [
        TokenSequence(
            owner,
            numbers.integers(0, shape.vocabulary, prompt + response).astype(np.int32),
            np.arange(prompt, prompt + response),
            np.full(response, -float(np.log(shape.vocabulary)), np.float32),
            np.full(response, (-1.0) ** owner, np.float32),
        )
        for owner in range(count)
    ]


def time_rollout(shape: Shape, device: torch.device, given: argparse.Namespace, rows: int) -> dict[str, Any]:
    """Time one step of many episodes: their prompts are read, and responses sampled, all of the same length."""
    length = given.prompt + given.response
    # On a GPU rollouts hold the weights as they are computed with.
    sampler = Sampler(make_model(shape, device).bfloat16(), rows, length, 1.0)
    numbers = np.random.default_rng(0)
    prompts = numbers.integers(0, shape.vocabulary, (rows, given.prompt)).tolist()

    def step(count: int) -> tuple[float, float]:
        for row in range(rows):
            if len(sampler.cache.lengths) < rows:
                sampler.cache.open()
            sampler.cache.rewind(row, 0)
        wait(device)
        started = time.perf_counter()
        drawn, _ = sampler.choose(sampler.logits(prompts), numbers.random(rows))
        read = time.perf_counter() - started
        for _ in range(count - 1):
            drawn, _ = sampler.choose(sampler.logits([[token] for token in drawn]), numbers.random(rows))
        return read, time.perf_counter() - started

    step(4)
    read, seconds = step(given.response)
    calculated = rollout_memory(shape, rows, length)
    sampled = rows * given.response
    return {
        "seconds": seconds,
        "tokens_a_second": rows * length / seconds,
        "read_a_second": rows * given.prompt / read,
        "sampled_a_second": sampled / (seconds - read),
        "operations": 2 * (rows * length * products_of(shape, length) + sampled * shape.hidden * shape.vocabulary),
        "calculated": calculated["total"],
    }


def _print(cases: list[dict[str, Any]]) -> None:
    table = Table()
    headings = ("seconds", "tokens/s", "read/s", "sampled/s", "of matrix rate", "peak GiB", "calculated")
    for heading in ("case", *headings):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for case in cases:
        if "error" in case:
            table.add_row(case["case"], case["error"])
            continue
        table.add_row(
            case["case"],
            f"{case['seconds']:.2f}",
            *(f"{case[name]:.0f}" if name in case else "" for name in ("tokens_a_second", "read_a_second")),
            f"{case['sampled_a_second']:.0f}" if "sampled_a_second" in case else "",
            f"{case['matrix_share']:.1%}",
            f"{case['peak'] / GIB:.2f}" if "peak" in case else "",
            f"{case['calculated'] / GIB:.2f}",
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
