"""The processes that train one policy together: sums over all of them, and a policy divided among them.

Token weights are those of the whole minibatch, so the gradient is the plain sum of the processes' own. Replicas
("ddp") sum it once an optimiser step, after all passes: a process without a sequence has zeros to add. A sharded policy
("fsdp") is gathered layer by layer in each pass, which all processes must therefore make together.

torch.distributed is imported where there are several processes, and only there: it takes a second.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from progpo.errors import ProgpoError
from progpo.policy.packed import CHECKPOINTING
from progpo.processes import place

#: Numbers that are summed in one go.
BUCKET = 1 << 25


class Team:
    """This process and the others.

    Args:
        device: on which this one computes; where there are others, their group must have been formed.

    Attributes:
        index, count: which process this is, of how many.
    """

    def __init__(self, device: torch.device) -> None:
        self.index, self.count = place().index, place().count
        self._device = device

    @property
    def main(self) -> bool:
        """Whether this is the process that writes."""
        return self.index == 0

    def sum(self, values: Iterable[float]) -> list[float]:
        """Return the sums over all processes."""
        return self._reduce(values, "SUM")

    def max(self, values: Iterable[float]) -> list[float]:
        """Return the largest of all processes."""
        return self._reduce(values, "MAX")

    def _reduce(self, values: Iterable[float], kind: str) -> list[float]:
        given = list(values)
        if self.count == 1:
            return given
        numbers = torch.tensor(given, dtype=torch.float64, device=self._device)
        torch.distributed.all_reduce(numbers, getattr(torch.distributed.ReduceOp, kind))
        return numbers.tolist()

    @torch.no_grad()
    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each parameter's gradient by its sum over all processes; one without counts as 0."""
        bucket: list[Tensor] = []
        for item in parameters:
            if item.grad is None:
                item.grad = torch.zeros_like(item)
            bucket.append(item.grad)
            if sum(grad.numel() for grad in bucket) >= BUCKET:
                self._sum_bucket(bucket)
                bucket = []
        if bucket:
            self._sum_bucket(bucket)

    def _sum_bucket(self, gradients: list[Tensor]) -> None:
        flat = torch.cat([item.reshape(-1) for item in gradients])
        torch.distributed.all_reduce(flat)
        for item, part in zip(gradients, flat.split([grad.numel() for grad in gradients]), strict=True):
            item.copy_(part.view_as(item))

    def require_same(self, model: nn.Module) -> None:
        """Refuse to train policies that differ.

        Raises:
            ProgpoError: the processes hold different weights.
        """
        if self.count == 1:
            return
        with torch.no_grad():
            total = float(sum(item.double().sum() for item in model.parameters()))
        if self.max([total])[0] != -self.max([-total])[0]:
            raise ProgpoError("the processes have read different policies; let all see the same files")


class Sharded(nn.Module):
    """A policy divided among the processes (fully sharded data parallel, arXiv 2304.11277).

    Called with a function and its arguments, it calls the function with the policy whose weights outside the layers are
    gathered; each layer gathers its own when it is called.

    Args:
        model: of transformers; changed in place.
        device: the shards' place.
        count: of processes.
    """

    def __init__(self, model: Any, device: torch.device, count: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        super().__init__()
        self.model = model
        mesh = init_device_mesh(device.type, (count,))
        for layer in decoder_layers(model):
            fully_shard(layer, mesh=mesh)
        fully_shard(self, mesh=mesh)

    def forward(self, function: Callable[..., Tensor], *arguments: Any) -> Tensor:
        return function(self.model, *arguments)


def decoder_layers(model: Any) -> nn.ModuleList:
    """Return the layers of a model of transformers."""
    count = model.config.num_hidden_layers
    return next(item for item in model.modules() if isinstance(item, nn.ModuleList) and len(item) == count)


def checkpoint_layers(model: Any) -> None:
    """Let each layer keep its input alone for the backward pass, and compute its activations again there.

    (Gradient checkpointing, arXiv 1604.06174.) What transformers brings along would want the model in training mode.
    """
    from torch.utils.checkpoint import checkpoint

    setattr(model, CHECKPOINTING, True)

    def keep_input(forward: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        # The attention in use now, not that of the time of the backward pass, when the model's own has been put back.
        attention = getattr(model.config, "_attn_implementation", None)

        def run(*arguments: Any) -> Any:
            usual = getattr(model.config, "_attn_implementation", None)
            model.config._attn_implementation = attention
            try:
                return forward(*arguments, **named)
            finally:
                model.config._attn_implementation = usual

        return checkpoint(run, *arguments, use_reentrant=False)

    for layer in decoder_layers(model):
        layer.forward = partial(keep_input, layer.forward)


def local(item: Tensor) -> Tensor:
    """Return this process's part of a tensor, in the same memory."""
    return item.to_local() if hasattr(item, "to_local") else item


def gathered(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Return whole tensors on the CPU, one after another; all processes must take part.

    Args:
        keep: whether this process wants them; else it returns nothing.
    """
    found = {}
    for name, item in tensors.items():
        whole = item.detach()
        whole = whole.full_tensor() if hasattr(whole, "full_tensor") else whole
        if keep:
            found[name] = whole.cpu()
    return found


@torch.no_grad()
def scatter(whole: Tensor, target: Tensor) -> None:
    """Copy a whole tensor, which each process has, into one that may be divided."""
    if hasattr(target, "full_tensor"):
        from torch.distributed.tensor import distribute_tensor

        parts = distribute_tensor(whole.to(target.device), target.device_mesh, target.placements, src_data_rank=None)
        target.to_local().copy_(parts.to_local())
    else:
        target.copy_(whole)
