"""What computes a policy's responses: the project's own sampler, vLLM, or servers that run elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

from progpo.artifacts import folder_of
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import load_policy, load_reader
from progpo.policy.portable import prepare

if TYPE_CHECKING:
    from progpo.policy.backends.base import Backend
    from progpo.settings.sampling import SamplingSettings


def open_backend(policy: Path, settings: "SamplingSettings", temperature: float, strict: bool) -> "Backend":
    """Load a policy into the backend that the settings name.

    Args:
        policy: its folder, or the manifest inside.
        settings: of the sampling.
        temperature: of sampling; 0: greedy.
        strict: whether a folder without manifest is refused.

    Raises:
        ProgpoError: a policy that is damaged, a backend that is missing or cannot hold it, or torch loaded by another
            arithmetic than a portable one.
    """
    if settings.backend == "progpo":
        prepare(settings.precision)
        import torch

        from progpo.policy.backends.own import OwnSampler
        from progpo.policy.precision import compute_device, compute_dtype

        torch.set_num_threads(settings.threads)
        # On a GPU the weights are held as they are computed with; on the processor what is exact is float32.
        dtype = compute_dtype(settings.precision) if compute_device().type != "cpu" else torch.float32
        return OwnSampler(load_policy(policy, strict, dtype), temperature, settings.precision)
    reader = load_reader(policy, strict)
    if reader.settings.constrained:
        raise ProgpoError(
            f"backend: {settings.backend}: the policy in {folder_of(policy)} is constrained to the admissible actions, "
            "which the project's own sampler alone can do; set `backend: progpo`"
        )
    if settings.backend == "vllm":
        from progpo.policy.backends.vllm import Vllm

        return Vllm(folder_of(policy), reader, temperature, settings)
    from progpo.policy.backends.endpoint import Endpoint

    return Endpoint(folder_of(policy), reader, temperature, settings)
