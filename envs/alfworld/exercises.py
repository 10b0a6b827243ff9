"""Exercises in recall in ALFWorld's own sentences: what lies in a place, and which of it tasks ask for."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from envs.alfworld.beliefs import kind
from envs.alfworld.goals import read_goal
from envs.base import EnvironmentDataError, Exercise

#: How many things a place shows, and how many tasks follow.
LEAST_SHOWN, MOST_SHOWN = 3, 12
TASKS = 10
#: Share of the tasks that ask for a kind that is not there.
ABSENT = 0.5

_INTRO = re.compile(r"Looking quickly around you, you see ([^.]*)\.")
_SEEN = re.compile(r"(?:On the [a-z]+ \d+|is open\. In it), you see ([^.]*)\.")
_NAMES = re.compile(r"[a-z]+ \d+")
_TASK = re.compile(r"\s*Your task is to: .*")


class Glances:
    """Places at random, of what demonstrations showed.

    Each thing listed is of another kind, drawn with its number from those seen, so that nothing but the list tells
    the answer; the tasks are those that were set, of any kind of thing.

    Args:
        episodes: the observations of each demonstration, the first of which tells the task.

    Raises:
        EnvironmentDataError: too few kinds of things in them.
    """

    def __init__(self, episodes: Iterable[Sequence[str]]) -> None:
        seen: set[str] = set()
        places: set[str] = set()
        tasks: set[str] = set()
        for first, *later in episodes:
            places.update(_NAMES.findall(_INTRO.search(first)[1]) if _INTRO.search(first) else ())
            told = _TASK.search(first)
            if told:
                tasks.add(re.sub(rf"\b{read_goal(first).thing}\b", "{}", told[0]))
            for observation in later:
                for listed in _SEEN.findall(observation):
                    seen.update(_NAMES.findall(listed))
        furniture = {kind(place) for place in places}
        things: dict[str, list[str]] = {}
        for name in sorted(seen):
            if kind(name) not in furniture:
                things.setdefault(kind(name), []).append(name)
        if len(things) <= MOST_SHOWN or not tasks:
            raise EnvironmentDataError(
                f"the demonstrations show {len(things)} kinds of things and {len(tasks)} tasks, and exercises in "
                f"recall need more than {MOST_SHOWN} kinds; show more games, or leave `warmup.recall` out"
            )
        self._things, self._places, self._tasks = things, sorted(places), sorted(tasks)

    def __call__(self, rng: np.random.Generator) -> Exercise:
        """Draw a place, and tasks that ask for what is there as often as for what is not."""
        kinds = [list(self._things)[index] for index in rng.permutation(len(self._things)).tolist()]
        count = int(rng.integers(LEAST_SHOWN, MOST_SHOWN + 1))
        shown = [_pick(rng, self._things[name]) for name in kinds[:count]]
        place = _pick(rng, self._places)
        listing = f"{', '.join(f'a {name}' for name in shown[:-1])}, and a {shown[-1]}"
        questions = []
        for absent in (rng.random(TASKS) < ABSENT).tolist():
            asked = int(rng.integers(count, len(kinds)) if absent else rng.integers(count))
            action = "go to" if absent else f"take {shown[asked]}"
            questions.append((_pick(rng, self._tasks).replace("{}", kinds[asked]), action))
        return Exercise(f"You arrive at {place}. On the {place}, you see {listing}.", tuple(questions))


def _pick(rng: np.random.Generator, items: Sequence[str]) -> str:
    return items[int(rng.integers(len(items)))]
