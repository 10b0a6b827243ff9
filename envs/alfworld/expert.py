"""An expert that searches: it plays by the texts alone, as a policy has to, and by common sense.

It goes to the receptacle where what it needs is most likely to be for the steps it costs to look, until it has seen
one; takes it, cleans, heats or cools it if asked to, and brings it where it belongs (or switches the lamp on). What
it sees on the way it remembers. It never looks at the admissible commands nor at anything else in `info` but the
last executed action, so that a policy that reads the same texts can learn each of its choices.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from envs.alfworld.beliefs import REFUSAL, Beliefs, kind
from envs.alfworld.goals import Goal, read_goal
from envs.alfworld.likely_places import DOORS, likelihood
from envs.base import Search

#: Which kind of receptacle makes which change.
APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}

#: n receptacles of a kind divide its likelihood by n ** SHARING: more of them hold more, but each holds less.
SHARING = 0.8

#: With "varied", each receptacle's likelihood is multiplied by exp(VARIETY * a normal number), drawn for the episode.
VARIETY = 0.7


class SearchingExpert:
    """Plays all six task families from observations.

    Args:
        rng: of the order of search; drawn from if it is varied.
        search: "plain": kind by kind, each as it is listed, in an order that depends on nothing but the task; where
            it is, it looks. So where to look next follows from the task, from the kinds that there are and from where
            it looked last.
    """

    def __init__(self, rng: np.random.Generator, search: Search = "best") -> None:
        self._rng = rng
        self._search = search
        self._goal: Goal
        self._room: Beliefs

    def reset(self, observation: str, info: Mapping[str, Any]) -> None:
        """Start an episode from the first observation: the receptacles and the task.

        Raises:
            EnvironmentDataError: the text holds no task, or one of no known family.
        """
        self._goal = read_goal(observation)
        self._room = Beliefs.of_intro(observation)
        self._last: str | None = None
        self._failed: set[str] = set()
        kinds = [kind(name) for name in self._room.receptacles]
        sharing = 0 if self._search == "plain" else SHARING
        self._share = {name: kinds.count(name) ** sharing for name in kinds}
        noise = self._rng.normal(size=len(kinds)) if self._search == "varied" else np.zeros(len(kinds))
        # Not numpy's exponential, whose last bit is another where the processor has wider instructions.
        tastes = [math.exp(VARIETY * amount) for amount in noise.tolist()]
        self._taste = dict(zip(self._room.receptacles, tastes, strict=True))

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the next action, given what came of `info["last_action"]` (of its own last one, where absent)."""
        executed = info.get("last_action", self._last)
        if executed is not None:
            self._room.observe(executed, observation)
            if executed == self._last and observation.strip() == REFUSAL:
                self._refused(executed)
        self._last = next(command for command in self._options() if command not in self._failed)
        return self._last

    def _refused(self, command: str) -> None:
        """Learn from a refusal of what was thought possible: do not insist."""
        verb, _, target = command.partition(" ")
        if verb == "go" and self._room.here(target.removeprefix("to ")):
            return  # one is there already, as is known by now
        self._failed.add(command)
        if verb == "examine" and target in self._room.spot:
            self._room.set_apart(target)

    def _options(self) -> Iterator[str]:
        """Yield commands by preference; the first one that has not failed is taken."""
        room, goal = self._room, self._goal
        if room.held is None:
            for thing, place in self._to_fetch():
                yield from self._reach(place)
                yield f"take {thing} from {place}"
        elif kind(room.held) != goal.thing:
            yield from self._put_away(room.held)
        elif goal.lamp:
            for lamp, place in self._known(goal.lamp):
                yield from ([f"use {lamp}"] if room.here(place) else [f"go to {place}"])
        elif goal.change and (goal.change, room.held) not in room.changed:
            for appliance in self._nearest(APPLIANCES[goal.change]):
                yield f"{goal.change} {room.held} with {appliance}" if room.here(appliance) else f"go to {appliance}"
        else:
            for place in self._nearest(goal.place):
                yield from self._reach(place)
                yield f"move {room.held} to {place}"
        yield from self._look_around()
        # All was seen and nothing came of it: things must lie otherwise than remembered.
        room.contents.clear()
        self._failed.clear()
        yield from self._look_around()
        yield "look"

    def _reach(self, place: str) -> Iterator[str]:
        """Yield what makes the inside of a receptacle accessible, if it is not."""
        if not self._room.here(place):
            yield f"go to {place}"
        elif self._room.shut(place):
            yield f"open {place}"

    def _known(self, wanted: str) -> list[tuple[str, str]]:
        """Return the things of a kind that were seen, as pairs (thing, receptacle), those within reach first."""
        room = self._room
        seen = [(thing, place) for place, things in room.contents.items() for thing in things if kind(thing) == wanted]
        return sorted(seen, key=lambda pair: not room.here(pair[1]))

    def _to_fetch(self) -> list[tuple[str, str]]:
        """Return the wanted things that were seen and are not yet where they belong, as pairs (thing, receptacle)."""
        room, goal = self._room, self._goal
        seen = self._known(goal.thing)
        if goal.count > 1:
            homes = self._nearest(goal.place)
            there = room.contents.get(homes[0], ()) if homes else ()
            seen = [(thing, place) for thing, place in seen if thing not in there]
        if goal.change:
            seen.sort(key=lambda pair: (goal.change, pair[0]) not in room.changed)
        return seen

    def _nearest(self, wanted: str) -> list[str]:
        """Return the receptacles of a kind: those that hold some of the wanted two, then the least trouble, first."""
        room, goal = self._room, self._goal

        def trouble(place: str) -> tuple[float, ...]:
            there = sum(kind(thing) == goal.thing for thing in room.contents.get(place, ())) if goal.count > 1 else 0
            return -there, not room.here(place), room.shut(place), -self._taste[place]

        return sorted((name for name in room.receptacles if kind(name) == wanted), key=trouble)

    def _put_away(self, thing: str) -> Iterator[str]:
        """Yield ways to be rid of a thing in hand: back where it was, else wherever it may lie."""
        room = self._room
        places = sorted(
            room.receptacles,
            key=lambda place: (
                place != room.origin,
                not room.here(place),
                -likelihood(kind(thing), kind(place)),
            ),
        )
        for place in places:
            move = f"move {thing} to {place}"
            if move not in self._failed:
                yield from self._reach(place)
                yield move

    def _wanted(self) -> list[str]:
        """Return the kinds of things still to be found."""
        room, goal = self._room, self._goal
        wanted = [] if (room.held and kind(room.held) == goal.thing) or self._to_fetch() else [goal.thing]
        if goal.lamp and not self._known(goal.lamp):
            wanted.append(goal.lamp)
        return wanted or [goal.thing]

    def _look_around(self) -> Iterator[str]:
        """Yield steps to look into receptacles not yet seen, the best chance for the steps that it costs first."""
        room, goal = self._room, self._goal
        wanted = self._wanted()

        def steps_to_look(place: str) -> float:
            if self._search == "plain":
                # So little that where it is comes before all else.
                return 0.01 if room.here(place) else 1 + (kind(place) in DOORS)
            return 1 if room.here(place) or not room.shut(place) else 2

        def promise(place: str) -> float:
            chance = sum(likelihood(thing, kind(place)) for thing in wanted) / self._share[kind(place)]
            if kind(place) == goal.place and not goal.change:
                # Had it lain there, the task would have been done from the start.
                chance /= 10
            return chance * self._taste[place] / steps_to_look(place)

        unseen = [place for place in room.receptacles if place not in room.contents]
        for place in sorted(unseen, key=promise, reverse=True):
            if not room.here(place):
                yield f"go to {place}"
            elif room.shut(place):
                yield f"open {place}"
            yield f"examine {place}"
