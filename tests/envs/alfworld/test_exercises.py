"""Exercises in recall in the environment's own sentences."""

import re

import numpy as np
import pytest

from envs import EnvironmentDataError, entry
from envs.alfworld.exercises import ABSENT, LEAST_SHOWN, MOST_SHOWN, TASKS, Glances
from envs.alfworld.goals import read_goal

KINDS = ["apple", "book", "bowl", "cd", "cup", "egg", "fork", "knife", "mug", "pan", "pen", "pot", "saucepan", "spoon"]
FIRST = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
    "a cabinet 2, a cabinet 1, and a desklamp 1.\n\nYour task is to: {}"
)
TASKS_SET = ["put a clean pan in cabinet.", "find two egg and put them in cabinet.", "look at pan under the desklamp."]


def episodes(kinds: list[str] = KINDS) -> list[list[str]]:
    half = len(kinds) // 2
    listed = [
        ", ".join(f"a {kind} {number}" for kind in part) for number, part in ((1, kinds[:half]), (2, kinds[half:]))
    ]
    shut = "You open the cabinet 2. The cabinet 2 is open. In it, you see"
    shown = [
        [f"You arrive at cabinet 1. On the cabinet 1, you see {listed[0]}.", f"{shut} {listed[1]}."],
        ["You arrive at desklamp 1. On the desklamp 1, you see a desklamp 1.", f"{shut} nothing."],
        ["Nothing happens."],
    ]
    return [[FIRST.format(task), *later] for task, later in zip(TASKS_SET, shown, strict=True)]


def test_each_task_asks_for_what_is_there_or_for_what_is_not() -> None:
    draw = Glances(iter(episodes()))
    assert entry("alfworld").load("exercises") is Glances
    lengths, absent, places, tasks, kinds = set(), 0, set(), set(), set()
    for seed in range(300):
        exercise = draw(np.random.default_rng(seed))
        place, listed = re.fullmatch(
            r"You arrive at (\w+ \d)\. On the \1, you see (a .*, and a \w+ \d)\.", exercise.observation
        ).groups()
        things = re.findall(r"\w+ \d", listed)
        by_kind = {thing[:-2]: thing for thing in things}
        assert len(by_kind) == len(things)
        assert by_kind.keys() <= set(KINDS)
        assert all(thing.endswith("1" if KINDS.index(kind) < 7 else "2") for kind, thing in by_kind.items())
        lengths.add(len(things))
        places.add(place)
        assert len(exercise.questions) == TASKS
        for told, beginning in exercise.questions:
            asked = read_goal(told).thing
            assert told.startswith("\n\nYour task is to: ")
            assert beginning == (f"take {by_kind[asked]}" if asked in by_kind else "go to")
            absent += beginning == "go to"
            tasks.add(told.strip().replace(asked, "pan").removeprefix("Your task is to: "))
            kinds.add(asked)
    assert lengths == set(range(LEAST_SHOWN, MOST_SHOWN + 1))
    assert absent / (300 * TASKS) == pytest.approx(ABSENT, abs=0.03)
    assert places == {"cabinet 1", "cabinet 2", "desklamp 1"}
    assert tasks == {task.replace("egg", "pan") for task in TASKS_SET}
    assert kinds == set(KINDS)


def test_the_same_numbers_draw_the_same() -> None:
    one, other = (Glances(episodes())(np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert one != Glances(episodes())(np.random.default_rng(4))


def test_too_few_kinds_are_refused() -> None:
    with pytest.raises(EnvironmentDataError, match=r"show 12 kinds of things and 3 tasks.* leave `warmup\.recall` out"):
        Glances(episodes(KINDS[:MOST_SHOWN]))
    with pytest.raises(EnvironmentDataError, match="show 0 kinds of things and 0 tasks"):
        Glances([["You are nowhere."]])
