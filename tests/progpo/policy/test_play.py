"""Playing episodes with a policy, in both layouts, made from scratch and pretrained."""

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import corridor
import pytest
import torch

from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy, load_pretrained
from progpo.policy.play import Episode, play
from progpo.policy.rendering import make_renderer
from progpo.policy.sampler import Sampler
from progpo.settings.stages import PolicySettings
from progpo.trajectories.records import Trajectory

RESTATED = ("scratch", "append", "Your task is to:")
KINDS = [("scratch", "append"), ("scratch", "window"), ("pretrained", "append"), ("pretrained", "window")]


@pytest.fixture(scope="module")
def make_policy(scratch, pretrained) -> Callable[..., Policy]:
    def make(init: str, layout: str | None = None, **changes) -> Policy:
        if init == "scratch":
            changes = {"layout": layout, "max_response_tokens": 5, **changes}
            return replace(scratch, settings=scratch.settings.model_copy(update=changes))
        changes = {"layout": layout, "max_response_tokens": 5, "max_context_tokens": 4000, **changes}
        return load_pretrained(PolicySettings(init="pretrained", path=str(pretrained), **changes))

    return make


def run(policy, tasks, group_size=2, batch=64, temperature=1.0, max_steps=3, **changes) -> list[Trajectory]:
    episodes = [Episode(group, number, task) for group, task in enumerate(tasks) for number in range(group_size)]
    return play(
        policy,
        episodes,
        lambda: corridor.make(max_steps=max_steps),
        **{"temperature": temperature, "batch": batch, "seed": 0, "iteration": 1, **changes},
    )


def tokens(trajectories: list[Trajectory]) -> list[list[list[int]]]:
    return [[list(step.response_tokens) for step in trajectory.steps] for trajectory in trajectories]


@pytest.mark.parametrize(("init", "layout"), KINDS)
@pytest.mark.parametrize("temperature", [0.7, 0])
def test_logprobs_are_those_of_a_full_pass(make_policy, tasks, init, layout, temperature):
    policy = make_policy(init, layout)
    for trajectory in run(policy, tasks[:3], batch=4, temperature=temperature):
        for number, step in enumerate(trajectory.steps):
            past = trajectory.steps[:number] if layout == "append" else []
            before = list(chain(*((*item.context_tokens, *item.response_tokens) for item in past)))
            before += step.context_tokens
            with torch.no_grad():
                logits = policy.model(torch.tensor([[*before, *step.response_tokens]])).logits[0]
            logprobs = torch.log_softmax(logits / (temperature or 1), -1)
            for place, token in enumerate(step.response_tokens, len(before)):
                assert logprobs[place - 1, token] == pytest.approx(
                    step.response_logprobs[place - len(before)], abs=1e-4
                )
                if temperature == 0:
                    assert logits[place - 1].max() - logits[place - 1, token] < 1e-4


@pytest.mark.parametrize(("init", "layout"), KINDS)
def test_the_company_changes_no_token(make_policy, tasks, init, layout):
    policy = make_policy(init, layout)
    together = run(policy, tasks[:3])
    assert tokens(run(policy, tasks[:3], batch=1)) == tokens(together)
    assert tokens(run(policy, tasks[:3], batch=4)) == tokens(together)
    alone = play(
        policy,
        [Episode(2, 1, tasks[2])],
        lambda: corridor.make(max_steps=3),
        temperature=1.0,
        batch=1,
        seed=0,
        iteration=1,
    )
    assert tokens(alone) == tokens(together)[-1:]
    assert tokens(run(policy, tasks[:3], seed=1)) != tokens(together)
    assert tokens(run(policy, tasks[:3], iteration=2)) != tokens(together)
    assert tokens(together)[0] != tokens(together)[1]


@pytest.mark.parametrize(("init", "layout", "restate"), [*((*kind, None) for kind in KINDS), RESTATED])
def test_contexts_are_the_renderer_s(make_policy, tasks, init, layout, restate):
    policy = make_policy(init, layout, max_response_tokens=3, admissible=True, restate=restate)
    renderer = make_renderer(policy)
    trajectory = run(policy, tasks[:1], group_size=1, max_steps=6)[0]
    environment = corridor.make(max_steps=6)
    observation, info = environment.reset(options=tasks[0].options)
    history = []
    for number, step in enumerate(trajectory.steps):
        can = info["admissible_commands"]
        if layout == "window":
            assert (step.context_tokens, step.history_cut) == renderer.window(history, observation, can)
        elif number == 0:
            assert step.context_tokens == renderer.start(observation, can)
        else:
            ended = trajectory.steps[number - 1].response_tokens[-1] in renderer.end_ids
            seen = renderer.restated(observation, history[0][0])
            assert (seen != observation) == bool(restate)
            assert step.context_tokens == renderer.turn(seen, can, ended)
        action, formed = renderer.parse(step.response_tokens)
        assert (step.observation, step.action, step.state_key) == (observation, action, info["state_key"])
        assert step.valid == (formed and action in can)
        history.append((observation, action))
        observation, _, _, _, info = environment.step(action)
        assert (step.next_observation, step.next_state_key) == (observation, info["state_key"])


def script(monkeypatch, policy: Policy, responses: list[list[int]]) -> None:
    """Have these tokens sampled instead."""
    said = iter(list(chain(*responses)))
    monkeypatch.setattr(Sampler, "choose", lambda self, logits, uniforms, allowed: ([next(said)], [-1.0]))


def test_outcomes_and_validity_are_recorded(make_policy, tasks, monkeypatch):
    policy = make_policy("scratch", max_response_tokens=16)
    renderer = make_renderer(policy)
    task = replace(tasks[0], options={"rooms": 3, "coin": 2, "goal": None})
    said = ["go to room 3", "go to room 2", "take coin 1 from room 2"]
    script(monkeypatch, policy, [renderer.response(action) for action in said])
    (trajectory,) = run(policy, [task], group_size=1)
    assert [step.action for step in trajectory.steps] == said
    assert [step.valid for step in trajectory.steps] == [False, True, True]
    assert [step.reward for step in trajectory.steps] == [0.0, 0.0, 1.0]
    assert [step.terminated for step in trajectory.steps] == [False, False, True]
    assert not any(step.truncated for step in trajectory.steps)
    assert (trajectory.outcome, trajectory.score) == (1.0, 1.0)
    assert trajectory.steps[0].next_observation == "Nothing happens."
    assert (trajectory.task, trajectory.task_type) == (task.id, task.task_type)


def test_a_response_without_end_is_executed_but_not_valid(make_policy, tasks, monkeypatch):
    policy = make_policy("scratch", max_response_tokens=2)
    renderer = make_renderer(policy)
    look = renderer.response("go to room 2")[:-1]
    assert len(look) == 2
    script(monkeypatch, policy, [look] * 3)
    (trajectory,) = run(policy, tasks[:1], group_size=1)
    assert trajectory.steps[0].action == "go to room 2"
    assert trajectory.steps[0].next_observation.startswith("You are in room 2.")
    assert not trajectory.steps[0].valid
    assert trajectory.steps[1].context_tokens[0] == renderer.end_id
    assert trajectory.steps[-1].truncated


@pytest.mark.parametrize(("init", "layout"), KINDS)
def test_an_episode_that_outgrows_its_context_is_cut(make_policy, tasks, init, layout, capsys):
    policy = make_policy(init, layout)
    whole = run(policy, tasks[:1], group_size=1, max_steps=6)[0]
    lengths = [len(step.context_tokens) for step in whole.steps]
    if layout == "append":
        before = [len(step.context_tokens) + len(step.response_tokens) for step in whole.steps]
        lengths = [sum(before[:number]) + length for number, length in enumerate(lengths)]
    # Room for all contexts but the longest.
    policy = make_policy(init, layout, max_context_tokens=max(lengths) - 1 + 5)
    cut = run(policy, tasks[:1], group_size=1, max_steps=6)[0]
    if layout == "window":
        # What is over is dropped from the history instead.
        assert len(cut.steps) == 6
        return
    assert len(cut.steps) == 5
    assert tokens([cut])[0] == tokens([whole])[0][:5]
    assert [step.truncated for step in cut.steps] == [False] * 4 + [True]
    assert "1 episodes were cut" in capsys.readouterr().err


def test_a_first_prompt_without_room_is_refused(make_policy, tasks):
    policy = make_policy("scratch", max_context_tokens=32, max_response_tokens=20)
    with pytest.raises(ProgpoError, match=r"max_context_tokens.*begins with"):
        run(policy, tasks[:1])


def test_batch_bounds_environments_and_cache(make_policy, tasks, monkeypatch):
    made, rows = [], []

    def make():
        made.append(corridor.make(max_steps=2))
        return made[-1]

    logits = Sampler.logits
    monkeypatch.setattr(Sampler, "logits", lambda self, chunks: rows.append(len(chunks)) or logits(self, chunks))
    episodes = [Episode(group, 0, task) for group, task in enumerate(tasks)]
    found = play(make_policy("scratch"), episodes, make, temperature=1.0, batch=3, seed=0, iteration=1)
    assert [trajectory.group for trajectory in found] == list(range(len(tasks)))
    assert len(made) == 3
    assert max(rows) == 3
    assert all(environment.over for environment in made)
