"""The warm-up of tiny policies."""

import copy
from typing import Any

import corridor
import numpy as np
import pytest
import torch
from torch.nn import functional as F

from envs import Task
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy, load_pretrained
from progpo.policy.lessons import Lessons, batches
from progpo.policy.play import Episode, play
from progpo.policy.rendering import make_renderer
from progpo.policy.warmup import Warmup
from progpo.settings.experiment import DemonstrateStage
from progpo.settings.stages import PolicySettings, WarmupSettings
from progpo.stages.demonstrate import demonstrate
from progpo.trajectories.records import Trajectory


@pytest.fixture(scope="module")
def shown(tasks: list[Task]) -> list[Trajectory]:
    """Demonstrations of all tasks, some with noise."""
    settings = DemonstrateStage.model_validate({"environment": {"name": "corridor"}}).demonstrations
    found = []
    for group, task in enumerate(tasks):
        for variant in range(2):
            rng = np.random.default_rng([group, variant])
            expert = corridor.CorridorExpert(rng, "varied" if variant else "best")
            found.append(demonstrate(corridor.make(), expert, task, group, variant, settings, rng))
    return found


def make(policy: Policy, shown: list[Trajectory], **changes: Any) -> Warmup:
    settings = WarmupSettings(
        **{"tokens": 4000, "batch_tokens": 400, "warmup_steps": 2, "precision": "float32", **changes}
    )
    lessons = Lessons(shown, make_renderer(policy), None, settings.observation_loss > 0, seed=0)
    return Warmup(copy.deepcopy(policy.model), lessons, settings)


def test_loss_and_gradient_are_those_of_a_plain_loop(scratch: Policy, shown: list[Trajectory]) -> None:
    warmup = make(scratch, shown, observation_loss=0.3)
    lessons = Lessons(shown, make_renderer(scratch), None, True, seed=0)
    _, batch = next(batches(lessons.stream(), 400))
    assert len(batch) > 1
    model = scratch.model
    model.zero_grad()
    total = torch.zeros(())
    scale = 0.0
    for lesson in batch:
        logits = model(input_ids=torch.from_numpy(lesson.tokens).long()[None]).logits[0]
        for place, action in zip(lesson.positions, lesson.actions, strict=True):
            weight = 1.0 if action else 0.3
            total = total + weight * F.cross_entropy(logits[place - 1], torch.tensor(int(lesson.tokens[place])))
            scale += weight
    (total / scale).backward()
    found = warmup._accumulate(batch)
    assert found["loss"] == pytest.approx((total / scale).item(), rel=1e-5)
    for name, item in model.named_parameters():
        ours = warmup.optimisation.model.get_parameter(name).grad
        torch.testing.assert_close(ours, item.grad, rtol=1e-3, atol=1e-6, msg=name)
    model.zero_grad()


def test_training_lowers_the_loss_by_the_schedule_within_the_budget(scratch: Policy, shown: list[Trajectory]) -> None:
    warmup = make(scratch, shown, tokens=20_000, learning_rate=5e-3)
    warmup.train()
    assert 20_000 <= warmup.done < 20_400
    assert warmup.curve[-1]["action_loss"] < 0.5 * warmup.curve[0]["action_loss"]
    rates = [point["learning_rate"] for point in warmup.curve]
    assert max(rates) == pytest.approx(5e-3, rel=0.05)
    assert rates[0] < 0.6 * max(rates)
    assert rates[-1] == pytest.approx(0.05 * 5e-3)
    assert warmup.curve[-1]["tokens"] == warmup.done


def test_policy_that_imitates_wins(scratch: Policy, shown: list[Trajectory], tasks: list[Task]) -> None:
    warmup = make(scratch, shown, tokens=60_000, batch_tokens=300, learning_rate=5e-3)
    warmup.train()
    policy = Policy(warmup.optimisation.model, scratch.tokenizer, scratch.settings)
    episodes = [Episode(group, 0, task) for group, task in enumerate(tasks)]
    found = play(policy, episodes, corridor.make, temperature=0, batch=8, seed=0, iteration=0)
    assert np.mean([item.outcome for item in found]) > 0.8


def test_pretrained_policy_learns_in_the_window_layout(pretrained: Any, shown: list[Trajectory]) -> None:
    policy = load_pretrained(PolicySettings(init="pretrained", path=str(pretrained)))
    warmup = make(policy, shown, tokens=30_000, batch_tokens=800, learning_rate=5e-3)
    warmup.train()
    assert warmup.curve[-1]["observation_loss"] is None
    assert warmup.curve[-1]["action_loss"] < 0.7 * warmup.curve[0]["action_loss"]


def test_a_warm_up_that_diverges_is_refused(scratch: Policy, shown: list[Trajectory]) -> None:
    # A rate that the settings would refuse, to diverge for sure.
    settings = WarmupSettings(batch_tokens=400, warmup_steps=2).model_copy(update={"learning_rate": 1e30})
    lessons = Lessons(shown, make_renderer(scratch), None, True, seed=0)
    warmup = Warmup(copy.deepcopy(scratch.model), lessons, settings)
    with pytest.raises(ProgpoError, match=r"diverged after step 1: .*lower `learning_rate`"):
        warmup.train()
