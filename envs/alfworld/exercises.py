"""Exercises in recall in ALFWorld's own sentences: what lies in a place, and which of it tasks ask for."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from envs.alfworld.beliefs import Beliefs, kind, shown
from envs.alfworld.fast.texts import things
from envs.alfworld.goals import read_goal
from envs.base import EnvironmentDataError, Exercise

#: How many things a place shows, and how many tasks follow.
LEAST_SHOWN, MOST_SHOWN = 3, 12
TASKS = 10
#: Share of the tasks that ask for a kind that is not there.
ABSENT = 0.5

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
            places.update(Beliefs.of_intro(first).receptacles)
            if told := _TASK.search(first):
                tasks.add(re.sub(rf"\b{read_goal(first).thing}\b", "{}", told[0]))
            for observation in later:
                for _, names in shown(observation):
                    seen.update(names)
        furniture = {kind(place) for place in places}
        by_kind: dict[str, list[str]] = {}
        for name in sorted(seen):
            if kind(name) not in furniture:
                by_kind.setdefault(kind(name), []).append(name)
        if len(by_kind) <= MOST_SHOWN or not tasks:
            raise EnvironmentDataError(
                f"the demonstrations show {len(by_kind)} kinds of things and {len(tasks)} tasks, and exercises in "
                f"recall need more than {MOST_SHOWN} kinds; show more games, or leave `warmup.recall` out"
            )
        self._by_kind, self._places, self._tasks = list(by_kind.items()), sorted(places), sorted(tasks)

    def __call__(self, rng: np.random.Generator) -> Exercise:
        """Draw a place, and tasks that ask for what is there as often as for what is not."""
        kinds = [self._by_kind[index] for index in rng.permutation(len(self._by_kind)).tolist()]
        count = int(rng.integers(LEAST_SHOWN, MOST_SHOWN + 1))
        listed = [_pick(rng, names) for _, names in kinds[:count]]
        place = _pick(rng, self._places)
        questions = []
        for absent in (rng.random(TASKS) < ABSENT).tolist():
            asked = int(rng.integers(count, len(kinds)) if absent else rng.integers(count))
            action = "go to" if absent else f"take {listed[asked]}"
            questions.append((_pick(rng, self._tasks).replace("{}", kinds[asked][0]), action))
        return Exercise(f"You arrive at {place}. On the {place}, you see {things(listed)}.", tuple(questions))


def _pick(rng: np.random.Generator, items: Sequence[str]) -> str:
    return items[int(rng.integers(len(items)))]
