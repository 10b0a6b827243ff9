"""A game compiled for play: immutable, small, shared by all episodes of a process."""

import os
from functools import lru_cache
from pathlib import Path

from envs.alfworld.fast.goal import parse_goal
from envs.alfworld.fast.names import display_names
from envs.alfworld.fast.problem import Problem, ProblemError, parse_problem
from envs.alfworld.fast.rules import UnsupportedGameError, check_domain, task_sentence
from envs.alfworld.fast.texts import listing
from envs.alfworld.game_file import broken, read_game

#: More than all games there are; a compiled game takes about 10 KB.
_KEPT = 16384


class Game:
    """What never changes in a game, and the state it starts in.

    Objects, receptacles and places are numbered from 0 in the order of their PDDL ids, which is the order of every
    list that the engine prints. A set of objects or of receptacles is an int with a bit for each number.

    Attributes:
        objects, receptacles: display names.
        places: names of the locations, for the state key alone.
        object_number, receptacle_number: the number by display name.
        here: for each place the receptacles there, in order.
        place_of: the place of each receptacle; -1 for one that is nowhere.
        openable: set of receptacles.
        sinks, microwaves, fridges: sets of receptacles, by type.
        pickupable, cleanable, heatable, coolable, toggleable, sliceable, knives: sets of objects.
        accepts: for each receptacle the set of objects that may be put there.
        inner: for each object that is a receptacle itself, what lies in it, in order.
        contents: for each receptacle the objects in it at the start, in order.
        lying: for each place the set of objects there at the start (`objectAtLocation`).
        opened: set of receptacles open at the start.
        clean, hot, cool, sliced, toggled: sets of objects at the start.
        start: the place where the player starts.
        intro: the text of the reset.
        task_type: as the goal tells it.
        two, light: whether the goal is to place two things, or to look at one under a lamp.
        things, lamps: sets of objects that the goal is about.
        targets: the receptacles that things are to be put in.
        changed: which of "clean", "hot", "cool" a thing must be besides, or None.
    """

    __slots__ = (
        "accepts", "changed", "clean", "cleanable", "contents", "cool", "coolable", "fridges", "heatable", "here",
        "hot", "inner", "intro", "knives", "lamps", "light", "lying", "microwaves", "object_number", "objects",
        "openable", "opened", "pickupable", "place_of", "places", "receptacle_number", "receptacles", "sinks",
        "sliceable", "sliced", "start", "targets", "task_type", "things", "toggleable", "toggled", "two", "ways",
    )  # fmt: skip

    def __init__(self, domain: str, grammar: str, problem: str) -> None:
        """Compile a game from the texts of its file.

        Raises:
            UnsupportedGameError: its rules or its goal are not ALFWorld's.
            ProblemError: the problem is no valid PDDL.
        """
        check_domain(domain)
        task = task_sentence(grammar)
        parsed = parse_problem(problem)
        self._number(parsed)
        self._compile(parsed)
        self._set_goal(parsed)
        place = self.here[self.start]
        if place:
            names = listing([self.receptacles[receptacle] for receptacle in place])
            seen = f"You are facing the {names}. Next to it, you see nothing."
        else:
            located = [f"a {name}" for name, at in zip(self.receptacles, self.place_of, strict=True) if at >= 0]
            seen = f"You are in the middle of a room. Looking quickly around you, you see {listing(located)}."
        self.intro = f"-= Welcome to TextWorld, ALFRED! =-\n\n{seen}\n\n{task}"

    def _number(self, problem: Problem) -> None:
        named = problem.named
        for kind in ("agent", "rtype", "otype"):
            if any("_bar_" in entity for entity in named[kind]):
                raise UnsupportedGameError(f"a position in the id of an {kind}")
        names = display_names(named["object"] | named["receptacle"] | named["location"])
        objects, receptacles, places = (sorted(named[kind]) for kind in ("object", "receptacle", "location"))
        self.objects = tuple(names[entity] for entity in objects)
        self.receptacles = tuple(names[entity] for entity in receptacles)
        self.places = tuple(names[entity] for entity in places)
        self.object_number = {name: number for number, name in enumerate(self.objects)}
        self.receptacle_number = {name: number for number, name in enumerate(self.receptacles)}

    def _compile(self, problem: Problem) -> None:
        facts = problem.facts
        objects, receptacles, places = (
            {entity: number for number, entity in enumerate(sorted(problem.named[kind]))}
            for kind in ("object", "receptacle", "location")
        )
        if len(facts["atlocation"]) != 1 or facts["holds"] or facts["holdsany"]:
            raise UnsupportedGameError("a player who is nowhere, in two places, or holds something at the start")
        self.start = places[next(iter(facts["atlocation"]))[1]]

        place_of = [-1] * len(receptacles)
        for receptacle, place in facts["receptacleatlocation"]:
            number = receptacles[receptacle]
            if place_of[number] >= 0:
                raise UnsupportedGameError("a receptacle in two places")
            place_of[number] = places[place]
        here: list[list[int]] = [[] for _ in places]
        for number, place in enumerate(place_of):
            if place >= 0:
                here[place].append(number)
        self.place_of = tuple(place_of)
        self.here = tuple(map(tuple, here))
        # The "go to" commands of each place, made when first needed.
        self.ways: list[list[str] | None] = [None] * len(places)

        def set_of(predicate: str, numbers: dict[str, int]) -> int:
            return sum(1 << numbers[entity] for (entity,) in facts[predicate])

        self.openable = set_of("openable", receptacles)
        self.opened = set_of("opened", receptacles)
        for name, predicate in (
            ("pickupable", "pickupable"), ("cleanable", "cleanable"), ("heatable", "heatable"),
            ("coolable", "coolable"), ("toggleable", "toggleable"), ("sliceable", "sliceable"), ("clean", "isclean"),
            ("hot", "ishot"), ("cool", "iscool"), ("sliced", "issliced"), ("toggled", "istoggled"),
        ):  # fmt: skip
            setattr(self, name, set_of(predicate, objects))

        of_type: dict[str, int] = {}
        for entity, kind in facts["objecttype"]:
            of_type[kind] = of_type.get(kind, 0) | 1 << objects[entity]
        self.knives = of_type.get("knifetype", 0) | of_type.get("butterknifetype", 0)
        accepted: dict[str, int] = {}
        for receptacle_type, object_type in facts["cancontain"]:
            accepted[receptacle_type] = accepted.get(receptacle_type, 0) | of_type.get(object_type, 0)
        accepts = [0] * len(receptacles)
        special = {"sinkbasintype": 0, "microwavetype": 0, "fridgetype": 0}
        for receptacle, kind in facts["receptacletype"]:
            number = receptacles[receptacle]
            accepts[number] |= accepted.get(kind, 0)
            if kind in special:
                special[kind] |= 1 << number
        self.accepts = tuple(accepts)
        self.sinks, self.microwaves, self.fridges = special.values()

        contents: list[list[int]] = [[] for _ in receptacles]
        for entity, receptacle in facts["inreceptacle"]:
            contents[receptacles[receptacle]].append(objects[entity])
        self.contents = tuple(tuple(sorted(inside)) for inside in contents)
        lying = [0] * len(places)
        for entity, place in facts["objectatlocation"]:
            lying[places[place]] |= 1 << objects[entity]
        self.lying = tuple(lying)
        inner: dict[int, list[int]] = {objects[entity]: [] for (entity,) in facts["isreceptacleobject"]}
        for entity, outer in facts["inreceptacleobject"]:
            # The grammar's query wants two different objects: a thing is not listed in itself.
            if entity != outer and objects[outer] in inner:
                inner[objects[outer]].append(objects[entity])
        self.inner = {outer: tuple(sorted(inside)) for outer, inside in inner.items()}

    def _set_goal(self, problem: Problem) -> None:
        goal = parse_goal(problem.goal)
        facts = problem.facts
        things = {entity for entity, kind in facts["objecttype"] if kind == goal.thing}
        if goal.able is not None:
            things = {entity for entity in things if (entity,) in facts[goal.able]}
        objects = {entity: number for number, entity in enumerate(sorted(problem.named["object"]))}
        receptacles = sorted(problem.named["receptacle"])
        self.task_type = goal.task_type
        self.two = goal.family == "place two"
        self.light = goal.family == "light"
        self.changed = goal.changed.removeprefix("is") if goal.changed is not None else None
        self.things = sum(1 << objects[entity] for entity in things)
        self.lamps = self.toggleable & sum(
            1 << objects[entity] for entity, kind in facts["objecttype"] if self.light and kind == goal.target
        )
        self.targets = tuple(
            number for number, entity in enumerate(receptacles) if (entity, goal.target) in facts["receptacletype"]
        )


def load_game(path: str | Path) -> Game:
    """Return the compiled game of a file; each file is read once a process, unless it changes.

    Raises:
        EnvironmentDataError: the file is missing or broken; names the file and what is wrong.
        UnsupportedGameError: a game for the official engine alone.
    """
    try:
        stat = os.stat(path)
    except OSError:
        read_game(path)  # raises what there is to say
        raise
    return _load(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=_KEPT)
def _load(path: str, _changed: int, _size: int) -> Game:
    data = read_game(path)
    try:
        return Game(data["pddl_domain"], data["grammar"], data["pddl_problem"])
    except ProblemError as error:
        raise broken(path, str(error)) from error
