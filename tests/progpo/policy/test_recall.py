"""Exercises in associative recall."""

from itertools import islice

import numpy as np
import pytest
from pydantic import ValidationError

from envs import Exercise
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import create_scratch
from progpo.policy.lessons import batches
from progpo.policy.recall import BLOCK, MOST_LISTED, QUESTIONS, Bare, Told
from progpo.policy.rendering import make_renderer
from progpo.policy.tokenizer import ACTION, END, SPACE
from progpo.settings.experiment import WarmupStage
from progpo.settings.stages import PolicySettings, WarmupSettings

NAMES = [f"{SPACE}thing{letter}" for letter in "abcdefghijklmnopqrst"]
VOCABULARY = {
    token: number
    for number, token in enumerate(
        [ACTION, END, f"{SPACE}word", f"{SPACE}nameless{SPACE}1", *NAMES]
        + [f"{name}{SPACE}{count}" for name in NAMES for count in range(1, 4)]
    )
}
TOKENS = list(VOCABULARY)


def take(count: int, seed: int = 0, start: int = 0) -> list:
    return list(islice(Bare(VOCABULARY, seed).stream(start), count))


def test_answers_are_what_the_list_tells() -> None:
    found, absent, lengths = 0, 0, set()
    for number, (told, lesson) in enumerate(take(300)):
        assert told == number
        words = [TOKENS[token] for token in lesson.tokens]
        listed, questions = words[: -3 * QUESTIONS], words[-3 * QUESTIONS :]
        by_kind = {thing.rsplit(SPACE, 1)[0]: thing for thing in listed}
        assert len(by_kind) == len(listed)
        lengths.add(len(listed))
        assert lesson.actions.all()
        assert lesson.positions.tolist() == [len(listed) + 3 * place + 2 for place in range(QUESTIONS)]
        for name, ask, answer in zip(*(questions[part::3] for part in range(3)), strict=True):
            assert ask == ACTION
            assert answer == by_kind.get(name, END)
            assert name in NAMES
            found += answer != END
            absent += answer == END
    assert lengths == set(range(3, MOST_LISTED + 1))
    assert found / (found + absent) == pytest.approx(0.5, abs=0.03)


def test_the_stream_can_be_taken_up_anywhere() -> None:
    whole = take(200)
    for start in (1, 64, 130):
        for (number, one), (again, other) in zip(whole[start:], take(200 - start, start=start), strict=True):
            assert number == again
            assert np.array_equal(one.tokens, other.tokens)
    assert not np.array_equal(whole[0][1].tokens, take(1, seed=1)[0][1].tokens)
    following, batch = next(batches(Bare(VOCABULARY, 0).stream(), 200))
    assert following == len(batch)


def test_a_vocabulary_of_few_things_is_refused() -> None:
    few = {token: number for token, number in VOCABULARY.items() if "thinga" in token or SPACE not in token}
    with pytest.raises(ProgpoError, match=r"warmup\.recall: the vocabulary holds 1 kinds"):
        Bare(few, 0)


def test_what_is_told_reads_as_in_an_episode() -> None:
    first = "You see a desk 1 and a cabinet 2.\n\nYour task is to: put a mug in desk."
    seen = "You arrive at desk 1. On the desk 1, you see a mug 2, and a pen 1."
    moved = "You pick up the mug 2 from the desk 1."
    actions = ["go to desk 1", "take mug 2 from desk 1", "go to cabinet 2"]
    settings = PolicySettings(hidden_size=32, layers=1, heads=2, intermediate_size=32, restate="Your task is to:")
    renderer = make_renderer(create_scratch(settings, [first, seen, moved, *actions] * 3, seed=0))
    task = first[first.index("\n\nYour") :]
    exercise = Exercise(seen, ((task, "take mug 2"), (task.replace("mug", "pen"), "go to")))
    drawn: list[float] = []

    def draw(rng: np.random.Generator) -> Exercise:
        drawn.append(rng.random())
        return exercise

    told = Told(draw, renderer, 5).stream(BLOCK - 1)
    number, lesson = next(told)
    assert number == BLOCK - 1

    context = renderer.turn(renderer.restated(seen, first), (), ended=True)
    acting = renderer.response("take mug 2 from desk 1")
    leaving = renderer.response("go to cabinet 2")
    again = renderer.turn(task.replace("mug", "pen"), (), ended=False)
    tokens = lesson.tokens.tolist()
    assert tokens[: len(context)] == context
    answers = [tokens[place] for place in lesson.positions]
    taken, going = (list(renderer.encode(text)) for text in ("take mug 2", "go to"))
    assert answers == taken + going
    assert acting[: len(taken)] == taken
    assert leaving[: len(going)] == going
    assert renderer.parse([*taken, renderer.end_id]) == ("take mug 2", True)
    assert tokens == [*context, *taken, *again, *going]
    assert lesson.positions[0] == len(context)
    assert lesson.actions.all()

    before = list(drawn)
    assert next(told)[0] == BLOCK
    following = drawn[len(before) :]
    assert not set(following) & set(before)
    drawn.clear()
    next(Told(draw, renderer, 5).stream(BLOCK))
    assert drawn == following


@pytest.mark.parametrize("other", [{"strategy": "fsdp"}, {"lora": {}}])
def test_recall_is_for_a_policy_from_scratch(other: dict) -> None:
    with pytest.raises(ValidationError, match="recall: for a policy from scratch"):
        WarmupSettings.model_validate({"recall": {}, **other})
    with pytest.raises(ValidationError, match=r"warmup\.recall: for `init: scratch`"):
        WarmupStage.model_validate({"policy": {"init": "pretrained", "path": "x"}, "warmup": {"recall": {}}})
