"""Which goals there are, and which of them game i of a split gets."""

from dataclasses import dataclass
from functools import cache

from envs.alfworld.generate.rooms import Receptacle, Room, room, rooms_of
from envs.alfworld.generate.shipped import constants
from envs.alfworld.generate.statistics import FLOOR, habits
from envs.alfworld.generate.streams import stream
from envs.alfworld.settings import Difficulty
from envs.base import EnvironmentDataError

LIGHT = "look_at_obj_in_light"
TWO = "pick_two_obj_and_place"
LAMP = "DeskLamp"

#: What a task type does to the object, and with which receptacle: (table of objects, receptacle, verb).
APPLIANCES = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin", "clean"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave", "heat"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge", "cool"),
}

#: Receptacles that no released game names as destination.
_NEVER = {"BathtubBasin", "HandTowelHolder", "LaundryHamper", "SinkBasin", "TVStand", "Toaster", "TowelHolder"}
#: The same for some task types. What was heated does not go back into the microwave, two things do not go where one
#: fits, and a mug goes into the coffee machine only after something was done to it.
_NEVER_FOR = {
    "pick_and_place_simple": {"CoffeeMachine"},
    TWO: {"CoffeeMachine", "StoveBurner", "ToiletPaperHanger"},
    "pick_heat_then_place_in_recep": {"Microwave"},
    "pick_cool_then_place_in_recep": {"Fridge"},
}


@dataclass(frozen=True)
class Goal:
    """What a game asks for.

    Attributes:
        task_type: one of the six.
        thing: the type of the object.
        target: the type of the receptacle it goes to; for the light tasks the type of the lamp.
    """

    task_type: str
    thing: str
    target: str

    @property
    def needed(self) -> int:
        """How many objects of the type the goal needs."""
        return 2 if self.task_type == TWO else 1

    @property
    def appliance(self) -> str | None:
        """The receptacle type that does the cleaning, heating or cooling."""
        return APPLIANCES[self.task_type][1] if self.task_type in APPLIANCES else None

    def may_start_in(self, receptacle: Receptacle) -> bool:
        """Whether a released game of this type has the goal's object there at the start.

        Objects that need nothing but to be placed do not start at their destination, nor those to be cooled in the
        fridge (there they would be cool from the start).
        """
        if receptacle.kind not in habits()[self.thing].weights:
            return False
        if self.task_type == "pick_cool_then_place_in_recep":
            return receptacle.kind != "Fridge"
        return self.task_type in APPLIANCES or receptacle.kind != self.target


def contains(receptacle: str, thing: str) -> bool:
    """Whether alfworld's tables let objects of a type be put into receptacles of a type."""
    return thing in constants().VAL_RECEPTACLE_OBJECTS.get(receptacle, ())


def _fits(goal: Goal, where: Room) -> bool:
    """Whether a room has all that a goal needs."""
    kinds = {receptacle.kind for receptacle in where.receptacles}
    habit = habits()[goal.thing]
    return (
        (goal.appliance is None or goal.appliance in kinds)
        and (len(habit.copies) >= goal.needed)
        and any(map(goal.may_start_in, where.receptacles))
    )


def _goals_of(task_type: str, where: Room) -> list[Goal]:
    """Return all goals of a task type that a room allows."""
    things = [name for name in where.objects if habits()[name].portable and habits()[name].weights.keys() - {FLOOR}]
    if task_type in APPLIANCES:
        things = [name for name in things if name in constants().VAL_ACTION_OBJECTS[APPLIANCES[task_type][0]]]
    kinds = sorted({receptacle.kind for receptacle in where.receptacles})
    if task_type == LIGHT:
        lit = LAMP in where.objects and habits()[LAMP].weights.keys() & set(kinds)
        goals = [Goal(task_type, thing, LAMP) for thing in things] if lit else []
    else:
        never = _NEVER | _NEVER_FOR.get(task_type, set())
        goals = [
            Goal(task_type, thing, kind)
            for kind in kinds
            if kind not in never
            for thing in things
            if contains(kind, thing)
        ]
    return [goal for goal in goals if _fits(goal, where)]


@cache
def _catalogue(task_type: str, split: str, size: str) -> dict[str, dict[str, list[int]]]:
    """Return the rooms by target and object type."""
    table: dict[str, dict[str, list[int]]] = {}
    for number in rooms_of(split, size):
        for goal in _goals_of(task_type, room(number)):
            table.setdefault(goal.target, {}).setdefault(goal.thing, []).append(number)
    return {target: {thing: table[target][thing] for thing in sorted(table[target])} for target in sorted(table)}


def _turn(count: int, position: int, purpose: str, *key: int | str) -> tuple[int, int]:
    """Walk through `count` things in random order, anew each round; return what comes at a position, and the round."""
    round_, place = divmod(position, count)
    return int(stream(purpose, *key, round_).permutation(count)[place]), round_


def choose(seed: int, split: str, index: int, types: tuple[str, ...], difficulty: Difficulty) -> tuple[Goal, Room]:
    """Return the goal and the room of a game.

    Task types take turns; within one its targets do, and within a target its objects, each round in a fresh order:
    any number of games is spread evenly. Nothing depends on how many games are made.

    Raises:
        EnvironmentDataError: no room of the split allows that task type.
    """
    which, turn = _turn(len(types), index, "types", seed, split)
    task_type = types[which]
    table = _catalogue(task_type, split, difficulty.rooms)
    if not table:
        raise EnvironmentDataError(
            f"no room of {split} allows {task_type} with `difficulty.rooms: {difficulty.rooms}`; choose other rooms"
        )
    targets = list(table)
    which, turn = _turn(len(targets), turn, "targets", seed, split, task_type)
    target = targets[which]
    things = list(table[target])
    which, _ = _turn(len(things), turn, "things", seed, split, task_type, target)
    thing = things[which]
    choice = table[target][thing]
    number = choice[int(stream("rooms", seed, split, index).integers(len(choice)))]
    return Goal(task_type, thing, target), room(number)
