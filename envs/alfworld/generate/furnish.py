"""Furnish a room: draw what a game's room holds, and where."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from envs.alfworld.generate.goals import LAMP, LIGHT, Goal
from envs.alfworld.generate.rooms import Location, Receptacle, Room, identifier
from envs.alfworld.generate.shipped import constants
from envs.alfworld.generate.statistics import FLOOR, habits
from envs.alfworld.settings import Difficulty

#: Share of released games with one, two, three, four objects of the goal's type.
_GOAL_COPIES = (0.37, 0.27, 0.21, 0.15)
#: Receptacles that hold one object (more only by accident in released games).
_SINGLE = {"CoffeeMachine", "HandTowelHolder", "StoveBurner", "ToiletPaperHanger", "TowelHolder"}
#: In released games the goal's objects lie behind a door about half as often as others of their types.
_GOAL_BEHIND_DOOR = 0.5
#: How likely a bowl, cup, ... holds a fitting object that lies in the same receptacle.
_NESTED = 0.03


@dataclass(frozen=True)
class Thing:
    """An object.

    Attributes:
        id: type and coordinates.
        kind: its type.
        place: the receptacle it starts in; None: on the floor or the wall, where the text game never shows it.
        location: where an agent would stand to reach it.
        holder: the id of the bowl, cup, ... in that receptacle that holds it.
    """

    id: str
    kind: str
    place: Receptacle | None
    location: Location
    holder: str | None = None


@dataclass(frozen=True)
class Game:
    """All there is in a game at its start."""

    goal: Goal
    room: Room
    receptacles: tuple[Receptacle, ...]
    things: tuple[Thing, ...]
    start: Location


def furnish(goal: Goal, room: Room, difficulty: Difficulty, rng: np.random.Generator) -> Game:
    """Draw a game with that goal in that room."""
    receptacles = _keep(goal, room, difficulty.receptacles, rng)
    portable, fixed = _cast(goal, room, difficulty.distractors, rng)
    placing = _Placing(goal, room, receptacles, difficulty.closed, rng)
    for index, kind in enumerate(portable):
        placing.place(kind, of_goal=index < goal.needed)
    for kind in fixed:
        placing.place(kind, of_goal=goal.task_type == LIGHT and kind == LAMP)
    used = {receptacle.location[:2] for receptacle in receptacles}
    free = [point for point in room.points if point not in used]
    start = (*free[rng.integers(len(free))], int(rng.integers(4)), 0)
    return Game(goal, room, receptacles, _nest(placing.things, rng), start)


def _keep(goal: Goal, room: Room, share: float, rng: np.random.Generator) -> tuple[Receptacle, ...]:
    """Return a share of the room's receptacles, those that the goal needs among them."""
    order = [room.receptacles[index] for index in rng.permutation(len(room.receptacles))]
    needs = [goal.may_start_in]
    if goal.appliance:
        needs.append(lambda receptacle: receptacle.kind == goal.appliance)
    if goal.task_type == LIGHT:
        needs.append(lambda receptacle: receptacle.kind in habits()[LAMP].weights)
    else:
        needs.append(lambda receptacle: receptacle.kind == goal.target)
    kept = {next(filter(need, order)).id for need in needs}
    for receptacle in order:
        if len(kept) >= share * len(order):
            break
        kept.add(receptacle.id)
    return tuple(receptacle for receptacle in room.receptacles if receptacle.id in kept)


def _draw(shares: Sequence[float], rng: np.random.Generator) -> int:
    """Return an index with probability proportional to its share."""
    bounds = np.cumsum(shares)
    return min(int(np.searchsorted(bounds, rng.random() * bounds[-1], side="right")), len(shares) - 1)


def _cast(
    goal: Goal, room: Room, distractors: tuple[int, int] | None, rng: np.random.Generator
) -> tuple[list[str], list[str]]:
    """Return the types of the room's portable objects, those that the goal needs first, and of its fixed ones."""
    others, fixed = [], []
    for kind in room.objects:
        habit = habits()[kind]
        if kind == goal.thing:
            shares = _GOAL_COPIES[goal.needed - 1 :] if len(habit.copies) > 1 else (1.0,)
            others += [kind] * _draw(shares, rng)
        else:
            (others if habit.portable else fixed).extend([kind] * (1 + _draw(habit.copies, rng)))
    if distractors is not None:
        wanted = min(int(rng.integers(distractors[0], distractors[1] + 1)), len(others))
        others = [others[index] for index in sorted(rng.permutation(len(others))[:wanted])]
    return [goal.thing] * goal.needed + others, fixed


class _Placing:
    """Places objects one by one."""

    def __init__(
        self,
        goal: Goal,
        room: Room,
        receptacles: tuple[Receptacle, ...],
        closed: float | None,
        rng: np.random.Generator,
    ) -> None:
        self.goal = goal
        self.room = room
        self.receptacles = receptacles
        self.closed = closed
        self.rng = rng
        self.things: list[Thing] = []
        self._ids = {receptacle.id for receptacle in receptacles}
        self._full: set[str] = set()

    def place(self, kind: str, of_goal: bool) -> None:
        """Place one object; `of_goal`: the goal needs it, so it must be within reach."""
        place = self._choose(kind, of_goal)
        if place is None:
            x, z = self.room.points[self.rng.integers(len(self.room.points))]
            location = (x, z, int(self.rng.integers(4)), 30)
            centre = (x / 4, 0.5, z / 4)
        else:
            location, centre = place.location, place.position
            if place.kind in _SINGLE:
                self._full.add(place.id)
        self.things.append(Thing(self._name(kind, centre), kind, place, location))

    def _choose(self, kind: str, of_goal: bool) -> Receptacle | None:
        weights = habits()[kind].weights
        choice = [place for place in self.receptacles if place.kind in weights]
        behind_door = 1.0
        if kind == self.goal.thing:
            choice = [place for place in choice if self.goal.may_start_in(place)]
            if self.closed is None:
                behind_door = _GOAL_BEHIND_DOOR
            else:
                hide = self.rng.random() < self.closed
                choice = [place for place in choice if place.openable == hide] or choice
        free = [place for place in choice if place.id not in self._full]
        choice: list[Receptacle | None] = free or (choice if of_goal else [])
        shares = [weights[place.kind] * (behind_door if place.openable else 1.0) for place in choice]
        if not of_goal:
            choice.append(None)
            shares.append(weights.get(FLOOR, 0.0) if shares else 1.0)
        return choice[_draw(shares, self.rng)]

    def _name(self, kind: str, centre: tuple[float, float, float]) -> str:
        """Return an id that no other object has, with coordinates near a centre."""
        while True:
            x, z = self.rng.uniform(-0.35, 0.35, size=2)
            name = identifier(kind, (centre[0] + x, centre[1] + 0.05, centre[2] + z))
            if name not in self._ids:
                self._ids.add(name)
                return name


def _nest(things: list[Thing], rng: np.random.Generator) -> tuple[Thing, ...]:
    """Let some objects lie in a bowl, cup, ... of the receptacle that they are in."""
    tables = constants()
    nested = []
    for thing in things:
        holders = [
            other.id
            for other in things
            if thing.place is not None
            and other.place is thing.place
            and other is not thing
            and other.kind in tables.MOVABLE_RECEPTACLES_SET
            and thing.kind in tables.VAL_RECEPTACLE_OBJECTS.get(other.kind, ())
        ]
        holder = holders[rng.integers(len(holders))] if holders and rng.random() < _NESTED else None
        nested.append(Thing(thing.id, thing.kind, thing.place, thing.location, holder))
    return tuple(nested)
