"""The task sentence: each of the twelve forms, and others refused."""

import re
from collections import Counter
from pathlib import Path

import pytest

from envs.alfworld.goals import Goal, read_goal
from envs.base import EnvironmentDataError

SENTENCES = {
    "put a mug in desk": Goal("mug", "desk"),
    "put some peppershaker on drawer": Goal("peppershaker", "drawer"),
    "put a clean plate in countertop": Goal("plate", "countertop", change="clean"),
    "clean some soapbar and put it in toilet": Goal("soapbar", "toilet", change="clean"),
    "put a hot egg in garbagecan": Goal("egg", "garbagecan", change="heat"),
    "heat some cup and put it in cabinet": Goal("cup", "cabinet", change="heat"),
    "put a cool tomato in microwave": Goal("tomato", "microwave", change="cool"),
    "cool some lettuce and put it in diningtable": Goal("lettuce", "diningtable", change="cool"),
    "put two cd in safe": Goal("cd", "safe", count=2),
    "find two pillow and put them in sofa": Goal("pillow", "sofa", count=2),
    "look at bowl under the desklamp": Goal("bowl", lamp="desklamp"),
    "examine the alarmclock with the desklamp": Goal("alarmclock", lamp="desklamp"),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_sentences(sentence: str) -> None:
    intro = "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room.\n\n"
    assert read_goal(f"{intro}Your task is to: {sentence}.") == SENTENCES[sentence]


@pytest.mark.parametrize(
    "text", ["You are in a room.", "Your task is to: paint the wall.", "Your task is to: put it on."]
)
def test_refuses_what_it_cannot_read(text: str) -> None:
    with pytest.raises(EnvironmentDataError, match="task"):
        read_goal(text)


def test_agrees_with_the_released_games(real_games: list[Path]) -> None:
    kinds: Counter[str] = Counter()
    for path in real_games:
        sentence = re.search(r"Your task is to: [^\"]*", path.read_text())[0].rstrip("\\")
        goal = read_goal(sentence)
        task_type, thing, _, place, _ = path.parent.parent.name.split("-")
        kinds[task_type] += 1
        assert goal.thing == thing.lower()
        assert (goal.lamp or goal.place) == place.lower()
        assert (goal.count == 2) == (task_type == "pick_two_obj_and_place")
        assert (goal.change or "") in task_type
        assert bool(goal.change) == ("then_place" in task_type)
    assert len(kinds) == 6
