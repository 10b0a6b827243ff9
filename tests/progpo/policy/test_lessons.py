"""Lessons: what of a demonstration is to be learned, and in which order."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest

from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy, load_pretrained
from progpo.policy.lessons import Lesson, Lessons, batches
from progpo.policy.rendering import Renderer, make_renderer
from progpo.settings.stages import PolicySettings
from progpo.trajectories.records import Step, Trajectory


def demonstration(number: int, actions: Sequence[str] = ("go to room 2", "look", "go to room 3")) -> Trajectory:
    """A walk of some steps, the second of which is noise."""
    steps = []
    for place, action in enumerate(actions):
        seen = "You are in a corridor." if place == 0 else f"You are in room {place + 1}. In it, you see nothing."
        steps.append(Step(seen, "", action, True, 0.0, False, False, admissible=["look"], imitate=place != 1))
    return Trajectory(number, 0, f"task-{number}", "fetch", steps=steps)


def shout(texts: list[str], rng: np.random.Generator) -> list[str]:
    """Another number for room 2."""
    new = int(rng.integers(4, 6))
    return [text.replace("room 2", f"room {new}") for text in texts]


def make(renderer: Renderer, count: int = 3, observations: bool = True, **options: object) -> Lessons:
    return Lessons([demonstration(number) for number in range(count)], renderer, observations=observations, **options)


def predicted(lesson: Lesson) -> list[int]:
    return lesson.tokens[lesson.positions].tolist()


def test_append_lesson_is_what_the_sampler_would_see(scratch: Policy) -> None:
    renderer = make_renderer(scratch)
    lessons = make(renderer, count=1, augment=None, seed=0)
    _, lesson = next(lessons.stream())
    steps = demonstration(0).steps
    expected = renderer.start(steps[0].observation, [])
    responses = []
    for number, step in enumerate(steps):
        if number:
            expected += renderer.turn(step.observation, [], ended=True)
        responses.append(renderer.response(step.action))
        expected += responses[-1]
    assert lesson.tokens.tolist() == expected
    # All is predicted but the first token and the noise.
    assert len(lesson.positions) == len(expected) - 1 - len(responses[1])
    assert lesson.tokens[lesson.positions[lesson.actions]].tolist() == responses[0] + responses[2]


def test_without_observation_loss_only_actions_are_predicted(scratch: Policy) -> None:
    renderer = make_renderer(scratch)
    _, lesson = next(make(renderer, count=1, observations=False, augment=None, seed=0).stream())
    assert lesson.actions.all()
    assert predicted(lesson) == renderer.response("go to room 2") + renderer.response("go to room 3")


def test_window_lesson_is_one_step(pretrained: object) -> None:
    policy = load_pretrained(PolicySettings(init="pretrained", path=str(pretrained)))
    renderer = make_renderer(policy)
    lessons = make(renderer, count=2, augment=None, seed=0)
    assert lessons.count == 4
    found = [lesson for _, lesson in islice(lessons.stream(), 4)]
    actions = [predicted(lesson) for lesson in found]
    assert sorted(actions) == sorted(2 * [renderer.response("go to room 2"), renderer.response("go to room 3")])
    steps = demonstration(0).steps
    history = [(step.observation, step.action) for step in steps[:2]]
    prompt, _ = renderer.window(history, steps[2].observation, ["look"])
    assert [*prompt, *renderer.response("go to room 3")] in [lesson.tokens.tolist() for lesson in found]


def test_each_pass_has_its_order_and_its_names_and_can_be_entered_anywhere(scratch: Policy) -> None:
    renderer = make_renderer(scratch)
    lessons = make(renderer, count=8, augment=shout, seed=0)
    found = list(islice(lessons.stream(), 40))
    assert [number for number, _ in found] == list(range(40))
    first = {tuple(lesson.tokens.tolist()) for _, lesson in found[:8]}
    assert len(first) == 1
    later = {tuple(lesson.tokens.tolist()) for _, lesson in found[8:]}
    assert len(later) == 2
    assert not first & later
    for start in (5, 8, 19):
        again = list(islice(lessons.stream(start), 40 - start))
        assert [number for number, _ in again] == list(range(start, 40))
        for (_, one), (_, other) in zip(found[start:], again, strict=True):
            assert np.array_equal(one.tokens, other.tokens)


def test_order_changes_from_pass_to_pass(scratch: Policy) -> None:
    told = [demonstration(number, [f"go to room {number + 1}"] * 3) for number in range(5)]
    lessons = Lessons(told, make_renderer(scratch), None, True, seed=0)
    found = [tuple(lesson.tokens.tolist()) for _, lesson in islice(lessons.stream(), 15)]
    passes = [found[start : start + 5] for start in (0, 5, 10)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
    assert passes[0] != passes[1] or passes[1] != passes[2]


def test_long_demonstration_is_cut_where_the_sampler_would_stop(scratch: Policy) -> None:
    short = Policy(scratch.model, scratch.tokenizer, scratch.settings.model_copy(update={"max_context_tokens": 64}))
    renderer = make_renderer(short)
    told = [demonstration(0, ["look"] * 30)]
    _, lesson = next(Lessons(told, renderer, None, True, seed=0).stream())
    assert renderer.context_limit - 20 < len(lesson.tokens) <= 64


def test_demonstrations_without_anything_to_imitate_are_refused(scratch: Policy) -> None:
    told = [demonstration(0)]
    for step in told[0].steps:
        step.imitate = False
    with pytest.raises(ProgpoError, match="no step to imitate"):
        Lessons(told, make_renderer(scratch), None, True, seed=0)


def test_batches_keep_to_their_budget_and_tell_where_to_go_on(scratch: Policy) -> None:
    lessons = make(make_renderer(scratch), count=3, augment=None, seed=0)
    size = len(next(lessons.stream())[1].tokens)
    found = list(islice(batches(lessons.stream(), 2 * size + 1), 3))
    assert [following for following, _ in found] == [2, 4, 6]
    assert [len(batch) for _, batch in found] == [2, 2, 2]
    assert [len(batch) for _, batch in islice(batches(lessons.stream(), 1), 2)] == [1, 1]
