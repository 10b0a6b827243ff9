"""Renumbering: consistent, one to one, in order, and nothing but objects."""

import re

import numpy as np
import pytest

from envs.alfworld.augment import COMMON_COUNT, renumber

ENTITY = re.compile(r"\b([a-z]+) (\d+)\b")
TEXTS = [
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
    "a cabinet 12, a cabinet 11, a cabinet 10, a desk 1, and a fridge 1.\n\nYour task is to: put two mug in desk.",
    "go to desk 1",
    "You arrive at desk 1. On the desk 1, you see a cd 5, a cd 2, a cd 1, a mug 3, and a pen 1.",
    "take mug 3 from desk 1",
    "You pick up the mug 3 from the desk 1.",
    "inventory",
    "You are carrying: a mug 3.",
    "take mug 7 from fridge 1",
    "Nothing happens.",
    "open cabinet 12",
    "You open the cabinet 12. The cabinet 12 is open. In it, you see a mug 1.",
    "<think>Of the 2 mugs, mug 3 is at hand, after step 3; spoon 4 was not seen.</think><action>help</action>",
]


def numbers(texts: list[str], name: str) -> list[int]:
    return [int(number) for found, number in ENTITY.findall("\n".join(texts)) if found == name]


@pytest.fixture
def many() -> list[list[str]]:
    """What three hundred seeds make of the texts."""
    return [renumber(TEXTS, np.random.default_rng(seed)) for seed in range(300)]


def test_changes_nothing_but_the_numbers_of_objects(many: list[list[str]]) -> None:
    def masked(texts: list[str]) -> list[str]:
        return [re.sub(r"\b(mug|cd|pen) \d+\b", r"\1 #", text) for text in texts]

    assert all(masked(texts) == masked(TEXTS) for texts in many)
    assert any(texts != TEXTS for texts in many)


@pytest.mark.parametrize("name", ["mug", "cd", "pen"])
def test_one_mapping_for_all_texts_one_to_one_and_in_order(many: list[list[str]], name: str) -> None:
    old = numbers(TEXTS, name)
    for texts in many:
        mapping = dict(zip(old, numbers(texts, name), strict=True))
        assert [mapping[number] for number in old] == numbers(texts, name)
        new = [mapping[number] for number in sorted(mapping)]
        assert new == sorted(set(new))
        assert new[0] >= 1
        assert new[-1] <= max(COMMON_COUNT, *old)


def test_reaches_every_choice_and_the_identity(many: list[list[str]]) -> None:
    assert {numbers(texts, "pen")[0] for texts in many} == {1, 2, 3}
    assert len({tuple(numbers(texts, "cd")) for texts in many}) == 10
    assert TEXTS in [renumber(TEXTS, np.random.default_rng(seed)) for seed in range(3000)]


def test_same_seed_same_numbers() -> None:
    assert renumber(TEXTS, np.random.default_rng(7)) == renumber(TEXTS, np.random.default_rng(7))


def test_texts_without_objects_are_left_alone() -> None:
    texts = [TEXTS[0], "go to cabinet 11", "You arrive at cabinet 11. The cabinet 11 is closed.", "look 3"]
    assert renumber(texts, np.random.default_rng(0)) == texts
    assert renumber([], np.random.default_rng(0)) == []
