"""Constrained decoding: what may come next, and that it is sampled and learnt as such."""

from dataclasses import replace
from itertools import chain

import corridor
import pytest
import torch

import envs
from progpo.artifacts import atomic_folder, write_manifest
from progpo.errors import ProgpoError
from progpo.policy.backends import open_backend
from progpo.policy.checkpoint import Policy, load_pretrained, save_files
from progpo.policy.choices import Allowed, continuations, narrowed
from progpo.policy.play import Episode, play
from progpo.policy.rendering import make_renderer, repeats
from progpo.settings.stages import PolicySettings, RolloutSettings

CHOICES = [(1, 2, 9), (1, 3, 9), (4, 9)]
KINDS = [("scratch", "append"), ("scratch", "window"), ("pretrained", "append")]


def test_what_may_stand_at_each_place_depends_on_what_was_said_before_it():
    found = Allowed.of(CHOICES, (1, 3, 9))
    assert (found.tokens.tolist(), found.counts.tolist()) == ([1, 4, 2, 3, 9], [2, 2, 1])
    assert (found.first(2).tokens.tolist(), found.first(2).counts.tolist()) == ([1, 4, 2, 3], [2, 2])
    both = Allowed.join([found.first(1), Allowed.of(CHOICES, (4, 9))])
    assert (both.tokens.tolist(), both.counts.tolist()) == ([1, 4, 1, 4, 9], [2, 2, 1])
    assert continuations(narrowed(CHOICES, 0, 4), 1) == [9]


@pytest.fixture(params=KINDS, ids="-".join)
def constrained(request: pytest.FixtureRequest, scratch: Policy) -> Policy:
    init, layout = request.param
    if init == "pretrained":
        path = str(request.getfixturevalue("pretrained"))
        settings = PolicySettings(
            init=init, path=path, layout=layout, constrained=True, response="plain", max_response_tokens=40
        )
        return load_pretrained(settings)
    return replace(scratch, settings=scratch.settings.model_copy(update={"layout": layout, "constrained": True}))


@pytest.mark.parametrize(("temperature", "no_repeat"), [(0.7, False), (0, False), (0.7, True), (0, True)])
def test_only_admissible_actions_are_sampled_and_share_the_probability(constrained, tasks, temperature, no_repeat):
    constrained = replace(constrained, settings=constrained.settings.model_copy(update={"no_repeat": no_repeat}))
    episodes = [Episode(group, number, task) for group, task in enumerate(tasks[:2]) for number in range(2)]
    found = play(
        constrained,
        episodes,
        lambda: corridor.make(max_steps=5),
        temperature=temperature,
        batch=3,
        seed=0,
        iteration=1,
    )
    respond = make_renderer(constrained).choices
    narrower = 0
    for trajectory in found:
        before: list[int] = []
        history: list[tuple[str, str]] = []
        for step in trajectory.steps:
            taken = repeats(history, step.observation)
            assert not no_repeat or step.action not in taken or taken >= set(step.admissible)
            narrower += no_repeat and bool(taken)
            before = [*(before if constrained.settings.resolved_layout == "append" else ()), *step.context_tokens]
            assert step.valid
            assert step.action in step.admissible
            with torch.no_grad():
                logits = constrained.model(torch.tensor([[*before, *step.response_tokens]])).logits[0]
            among = respond(step.admissible, history, step.observation)
            said: list[int] = []
            for token, logprob in zip(step.response_tokens, step.response_logprobs, strict=True):
                open_ = {item[len(said)] for item in among if list(item[: len(said)]) == said}
                here = logits[len(before) + len(said) - 1] / (temperature or 1)
                assert logprob == pytest.approx(float(here[token] - here[list(open_)].logsumexp(0)), abs=1e-4)
                if temperature == 0:
                    assert here[list(open_)].max() - here[token] < 1e-4
                said.append(token)
            before += said
            history.append((step.observation, step.action))
    assert (narrower > 0) == no_repeat
    assert {step.action for step in chain(*(item.steps for item in found))} >= {"look"} or temperature == 0


def test_actions_that_cannot_be_written_are_left_out(scratch):
    renderer = make_renderer(scratch)
    # A tab reads as a blank: what would be said is another action.
    assert renderer.choices(["look", "go to\troom 1"], [], "") == [tuple(renderer.response("look"))]
    with pytest.raises(ProgpoError, match=r"policy\.constrained: none of the 0 admissible actions .* such as 'none'"):
        renderer.choices([], [], "")
    short = replace(scratch, settings=scratch.settings.model_copy(update={"max_response_tokens": 2}))
    with pytest.raises(ProgpoError, match=r"written in 2 tokens \(policy\.max_response_tokens\)"):
        make_renderer(short).choices(["take coin 1 from room 2"], [], "")


def test_what_was_done_on_the_same_observation_is_left_out_while_there_is_something_else(scratch):
    actions = ["look", "go to room 1", "go to room 2"]
    history = [("Here.", "look"), ("There.", "go to room 1"), ("Here.", "go to room 2")]
    tokens = {action: tuple(make_renderer(scratch).response(action)) for action in actions}

    def choices(no_repeat, history, among=actions):
        changed = scratch.settings.model_copy(update={"constrained": True, "no_repeat": no_repeat})
        return make_renderer(replace(scratch, settings=changed)).choices(among, history, "Here.")

    assert choices(True, history) == [tokens["go to room 1"]]
    assert choices(False, history) == choices(True, []) == list(tokens.values())
    history.append(("Here.", "go to room 1"))
    assert choices(True, history) == list(tokens.values())
    # What cannot be written is nothing else to do.
    assert choices(True, history[:1], ["look", "go to\troom 1"]) == [tokens["look"]]


def test_another_backend_refuses(scratch, tmp_path):
    changed = replace(scratch, settings=scratch.settings.model_copy(update={"constrained": True}))
    with atomic_folder(tmp_path / "policy") as place:
        save_files(changed, place)
        write_manifest(place, "warmup", {}, list(place.iterdir()), at=tmp_path / "policy")
    with pytest.raises(ProgpoError, match=r"is constrained to the admissible actions, .* set `backend: progpo`"):
        open_backend(tmp_path / "policy", RolloutSettings(backend="vllm"), 1.0, strict=True)


def test_free_text_is_told_by_the_environment():
    assert [envs.entry(name).free_text for name in ("alfworld", "webshop", "corridor")] == [False, True, False]
