"""AdamW and Muon through accelerate: device, processes, mixed precision, and an optimiser state that is a file."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from progpo.errors import ProgpoError
from progpo.policy.muon import Muon, hidden_matrices
from progpo.policy.precision import compute_dtype
from progpo.policy.team import Sharded, Team, gathered, local, scatter
from progpo.processes import check_strategy, place
from progpo.settings.stages import MuonSettings

#: Added to the root of the second moment.
EPSILON = 1e-8
#: The optimiser's tensors in a state file: "<moment>/<parameter>". Muon has the first alone.
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
        precision: of the forward pass, as `compute_dtype` takes it. Parameters and moments keep their dtype.
        strategy: "ddp" or "fsdp": whether each of several processes holds the whole model, or a part of it.
        muon: for the matrices of the layers, in place of AdamW (not with "fsdp"); None: AdamW for all.

    Attributes:
        model: on the device that accelerate chose.
        team: the processes.
        sharded: whether the model is divided among them; all must then make each pass together.
        steps: optimiser steps taken so far, those before a restart included.

    Raises:
        ProgpoError: processes with different weights, or a launcher that asks for another strategy.
    """

    def __init__(
        self,
        model: Any,
        settings: AdamWSettings,
        precision: str,
        strategy: str = "ddp",
        muon: MuonSettings | None = None,
    ) -> None:
        check_strategy(strategy)
        self._settings = settings
        self._accelerator = _accelerator(precision)
        self.team = Team(self.device)
        self.sharded = strategy == "fsdp" and self.team.count > 1
        # Not prepared by accelerate: its own forward pass shall stay as it is, precision is a matter of `autocast`.
        self.model = model
        self.forward = self.prepare(model)
        self._named = {name: item for name, item in model.named_parameters() if item.requires_grad}
        matrices = hidden_matrices(model) if muon else {}
        self._muon = Muon(matrices, muon, settings.weight_decay, self.team) if muon else None
        self._adamw = {name: item for name, item in self._named.items() if name not in matrices}
        self._moments = {name: (torch.zeros_like(item), torch.zeros_like(item)) for name, item in self._adamw.items()}
        if self._muon:
            self._moments |= {name: (momentum,) for name, momentum in self._muon.momentum.items()}
        self.steps = 0

    def prepare(self, model: Any) -> Callable[..., Tensor]:
        """Bring a model to the device, divided if need be.

        Returns:
            A function that calls a function with the model and further arguments, in the precision of forward passes.

        Raises:
            ProgpoError: the other processes have other weights.
        """
        self.team.require_same(model)
        if self.sharded:
            called = Sharded(model, self.device, self.team.count)
        else:
            model.to(self.device)

            def called(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
                return function(model, *arguments)

        def run(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
            with self.autocast():
                return called(function, *arguments)

        return run

    @property
    def device(self) -> torch.device:
        return self._accelerator.device

    def autocast(self) -> Any:
        """Return the context in which forward passes run."""
        return self._accelerator.autocast()

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of this process's part of the loss to what has accumulated."""
        # Where the model is divided, each backward pass averages the gradients; the loss is their sum.
        self._accelerator.backward(loss * self.team.count if self.sharded else loss)

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
        norm = self._clip()
        self.require_finite(norm, "the gradient's norm")
        self.steps += 1
        if self._muon:
            self._muon.step(rate / settings.learning_rate)
        for name, item in self._adamw.items():
            if item.grad is None:
                continue
            part, grad = local(item), local(item.grad)
            mean, square = (local(moment) for moment in self._moments[name])
            mean.lerp_(grad, 1 - first)
            square.mul_(second).addcmul_(grad, grad, value=1 - second)
            if item.dim() > 1:
                part.mul_(1 - rate * settings.weight_decay)
            # Not `sqrt_`, whose last bit is another on another maker's processor (see `progpo.policy.portable`).
            deviation = square.div(1 - second**self.steps).rsqrt_().reciprocal_().add_(EPSILON)
            part.addcdiv_(mean, deviation, value=-rate / (1 - first**self.steps))
            item.grad = None
        return norm

    def _clip(self) -> float:
        """Sum and clip the gradient; return its norm before clipping."""
        most = self._settings.max_gradient_norm
        if not self.sharded:
            if self.team.count > 1:
                self.team.sum_gradients(self._named.values())
            # Not accelerate's, which imports torch's distributed tensors first: a second, longer than many an update.
            return float(torch.nn.utils.clip_grad_norm_(self._named.values(), most))
        parts = [local(item.grad) for item in self._named.values() if item.grad is not None]
        norm = math.sqrt(self.team.sum([sum(float(part.double().square().sum()) for part in parts)])[0])
        for part in parts:
            part.mul_(min(1.0, most / (norm + 1e-6)))
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
        # Times 0, what is not finite is NaN and the rest cannot overflow the sum.
        found = self.team.sum(float((local(item) * 0).sum()) for item in self._named.values())
        for name, value in zip(self._named, found, strict=True):
            self.require_finite(value, f"a number in {name}")

    def weights(self, trained: bool = False) -> dict[str, Tensor]:
        """Return whole parameters by name, on the CPU; nothing but in the main process. All must take part.

        Args:
            trained: only those that are trained; else the frozen ones too.
        """
        return gathered(self._named if trained else dict(self.model.named_parameters()), self.team.main)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take up whole parameters that are trained, as `weights` returned them; each process must have them."""
        for name, item in self._named.items():
            scatter(weights[name], item)

    def state(self) -> dict[str, Tensor]:
        """Return the whole moments by "<moment>/<parameter>", on the CPU; changed by the next step.

        Nothing but in the main process. All must take part.
        """
        return gathered(self._flat_moments(), self.team.main)

    def _flat_moments(self) -> dict[str, Tensor]:
        return {
            f"{moment}/{name}": tensor
            for name, pair in self._moments.items()
            for moment, tensor in zip(MOMENTS, pair, strict=False)
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
        ours = self._flat_moments()
        for name in sorted({*ours, *state}):
            if name not in ours or name not in state or ours[name].shape != state[name].shape:
                raise ProgpoError(f"{where}: not the optimiser state of this policy ({name}); make the policy anew")
        for name, tensor in ours.items():
            scatter(state[name], tensor)
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
    # Without an accelerator, it takes several processes for one unless it is told that they are to use the processor.
    return Accelerator(mixed_precision=mixed, cpu=place().count > 1 and not torch.accelerator.is_available())
