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

#: Added to the root of the second moment.
EPSILON = 1e-8
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

    AdamW is written out, since torch's imports torch's compiler, which takes longer than many an update.

    Args:
        model: its parameters are changed in place; it stays in eval mode (no dropout), so that its log-probabilities
            are those that the sampler saw.
        settings: of AdamW. Only matrices decay, not gains and biases.
        precision: "float32", "bfloat16" or "auto": of the forward pass. Parameters and moments keep their dtype.

    Attributes:
        model: on the device that accelerate chose.
        steps: optimiser steps taken so far, those before a restart included.
    """

    def __init__(self, model: Any, settings: AdamWSettings, precision: str) -> None:
        self._settings = settings
        self._accelerator = _accelerator(precision)
        # Not prepared by accelerate: its own forward pass shall stay as it is, precision is a matter of `autocast`.
        self.model = model.to(self._accelerator.device)
        self._named = {name: item for name, item in model.named_parameters() if item.requires_grad}
        self._moments = {name: (torch.zeros_like(item), torch.zeros_like(item)) for name, item in self._named.items()}
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

    @torch.no_grad()
    def step(self, learning_rate: float | None = None) -> float:
        """Take an optimiser step with the accumulated gradient, and clear it.

        Returns:
            The gradient's norm before clipping.

        Raises:
            ProgpoError: the norm is not finite; the parameters are as they were.
        """
        settings = self._settings
        rate = settings.learning_rate if learning_rate is None else learning_rate
        first, second = settings.betas
        # Not accelerate's, which imports torch's distributed tensors first: a second, longer than many an update.
        norm = float(torch.nn.utils.clip_grad_norm_(self._named.values(), settings.max_gradient_norm))
        self.require_finite(norm, "the gradient's norm")
        self.steps += 1
        for name, item in self._named.items():
            if item.grad is None:
                continue
            mean, square = self._moments[name]
            mean.lerp_(item.grad, 1 - first)
            square.mul_(second).addcmul_(item.grad, item.grad, value=1 - second)
            if item.dim() > 1:
                item.mul_(1 - rate * settings.weight_decay)
            deviation = square.div(1 - second**self.steps).sqrt_().add_(EPSILON)
            item.addcdiv_(mean, deviation, value=-rate / (1 - first**self.steps))
            item.grad = None
        return norm

    def require_finite(self, value: float, what: str) -> None:
        """Refuse to go on from a number that is not finite.

        Raises:
            ProgpoError: training has diverged.
        """
        if not math.isfinite(value):
            raise ProgpoError(f"training diverged after step {self.steps}: {what} is {value}; lower `learning_rate`")

    @torch.no_grad()
    def check_parameters(self) -> None:
        """Refuse parameters that are not finite: the last step's result, which no loss has seen yet.

        Raises:
            ProgpoError: training has diverged.
        """
        for name, item in self._named.items():
            # Times 0, what is not finite is NaN and the rest cannot overflow the sum.
            self.require_finite(float((item * 0).sum()), f"a number in {name}")

    def state(self) -> dict[str, Tensor]:
        """Return the moments by "<moment>/<parameter>", on the CPU; changed by the next step."""
        return {
            f"{moment}/{name}": tensor.cpu()
            for name, pair in self._moments.items()
            for moment, tensor in zip(MOMENTS, pair, strict=True)
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
        ours = self.state()
        for name in sorted({*ours, *state}):
            if name not in ours or name not in state or ours[name].shape != state[name].shape:
                raise ProgpoError(f"{where}: not the optimiser state of this policy ({name}); make the policy anew")
        for name, pair in self._moments.items():
            for moment, tensor in zip(MOMENTS, pair, strict=True):
                tensor.copy_(state[f"{moment}/{name}"])
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
