"""AdamW through accelerate: device, mixed precision, and an optimiser state that travels as a file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from progpo.errors import ProgpoError
from progpo.policy.precision import compute_dtype

#: The optimiser's tensors in a state file: "<moment>/<parameter>".
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class AdamWSettings:
    """AdamW (arXiv 1711.05101), and clipping of the gradient's norm."""

    learning_rate: float
    betas: tuple[float, float]
    weight_decay: float
    max_gradient_norm: float


class Optimisation:
    """A model in training.

    Args:
        model: its parameters are changed in place; it stays in eval mode (no dropout), so that its log-probabilities
            are those that the sampler saw.
        settings: of AdamW. Only matrices decay, not gains and biases.
        precision: "float32", "bfloat16" or "auto": of the forward pass. Parameters and moments are float32.

    Attributes:
        model: on the device that accelerate chose.
        steps: optimiser steps taken so far, those before a restart included.
    """

    def __init__(self, model: Any, settings: AdamWSettings, precision: str) -> None:
        self._settings = settings
        self._accelerator = _accelerator(precision)
        self.model = model.to(self._accelerator.device)
        self._named = {name: item for name, item in model.named_parameters() if item.requires_grad}
        matrices = [item for item in self._named.values() if item.dim() > 1]
        others = [item for item in self._named.values() if item.dim() <= 1]
        groups = [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, fused=True)
        # Not the model: its own forward pass shall stay as it is, precision is a matter of `autocast`.
        self._optimizer = self._accelerator.prepare(optimizer)
        self.steps = 0

    @property
    def device(self) -> torch.device:
        return self._accelerator.device

    def autocast(self) -> Any:
        """Return the context in which forward passes run."""
        return self._accelerator.autocast()

    def backward(self, loss: Tensor) -> None:
        """Add a loss's gradient to what has accumulated."""
        self._accelerator.backward(loss)

    def step(self, learning_rate: float | None = None) -> float:
        """Take an optimiser step with the accumulated gradient, and clear it.

        Returns:
            The gradient's norm before clipping.
        """
        if learning_rate is not None:
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rate
        norm = self._accelerator.clip_grad_norm_(self._named.values(), self._settings.max_gradient_norm)
        self._optimizer.step()
        self._optimizer.zero_grad()
        self.steps += 1
        return float(norm)

    def state(self) -> dict[str, Tensor]:
        """Return the moments of all parameters that were ever stepped, on the CPU, by "<moment>/<parameter>"."""
        states = self._optimizer.optimizer.state
        return {
            f"{moment}/{name}": states[item][moment].cpu()
            for name, item in self._named.items()
            if item in states
            for moment in MOMENTS
        }

    def restore(self, state: Mapping[str, Tensor], steps: int, where: Path) -> None:
        """Take up a state.

        Args:
            state: as `state` returned it.
            steps: taken when it was saved.
            where: it was read from, for messages.

        Raises:
            ProgpoError: a state of other parameters than this model's.
        """
        shapes = {name: item.shape for name, item in self._named.items()}
        for name, tensor in state.items():
            moment, _, parameter = name.partition("/")
            if moment not in MOMENTS or shapes.get(parameter) != tensor.shape:
                raise ProgpoError(f"{where}: not the optimiser state of this policy ({name}); make the policy anew")
        states = self._optimizer.optimizer.state
        for name, item in self._named.items():
            if f"{MOMENTS[0]}/{name}" in state:
                # Its step count is a float32 tensor beside the parameter, as the fused kernel wants it.
                count = torch.tensor(float(steps), device=item.device)
                moments = {moment: state[f"{moment}/{name}"].to(item.device).clone() for moment in MOMENTS}
                states[item] = {"step": count, **moments}
        self.steps = steps


def schedule(done: float, warmup: float, least: float) -> float:
    """Return the learning rate as a share of its peak: linear warm-up, then cosine decay.

    Args:
        done: share of the work that is done after this step, in (0, 1] (more counts as 1).
        warmup: share of the work that the warm-up takes.
        least: share of the peak at the end.
    """
    if done < warmup:
        return done / warmup
    left = (min(done, 1.0) - warmup) / (1.0 - warmup) if warmup < 1 else 1.0
    return least + (1.0 - least) * 0.5 * (1.0 + math.cos(math.pi * left))


def _accelerator(precision: str) -> Any:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    mixed = "bf16" if compute_dtype(precision) is torch.bfloat16 else "no"
    # The state is one for the whole process and keeps its first precision; each stage has its own.
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != mixed:
        AcceleratorState._reset_state()
    return Accelerator(mixed_precision=mixed)
