"""Playing the episodes with vLLM: token ids in, token ids and their log-probabilities out.

Every turn of an episode is a request whose prompt is the whole conversation; the prefix cache keeps what was read of it
before, in whole blocks. vLLM itself is imported by `open_llm` alone: what drives it takes any object of that interface.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.rollout.peers import Played, Slot, finish, start
from progpo.policy.checkpoint import Policy
from progpo.policy.play import Episode
from progpo.policy.rendering import Renderer, make_renderer

#: Tokens of a block: the smallest that vLLM's attention takes without slowing down. A turn reads the last block anew.
BLOCK = 32
#: Memory for keys and values; the default policy's 64 longest conversations take an eighth of a GiB.
CACHE_BYTES = 1 << 30


def open_llm(policy: Path, settings: Any, batch: int, dtype: str, eager: bool) -> Any:
    """Load a policy into vLLM, with the settings under which it is fastest here.

    Args:
        policy: a policy folder.
        settings: of that policy.
        batch: conversations at once.
        dtype: "float32" or "bfloat16".
        eager: whether the model is run as it is, with vLLM's own kernels, or compiled.
    """
    from vllm import LLM

    return LLM(
        str(policy),
        skip_tokenizer_init=True,
        generation_config="vllm",
        dtype=dtype,
        enforce_eager=eager,
        max_model_len=settings.max_context_tokens,
        max_num_seqs=batch,
        max_num_batched_tokens=8192,
        block_size=BLOCK,
        enable_prefix_caching=True,
        kv_cache_memory_bytes=CACHE_BYTES,
        # The log-probabilities that training wants: of the distribution that was sampled from.
        logprobs_mode="processed_logprobs",
    )


def sampling(renderer: Renderer, temperature: float, logprobs: bool = True) -> Any:
    """Return what to ask of vLLM for one response."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=temperature,
        max_tokens=renderer.response_limit,
        stop_token_ids=sorted(renderer.end_ids),
        # None beside the sampled token's own.
        logprobs=0 if logprobs else None,
        flat_logprobs=logprobs,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def play_by_turns(
    llm: Any, asked: Any, policy: Policy, episodes: Sequence[Episode], make_environment: Callable[[], Any], batch: int
) -> Played:
    """All live episodes take their turns together, one `generate` a turn."""
    renderer, played = make_renderer(policy), Played()
    for first in range(0, len(episodes), batch):
        slots = start(episodes[first : first + batch], renderer, make_environment, played)
        while live := [slot for slot in slots if not slot.over]:
            prompts = [{"prompt_token_ids": slot.context} for slot in live]
            for slot, output in zip(live, llm.generate(prompts, asked, use_tqdm=False), strict=True):
                slot.act([*output.outputs[0].token_ids], played)
        finish(slots, played)
    return played


def play_by_steps(
    llm: Any, asked: Any, policy: Policy, episodes: Sequence[Episode], make_environment: Callable[[], Any], batch: int
) -> Played:
    """Each episode goes on as soon as its response is there: the engine's steps are driven by hand."""
    renderer, played, engine = make_renderer(policy), Played(), llm.llm_engine
    queue, names = deque(episodes), count()
    slots: list[Slot] = []
    waiting: dict[str, Slot] = {}

    def ask(slot: Slot) -> None:
        name = str(next(names))
        waiting[name] = slot
        engine.add_request(name, {"prompt_token_ids": slot.context}, asked)

    while queue or waiting:
        while queue and len(waiting) < batch:
            slots += start([queue.popleft()], renderer, make_environment, played)
            ask(slots[-1])
        for output in engine.step():
            slot = waiting.pop(output.request_id)
            slot.act([*output.outputs[0].token_ids], played)
            if not slot.over:
                ask(slot)
    finish(slots, played)
    return played


DRIVERS = {"steps": play_by_steps, "turns": play_by_turns}
