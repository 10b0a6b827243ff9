"""What the sampler is measured against plays the same episodes."""

from dataclasses import replace

import corridor
import pytest

from benchmarks.rollout.peers import generate_each_turn, padded_cache
from progpo.policy.play import Episode, play


@pytest.mark.parametrize("way", [generate_each_turn, padded_cache])
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
