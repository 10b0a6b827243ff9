"""Where the forward passes compute, and in which number format."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def compute_device() -> "torch.device":
    """Return the GPU where there is one (CUDA or ROCm), else the processor."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def compute_dtype(precision: str) -> "torch.dtype":
    """Return the dtype of a `precision` setting; "auto": bfloat16 where GPU or processor multiply it natively."""
    import torch

    if precision == "portable":
        return torch.float32
    if precision == "auto":
        native = torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported()
        precision = "bfloat16" if native else "float32"
    return getattr(torch, precision)
