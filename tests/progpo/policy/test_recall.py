"""Exercises in associative recall."""

from itertools import islice

import numpy as np
import pytest
from pydantic import ValidationError

from progpo.errors import ProgpoError
from progpo.policy.lessons import batches
from progpo.policy.recall import MOST_LISTED, QUESTIONS, Exercises
from progpo.policy.tokenizer import ACTION, END, SPACE
from progpo.settings.experiment import WarmupStage
from progpo.settings.stages import WarmupSettings

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
    return list(islice(Exercises(VOCABULARY, seed).stream(start), count))


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
    following, batch = next(batches(Exercises(VOCABULARY, 0).stream(), 200))
    assert following == len(batch)


def test_a_vocabulary_of_few_things_is_refused() -> None:
    few = {token: number for token, number in VOCABULARY.items() if "thinga" in token or SPACE not in token}
    with pytest.raises(ProgpoError, match=r"warmup\.recall: the vocabulary holds 1 kinds"):
        Exercises(few, 0)


@pytest.mark.parametrize("other", [{"strategy": "fsdp"}, {"lora": {}}])
def test_recall_is_for_a_policy_from_scratch(other: dict) -> None:
    with pytest.raises(ValidationError, match="recall: for a policy from scratch"):
        WarmupSettings.model_validate({"recall": {}, **other})
    with pytest.raises(ValidationError, match=r"warmup\.recall: for `init: scratch`"):
        WarmupStage.model_validate({"policy": {"init": "pretrained", "path": "x"}, "warmup": {"recall": {}}})
