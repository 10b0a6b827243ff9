"""Settings that every stage which trains a policy shares: processes, memory, adapters."""

from typing import Annotated, Literal

from pydantic import Field

from progpo.settings.base import Count, Positive, Settings


class LoraSettings(Settings):
    """Low-rank adapters (arXiv 2106.09685) on a frozen policy.

    Attributes:
        rank: of the adapters.
        alpha: their product is scaled by `alpha / rank`.
        targets: names of the linear layers that get one; null: all but the output layer.
    """

    rank: Count = 32
    alpha: Positive = 64.0
    targets: Annotated[tuple[str, ...], Field(min_length=1)] | None = None


class TrainingSettings(Settings):
    """How a policy is trained, whatever it learns from.

    Attributes:
        processes: that the command starts on this machine, one for each GPU. Under `accelerate launch` or `torchrun`
            their number is the launcher's.
        strategy: "ddp": each process holds the whole policy, gradients are summed; "fsdp": weights, gradients and
            optimiser state are divided among the processes.
        gradient_checkpointing: keep each layer's input alone and compute its activations again for the backward pass.
        lora: train low-rank adapters only; null: all weights.
    """

    processes: Count = 1
    strategy: Literal["ddp", "fsdp"] = "ddp"
    gradient_checkpointing: bool = False
    lora: LoraSettings | None = None
