"""What the sampler is measured against plays the same episodes."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import corridor
import pytest
import torch

from benchmarks.rollout.engine import play_by_steps, play_by_turns
from benchmarks.rollout.peers import Played, generate_each_turn, padded_cache
from benchmarks.rollout.vllm import MISSING, summary
from progpo.policy.checkpoint import Policy
from progpo.policy.play import Episode, play
from progpo.policy.rendering import make_renderer


class StandIn:
    """What of vLLM's interface is used, over the stock model: greedy, a response a step, the last one asked first."""

    def __init__(self, policy: Policy) -> None:
        self.model, self.renderer = policy.model, make_renderer(policy)
        self.llm_engine = self
        self.waiting: dict[str, dict[str, list[int]]] = {}

    def generate(self, prompts: Sequence[dict[str, list[int]]], asked: Any, use_tqdm: bool) -> list[Any]:
        return [self.respond("", prompt) for prompt in prompts]

    def add_request(self, name: str, prompt: dict[str, list[int]], asked: Any) -> None:
        self.waiting[name] = prompt

    def step(self) -> list[Any]:
        return [self.respond(*self.waiting.popitem())]

    def respond(self, name: str, prompt: dict[str, list[int]]) -> Any:
        tokens, ends = torch.tensor([prompt["prompt_token_ids"]]), sorted(self.renderer.end_ids)
        found = self.model.generate(
            input_ids=tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=self.renderer.response_limit,
            do_sample=False,
            eos_token_id=ends,
            pad_token_id=ends[0],
        )
        response = found[0, tokens.shape[1] :].tolist()
        return SimpleNamespace(request_id=name, outputs=[SimpleNamespace(token_ids=response)])


def with_stand_in(driver: Callable[..., Played]) -> Callable[..., Played]:
    def way(
        policy: Policy, episodes: Sequence[Episode], make: Callable[[], Any], temperature: float, batch: int
    ) -> Played:
        return driver(StandIn(policy), None, policy, episodes, make, batch)

    return way


WAYS = [generate_each_turn, padded_cache, with_stand_in(play_by_turns), with_stand_in(play_by_steps)]


@pytest.mark.parametrize("way", WAYS, ids=["generate", "padded cache", "vLLM by turns", "vLLM by steps"])
def test_a_peer_plays_the_same_episodes_when_greedy(scratch, tasks, way):
    policy = replace(scratch, settings=scratch.settings.model_copy(update={"max_response_tokens": 4}))
    episodes = [Episode(group, 0, task) for group, task in enumerate(tasks[:5])]

    def make() -> corridor.Corridor:
        return corridor.make(max_steps=4)

    ours = play(policy, episodes, make, temperature=0, batch=3, seed=0, iteration=1)
    played = way(policy, episodes, make, 0, 3)
    assert played.actions == [[step.action for step in trajectory.steps] for trajectory in ours]
    assert (played.episodes, played.steps) == (5, sum(len(trajectory.steps) for trajectory in ours))
    steps = [step for trajectory in ours for step in trajectory.steps]
    assert played.tokens == sum(len(step.context_tokens) + len(step.response_tokens) for step in steps)


def test_without_vllm_its_benchmark_says_what_to_do():
    if find_spec("vllm"):
        pytest.skip("vllm is installed")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.rollout.vllm"], capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", MISSING + "\n")


def test_ways_are_compared_with_progpo_in_float32_and_in_their_own_precision():
    def runs(*walls: float) -> list[dict[str, Any]]:
        return [{"tokens": 600, "episodes": 6, "wall": wall, "cpu": 2 * wall} for wall in walls]

    figures = summary(
        {
            "progpo, float32": runs(2, 1, 3),
            "vLLM, float32": runs(6, 6, 6),
            "progpo, bfloat16": runs(1, 1, 1),
            "vLLM, bfloat16": runs(4, 5, 3),
        }
    )
    assert figures["progpo, float32"]["tokens/s"] == 300
    assert (figures["progpo, float32"]["least"], figures["progpo, float32"]["most"]) == (200, 600)
    assert figures["vLLM, bfloat16"]["tokens/CPU s"] == 75
    assert figures["vLLM, bfloat16"]["episodes/s"] == 1.5
    assert figures["vLLM, float32"]["slower than float32, wall"] == 3
    assert figures["vLLM, bfloat16"]["slower than float32, CPU"] == 2
    assert figures["vLLM, bfloat16"]["slower than alike, CPU"] == 4
