"""vLLM (arXiv 2309.06180) as a backend: token ids in, token ids and their log-probabilities out.

The engine runs in this process and is driven step by step, so that each episode goes on as soon as its response is
there. What a turn's prompt shares with earlier ones is found in the prefix cache, in whole blocks. Each turn has a seed
of its own. Log-probabilities are those of the distribution that was sampled from.
"""

import math
import os
from pathlib import Path
from typing import Any

from progpo.errors import ProgpoError
from progpo.policy.backends.base import Answer, Backend, Turn
from progpo.policy.checkpoint import Policy, checkpoint_alone
from progpo.policy.precision import compute_dtype
from progpo.settings.sampling import SamplingSettings

MISSING = (
    "`backend: vllm` needs vLLM, which is not installed here; make an environment with it as docs/vllm.md tells, or "
    "set `backend: progpo`"
)
#: Read by vLLM when it is imported. The engine runs in this process: what it does when depends on the requests alone.
VARIABLES = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
#: Tokens of a block on the processor: the smallest that vLLM's attention takes there. A turn reads the last block anew.
BLOCK = 32
#: Most tokens that are read at once.
MOST_TOKENS = 8192


class Vllm(Backend):
    """A policy in vLLM.

    Args:
        folder: of the policy.
        policy: the same, read without its weights (`load_reader`).
        temperature: of sampling; 0: greedy.
        settings: batch, precision, threads, and `vllm`.

    Raises:
        ProgpoError: vLLM is not installed, or cannot hold the policy.
    """

    def __init__(self, folder: Path, policy: Policy, temperature: float, settings: SamplingSettings) -> None:
        super().__init__(policy, temperature)
        vllm, self._kind = _import(settings.threads)
        dtype = compute_dtype(settings.precision)
        shape = _shape(policy.model.config)
        on_processor = self._kind == "cpu"
        if on_processor:
            _check_head_size(folder, shape[2])
        self._dtype = str(dtype).removeprefix("torch.")
        limit = policy.settings.max_context_tokens
        given = settings.vllm.cache_gib
        try:
            with checkpoint_alone(folder) as checkpoint:
                self._engine = vllm.LLM(
                    str(checkpoint),
                    skip_tokenizer_init=True,
                    generation_config="vllm",
                    use_tqdm_on_load=False,
                    dtype=self._dtype,
                    enforce_eager=settings.vllm.eager,
                    max_model_len=limit,
                    max_num_seqs=settings.batch,
                    max_num_batched_tokens=max(MOST_TOKENS, limit),
                    enable_prefix_caching=True,
                    kv_cache_memory_bytes=(
                        int(given * 2**30) if given else cache_bytes(shape, limit, settings.batch, dtype.itemsize)
                    ),
                    logprobs_mode="processed_logprobs",
                    **({"block_size": BLOCK} if on_processor else {}),
                ).llm_engine
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            raise ProgpoError(
                f"{folder}: vLLM cannot hold this policy: {reason}\nremedy: smaller `batch`, `vllm.cache_gib` or "
                "`policy.max_context_tokens` where it is memory; `backend: progpo` where it is the model"
            ) from error
        self._version = vllm.__version__
        self._sampling = vllm.SamplingParams
        self._common = {
            "temperature": temperature,
            "max_tokens": self.renderer.response_limit,
            "stop_token_ids": sorted(self.renderer.end_ids),
            # None beside the sampled token's own.
            "logprobs": 0,
            "flat_logprobs": True,
            "detokenize": False,
            "output_kind": vllm.sampling_params.RequestOutputKind.FINAL_ONLY,
        }
        self._waiting: dict[str, Turn] = {}

    def facts(self) -> dict[str, Any]:
        return {"backend": "vllm", "vllm": self._version, "device": self._kind, "dtype": self._dtype}

    def begin(self, rows: int) -> None:
        # What an earlier set left would be found again, and prompts be read in other pieces: rounding would differ.
        self._engine.reset_prefix_cache()

    def ask(self, turn: Turn) -> None:
        _, _, group, trajectory = turn.key
        name = f"{group}-{trajectory}-{turn.step}"
        self._waiting[name] = turn
        asked = self._sampling(seed=turn.seed if self.temperature else None, **self._common)
        self._engine.add_request(name, {"type": "token", "prompt_token_ids": list(turn.prompt)}, asked)

    def answers(self) -> list[Answer]:
        done = []
        for output in self._engine.step():
            turn, response = self._waiting.pop(output.request_id), output.outputs[0]
            if response.finish_reason not in ("stop", "length"):
                raise ProgpoError(
                    f"{self.name}: vLLM gave up a response ({response.finish_reason}); run the stage again"
                )
            flat = response.logprobs
            done.append(Answer(turn, [*response.token_ids], [flat.logprobs[first] for first in flat.start_indices]))
        return done


def cache_bytes(shape: tuple[int, int, int], limit: int, batch: int, itemsize: int) -> int:
    """Return the bytes of keys and values that `batch` conversations of `limit` tokens take, in whole blocks.

    Args:
        shape: of the model: layers, key/value heads, head size.
        limit: tokens of the longest conversation.
        batch: conversations at once.
        itemsize: bytes of a number.
    """
    layers, heads, size = shape
    # One block more for each: it may hold what its prompt shares with none.
    tokens = (math.ceil(limit / BLOCK) + 1) * BLOCK
    return 2 * layers * heads * size * tokens * batch * itemsize


def _shape(config: Any) -> tuple[int, int, int]:
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return config.num_hidden_layers, getattr(config, "num_key_value_heads", None) or heads, size


def _import(threads: int) -> tuple[Any, str]:
    """Import vLLM; return it, and the kind of device that it computes on."""
    for name, value in VARIABLES.items():
        os.environ.setdefault(name, value)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    # Before vLLM forbids it.
    torch.set_num_threads(threads)
    try:
        import vllm
        import vllm.sampling_params
        from vllm.platforms import current_platform
    except ImportError as error:
        if error.name == "vllm":
            raise ProgpoError(MISSING) from None
        raise ProgpoError(f"vLLM does not load here: {error}; docs/vllm.md tells what it wants") from error
    return vllm, current_platform.device_type


def _check_head_size(folder: Path, size: int) -> None:
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    sizes = CPUAttentionBackend.get_supported_head_sizes()
    if size not in sizes:
        raise ProgpoError(
            f"{folder}: vLLM has no attention on the processor for heads of size {size} (it has: "
            f"{', '.join(map(str, sizes))}); choose `policy.hidden_size` and `policy.heads` accordingly, or set "
            "`backend: progpo`"
        )
