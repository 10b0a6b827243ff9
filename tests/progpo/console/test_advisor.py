"""What a policy would do, and how probably."""

import math
from dataclasses import replace
from pathlib import Path

import corridor
import numpy as np
import pytest

from envs import Task
from progpo.console.advisor import Advice, Advisor, Candidate
from progpo.console.game import Game, describe, play
from progpo.policy.checkpoint import Policy, load_pretrained
from progpo.policy.play import Episode
from progpo.policy.play import play as sample
from progpo.settings.stages import PolicySettings
from progpo.trajectories.records import Trajectory


def sampled(policy: Policy, task: Task, temperature: float) -> Trajectory:
    """Return an episode as the rollout stage plays it."""
    make = lambda: corridor.make(max_steps=4)  # noqa: E731
    (trajectory,) = sample(policy, [Episode(0, 0, task)], make, temperature=temperature, batch=1, seed=1, iteration=1)
    return trajectory


def choosing(policy: Policy) -> Policy:
    """Return the policy, constrained to actions that it has not tried."""
    return replace(policy, settings=policy.settings.model_copy(update={"constrained": True, "no_repeat": True}))


def test_probabilities_are_those_that_the_rollout_records(scratch: Policy, tasks: list[Task]) -> None:
    trajectory = sampled(scratch, tasks[0], 0.7)
    advisor = Advisor(scratch, 0.7, np.random.default_rng(0))
    environment = corridor.make(max_steps=4)
    observation, info = environment.reset(options=tasks[0].options)
    advisor.start(observation, info["admissible_commands"])
    for step in trajectory.steps:
        advisor._choice = list(step.response_tokens)
        ((tokens, logprob),) = advisor._respond([step.response_tokens])
        assert tokens == list(step.response_tokens)
        assert logprob == pytest.approx(sum(step.response_logprobs), abs=1e-3)
        observation, _, _, _, info = environment.step(step.action)
        advisor.follow(step.action, observation, info["admissible_commands"])


def test_advice_lists_every_admissible_action_once_by_falling_probability(scratch: Policy, tasks: list[Task]) -> None:
    advisor = Advisor(scratch, 1.0, np.random.default_rng(0))
    admissible = ["go to room 2", "look"]
    advisor.start("You are in room 1.", admissible)
    advice = advisor.advise(admissible)
    actions = [candidate.action for candidate in advice.candidates]
    probabilities = [candidate.probability for candidate in advice.candidates]
    assert {*admissible, advice.choice} <= set(actions)
    assert len(actions) == len(set(actions))
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) <= 1 + 1e-6
    # The first token of the one, forced, is what the sampler would say of it.
    ((_, logprob),) = advisor._respond([advisor._renderer.response("look")])
    (look,) = [candidate for candidate in advice.candidates if candidate.action == "look"]
    assert look.probability == pytest.approx(math.exp(logprob), rel=1e-4)
    assert advice.thought is None


@pytest.mark.parametrize("constrained", [False, True])
def test_a_greedy_policy_plays_as_in_an_evaluation(scratch: Policy, tasks: list[Task], constrained: bool) -> None:
    said: list[str] = []
    scratch = choosing(scratch) if constrained else scratch
    game = Game(corridor.make(max_steps=4), tasks[0], advisor=Advisor(scratch, 0.0, np.random.default_rng(0)))
    score = play(game, lambda text="": said.append(text), lambda: pytest.fail("a policy plays: nobody is asked"))
    trajectory = sampled(scratch, tasks[0], 0.0)
    assert score == trajectory.score
    done = [text.split("\n")[0][2:].removesuffix("  (not admissible)") for text in said if text.startswith("> ")]
    assert done == [step.action for step in trajectory.steps]
    assert all(step.valid for step in trajectory.steps) or not constrained


def test_a_constrained_policy_s_probabilities_are_of_what_it_may_do(scratch: Policy, tasks: list[Task]) -> None:
    advisor = Advisor(choosing(scratch), 1.0, np.random.default_rng(0))
    admissible = ["go to room 2", "look", "take coin 1 from room 1"]
    advisor.start("You are in room 1.", admissible)
    for among in (admissible, ["go to room 2", "take coin 1 from room 1"]):
        found = advisor.advise(admissible).candidates
        assert sorted(candidate.action for candidate in found) == among
        assert sum(candidate.probability for candidate in found) == pytest.approx(1)
        advisor.follow("look", "You are in room 1.", admissible)


def test_an_empty_line_takes_the_policy_s_choice(scratch: Policy, tasks: list[Task]) -> None:
    said: list[str] = []
    lines = iter(["", "look", "", "quit"])
    advisor = Advisor(scratch, 0.0, np.random.default_rng(0))
    game = Game(corridor.make(max_steps=9), tasks[0], advisor=advisor, advised=True)
    assert play(game, lambda text="": said.append(text), lambda: next(lines)) is None
    actions = [text.split("\n")[0][2:].removesuffix("  (not admissible)") for text in said if text.startswith("> ")]
    assert len(actions) == 3
    assert actions[1] == "look"
    assert actions[0] == sampled(scratch, tasks[0], 0.0).steps[0].action


def test_a_full_context_ends_a_policy_s_game(scratch: Policy, tasks: list[Task]) -> None:
    settings = scratch.settings.model_copy(update={"max_context_tokens": 120})
    policy = Policy(scratch.model, scratch.tokenizer, settings)
    said: list[str] = []
    game = Game(corridor.make(max_steps=50), tasks[0], advisor=Advisor(policy, 0.0, np.random.default_rng(0)))
    assert play(game, lambda text="": said.append(text), lambda: None) == 0.0
    assert "the policy's context is full" in said[-2]
    assert "cut there; score 0" in said[-1]


def test_where_responses_hold_thoughts_shares_of_draws_are_told(pretrained: Path) -> None:
    settings = PolicySettings(
        init="pretrained", path=str(pretrained), max_response_tokens=6, max_context_tokens=1024, layout="window"
    )
    advisor = Advisor(load_pretrained(settings), 1.0, np.random.default_rng(0))
    advisor.start("You are in room 1.", ["look"])
    for _ in range(2):
        advice = advisor.advise(["look"])
        assert sum(candidate.probability for candidate in advice.candidates) == pytest.approx(1.0)
        assert {8 * candidate.probability for candidate in advice.candidates} <= set(range(9))
        assert advice.thought is not None
        advisor.follow(advice.choice, "You are in room 2.", ["look"])


def test_advice_is_told_in_lines() -> None:
    candidates = [Candidate("look", 0.75), Candidate("go", 0.125), Candidate("dance\x1b", 0.0625)]
    lines = describe(Advice(candidates, "dance\x1b", None), ["look", "go"], 2).split("\n")
    assert [line.rstrip() for line in lines] == [
        "the policy would:",
        "   75.0 % " + "█" * 15 + " " * 6 + "look",
        "   12.5 % " + "█" * 2 + " " * 19 + "go",
        " * (drew a rarer one: dance\ufffd)",
        "   12.5 % " + " " * 21 + "anything else",
    ]
