"""How much memory training and sampling a policy take at their peak, by calculation.

For decoders of Qwen2's kind: grouped key/value heads, SwiGLU, RMSNorm, no dropout. Numbers are counted as torch keeps
them: float32 weights, gradients and moments; a forward pass that computes in another dtype (autocast) keeps a copy of
each weight and activation in it. What allocators and libraries take on top is not known here; docs/checkpoints.md has
the formulas in words, and what they give for released models.

Shapes: N tokens of a forward pass, R of them predicted, C hidden size, H heads, K key/value heads, D head size, F
intermediate size, V vocabulary, L layers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from progpo.errors import ProgpoError
from progpo.settings.experiment import Experiment
from progpo.tables import to_text

#: Bytes of a float32 number.
FULL = 4
#: Rows of logits that exist at once, at least (as in `progpo.policy.logprobs`, which this module does without torch).
CHUNK_ROWS = 64


@dataclass(frozen=True)
class Shape:
    """The sizes of a model, named as in the module's docstring.

    Attributes:
        tied: whether embeddings and output layer are one matrix.
    """

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    intermediate: int
    vocabulary: int
    tied: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Shape":
        """Take it from a checkpoint's config (`config.json`).

        Raises:
            ProgpoError: an entry is missing, or is no size.
        """
        try:
            heads = config["num_attention_heads"]
            sizes = (
                config["hidden_size"],
                config["num_hidden_layers"],
                heads,
                config.get("num_key_value_heads") or heads,
                config.get("head_dim") or config["hidden_size"] // heads,
                config["intermediate_size"],
                config["vocab_size"],
            )
            tied = bool(config.get("tie_word_embeddings", False))
        except KeyError as error:
            raise ProgpoError(f"config.json lacks {error}: not a decoder whose memory can be calculated") from None
        except (AttributeError, TypeError, ZeroDivisionError):
            sizes, tied = (), False
        if not sizes or not all(type(size) is int and size > 0 for size in sizes):
            raise ProgpoError("config.json: its sizes are no positive numbers, so memory cannot be calculated from it")
        return cls(*sizes, tied)

    @property
    def linear(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of a layer's linear maps."""
        query, shared = self.heads * self.head_size, self.kv_heads * self.head_size
        inner = self.intermediate
        return (
            *((self.hidden, query), (self.hidden, shared), (self.hidden, shared), (query, self.hidden)),
            *((self.hidden, inner), (self.hidden, inner), (inner, self.hidden)),
        )

    @property
    def layer_parameters(self) -> int:
        """Of one layer: linear maps, the biases of queries, keys and values, two gains."""
        biases = (self.heads + 2 * self.kv_heads) * self.head_size
        return sum(inputs * outputs for inputs, outputs in self.linear) + biases + 2 * self.hidden

    @property
    def outer_parameters(self) -> int:
        """Outside the layers: embeddings, output layer, the last gain."""
        return self.hidden * self.vocabulary * (1 if self.tied else 2) + self.hidden

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.layers * self.layer_parameters + self.outer_parameters


#: The released models that the configs name, by the beginning of their names.
RELEASED = {
    "Qwen2.5-0.5B": Shape(896, 24, 14, 2, 64, 4864, 151936, True),
    "Qwen2.5-1.5B": Shape(1536, 28, 12, 2, 128, 8960, 151936, True),
    "Qwen2.5-3B": Shape(2048, 36, 16, 2, 128, 11008, 151936, True),
    "Qwen2.5-7B": Shape(3584, 28, 28, 4, 128, 18944, 152064, False),
}


def shape_of(path: str) -> Shape:
    """Return the shape of a checkpoint: of the one in a folder, or of a released one by its name.

    Raises:
        ProgpoError: neither a folder with a config nor a name that is known.
    """
    file = Path(path) / "config.json"
    if file.is_file():
        try:
            return Shape.of(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise ProgpoError(f"{file}: cannot be read ({error})") from None
    name = path.rsplit("/", 1)[-1]
    for known, shape in RELEASED.items():
        if name == known or name.startswith(f"{known}-"):
            return shape
    raise ProgpoError(
        f"policy.path: {path!r} is neither a folder with a config.json nor one of {', '.join(RELEASED)}; fetch the "
        "checkpoint and name its folder"
    )


def layer_activations(shape: Shape, size: int) -> int:
    """Return the bytes a token that one layer keeps for its backward pass.

    In float32: what goes into each normalisation, and its normed form. In the dtype of the products: what goes into
    each product, the attention's queries, keys, values and result, and both factors of the gated unit. Where that is
    not float32, each product keeps a converted copy of its own.

    Args:
        size: bytes of a number in a product: 2 (bfloat16), 4 (float32).
    """
    query, shared = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    converted = 5 if size < FULL else 2
    products = converted * shape.hidden + 3 * query + 2 * shared + 4 * shape.intermediate
    return 4 * FULL * shape.hidden + size * products


def update_memory(
    shape: Shape,
    tokens: int,
    predicted: int,
    *,
    size: int = 2,
    checkpointing: bool = False,
    reference: bool = True,
    processes: int = 1,
    sharded: bool = False,
    lora_rank: int | None = None,
    chunk_logits: int = 1 << 26,
) -> dict[str, int]:
    """Return what an update takes at its peak, in bytes, by what it is for; `total` last.

    The peak is in any but a minibatch's first pass: gradients are there from those before. `copies` are autocast's of
    the layers' weights, `gathered` what a process has of the others' weights where the policy is divided, `head` the
    output layer's logits and gradient.

    Args:
        tokens: N of a forward pass (`update.batch_tokens`).
        predicted: R of a forward pass.
        size: bytes of a number in a product: 2 (bfloat16), 4 (float32).
        checkpointing: whether layers keep their inputs alone.
        reference: whether there is a reference model (`update.kl`).
        processes, sharded: weights, gradients and moments are divided by `processes` if `sharded`.
        lora_rank: of adapters on all linear maps; they alone are trained, and the reference is the policy without them.
        chunk_logits: logits that exist at once.
    """
    trained = shape.parameters
    weights = shape.parameters
    if lora_rank is not None:
        trained = shape.layers * lora_rank * sum(inputs + outputs for inputs, outputs in shape.linear)
        weights += trained
    share = processes if sharded else 1
    linear = sum(inputs * outputs for inputs, outputs in shape.linear)
    output = shape.hidden * shape.vocabulary
    layer, kept = tokens * layer_activations(shape, size), FULL * tokens * shape.hidden
    # The last normalisation, and the gradient of what it gives.
    last = 3 * kept + 2 * FULL * predicted * shape.hidden
    rows = min(predicted, max(CHUNK_ROWS, chunk_logits // shape.vocabulary))
    head = rows * shape.vocabulary * (2 * FULL + size) + (size * output if size < FULL else 0)
    if lora_rank is None:
        # The output layer's gradient, and what a chunk adds to it.
        head += (FULL + size) * output
    copies = shape.layers * size * linear if size < FULL else 0
    # Two layers, and what is outside of them with its gradient; the reference's stays gathered after its pass.
    gathered = 2 * shape.layer_parameters + (3 if reference and lora_rank is None else 2) * shape.outer_parameters
    found = {
        "weights": FULL * weights // share,
        "gradients": FULL * trained // share,
        "optimiser": 2 * FULL * trained // share,
        "reference": FULL * shape.parameters // share if reference and lora_rank is None else 0,
        "gathered": FULL * gathered if share > 1 else 0,
    }
    # At the end of the forward pass.
    loss = {
        "copies": copies,
        "activations": last + shape.layers * (kept if checkpointing else layer),
        "head": head,
    }
    if checkpointing:
        # Or later, where a layer is there as a whole, with the gradients of its gated unit. An output layer that is the
        # embeddings too keeps its gradient until theirs is known.
        again = {
            "copies": copies // shape.layers,
            "activations": last + shape.layers * kept + layer + 4 * size * tokens * shape.intermediate,
            "head": FULL * output if shape.tied and lora_rank is None else 0,
        }
        loss = max(loss, again, key=lambda parts: sum(parts.values()))
    found |= loss
    return {**found, "total": sum(found.values())}


def rollout_memory(shape: Shape, rows: int, length: int, *, size: int = 2, read: int = 8192) -> dict[str, int]:
    """Return what the project's own sampler takes at its peak on a GPU, in bytes, by what it is for; `total` last.

    Args:
        rows: episodes at once (`rollout.batch`).
        length: longest conversation, in tokens (`policy.max_context_tokens`).
        size: bytes of a number, of weights and cache too: 2 (bfloat16), 4 (float32).
        read: most new tokens of a forward pass.
    """
    # Residuals, what is normed (in float32), and a layer's widest numbers.
    widest = FULL * shape.hidden + size * (3 * shape.intermediate + 3 * shape.hidden)
    found = {
        "weights": size * shape.parameters,
        "cache": rows * length * cache_bytes(shape, size),
        "activations": min(read, rows * length) * widest,
        # Logits, log-probabilities, and their cumulative sums in float64.
        "head": rows * shape.vocabulary * (2 * FULL + 8),
    }
    return {**found, "total": sum(found.values())}


def cache_bytes(shape: Shape, size: int = 2) -> int:
    """Return the bytes a token that its keys and values take in all layers."""
    return 2 * shape.layers * shape.kv_heads * shape.head_size * size


def describe(experiment: Experiment) -> str:
    """Return a table of what an experiment's update and rollouts take, each process of them, on a GPU.

    Below it stands what a job takes of the machine's own memory: each process reads the whole policy there first, and
    the reference.

    Raises:
        ProgpoError: a policy made from scratch, which any machine holds; a checkpoint whose sizes are not known.
    """
    policy, update, rollout = experiment.policy, experiment.update, experiment.rollout
    if policy.path is None:
        raise ProgpoError("policy.init: a policy made from scratch takes next to nothing; this is for checkpoints")
    shape = shape_of(policy.path)
    tokens = max(update.batch_tokens, policy.max_context_tokens)
    steps = -(-tokens // policy.max_context_tokens)
    learning = update_memory(
        shape,
        tokens,
        min(tokens, steps * policy.response_limit),
        size=_size(update.precision),
        checkpointing=update.gradient_checkpointing,
        reference=update.kl > 0,
        processes=update.processes,
        sharded=update.strategy == "fsdp",
        lora_rank=update.lora.rank if update.lora else None,
    )
    playing = rollout_memory(shape, rollout.batch, policy.max_context_tokens, size=_size(rollout.precision))
    names = list(dict.fromkeys([*learning, *playing]))
    names.append(names.pop(names.index("total")))
    body = [[name, *(_gib(part.get(name)) for part in (learning, playing))] for name in names]
    heading = f"{policy.path}: {shape.parameters / 1e9:.2f} billion parameters; GiB, by calculation, for each process"
    table = to_text(["", f"update ({update.processes})", f"rollout ({rollout.shards})"], body)
    models = 2 if update.kl and not update.lora else 1
    host = (FULL * shape.parameters * update.processes * models, playing["weights"])
    below = "The machine's own memory, when weights are read: {} for an update, {} for a rollout"
    return "\n".join([heading, "", *table, "", below.format(*map(_gib, host))])


def _size(precision: str) -> int:
    """Return the bytes of a number in a product, on a GPU."""
    return 2 if precision in ("auto", "bfloat16") else FULL


def _gib(count: int | None) -> str:
    return f"{count / 2**30:.1f}" if count else ""
