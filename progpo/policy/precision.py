"""In which number format the forward passes compute."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def compute_dtype(precision: str) -> "torch.dtype":
    """Return the dtype of a `precision` setting; "auto": bfloat16 where the processor multiplies it natively."""
    import torch

    if precision == "auto":
        native = torch.cuda.is_available() or torch.cpu._is_avx512_bf16_supported()
        precision = "bfloat16" if native else "float32"
    return getattr(torch, precision)
