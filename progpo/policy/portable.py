"""`precision: portable`: the same numbers, to the bit, on every x86-64 processor with AVX2.

What a sum of products comes to depends on the order of its terms, and that on how wide a processor's instructions are:
after some updates two machines sample different tokens. The libraries that compute can be held to instructions, and to
an order, that all of these processors have; each reads it from the environment, once, when it is loaded.
"""

import os
import sys

from progpo.errors import ProgpoError

#: PyTorch's own kernels, MKL (COMPATIBLE alone is the same on processors of AMD and of Intel), oneDNN; and no GPU.
VARIABLES = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
}


def prepare(precision: str) -> None:
    """Hold this process's arithmetic to what a `precision` setting asks for; all but "portable" ask for nothing.

    Raises:
        ProgpoError: torch is loaded already, by another arithmetic.
    """
    if precision != "portable" or all(os.environ.get(name) == value for name, value in VARIABLES.items()):
        return
    if "torch" in sys.modules:
        named = " ".join(f"{name}={value}" for name, value in VARIABLES.items())
        raise ProgpoError(
            "precision: portable: torch is loaded already, and computes as suits this processor; use the commands, or "
            f"start Python with {named}"
        )
    os.environ.update(VARIABLES)
