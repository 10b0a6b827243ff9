"""What the sampler is measured against plays the same episodes."""

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import corridor
import pytest

from benchmarks.rollout.peers import generate_each_turn, padded_cache
from benchmarks.rollout.vllm import MISSING, summary
from progpo.policy.play import Episode, play


@pytest.mark.parametrize("way", [generate_each_turn, padded_cache], ids=["generate", "padded cache"])
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
