"""Settings of what computes a policy's responses: common to rollouts, evaluation and validation."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from progpo.settings.base import Count, NonNegative, Positive, Precision, Settings


class VllmSettings(Settings):
    """How vLLM holds the policy.

    Attributes:
        cache_gib: memory for keys and values, in GiB; null: what `batch` of the longest conversations take, so that
            several jobs may share a GPU.
        eager: run the model as it is, not compiled and (on a GPU) without CUDA graphs: sooner ready, slower.
    """

    cache_gib: Positive | None = None
    eager: bool = False


class EndpointSettings(Settings):
    """Which servers hold the policy.

    Attributes:
        urls: of OpenAI-compatible servers, e.g. "http://gpu01:8000". Those that serve the policy at hand, under its
            fingerprint, share the episodes.
        wait: seconds to wait for one that does.
        timeout: seconds that one response may take.
    """

    urls: Annotated[tuple[str, ...], Field(min_length=1)]
    wait: NonNegative = 0
    timeout: Positive = 600

    @field_validator("urls")
    @classmethod
    def _are_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            try:
                parts = urlsplit(url)
                good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
            except ValueError:  # a port, or an address, that is none
                good = False
            if not good:
                raise ValueError(f"{url!r} is no URL of a server; give e.g. http://gpu01:8000")
        return urls


class SamplingSettings(Settings):
    """What computes the responses of a policy.

    Attributes:
        backend: "progpo": the project's own sampler; "vllm": vLLM, in the same process; "endpoint": servers that
            run elsewhere.
        batch: most episodes played at once; bounds the memory of the KV cache.
        precision: of the forward pass (an endpoint has its own); "portable": see `progpo.policy.portable`.
        threads: of torch, each job.
        vllm: with `backend: vllm`.
        endpoint: with `backend: endpoint`.
    """

    backend: Literal["progpo", "vllm", "endpoint"] = "progpo"
    batch: Count = 64
    precision: Precision = "float32"
    threads: Count = 1
    vllm: VllmSettings = VllmSettings()
    endpoint: EndpointSettings | None = None

    @model_validator(mode="after")
    def _coherent_backend(self) -> "SamplingSettings":
        if self.precision == "portable" and self.backend != "progpo":
            raise ValueError(
                f"precision: {self.backend} computes as suits its machine; `portable` needs `backend: progpo`"
            )
        if self.backend == "endpoint" and self.endpoint is None:
            raise ValueError("endpoint: `backend: endpoint` needs `endpoint: {urls: [...]}`")
        return self
