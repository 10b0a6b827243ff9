"""What a `game.tw-pddl` file says of its room, read for measurements."""

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_DECLARED = re.compile(r"(\S+) - (object|receptacle|location)")
_FACT = re.compile(r"\(([^()]+)\)")
_GOAL_TYPE = re.compile(r"\(objectType \?o1? (\w+)Type\)")


def kind(name: str) -> str:
    """Return the type of a mangled id: "Mug", "SinkBasin", ..."""
    return name.split("_bar_")[0] + ("Basin" if name.endswith("Basin") else "")


@dataclass(frozen=True)
class GameFacts:
    """The initial facts of one game.

    Attributes:
        objects: ids of all objects that the room holds (not the bare type names that are declared too).
        receptacles: ids.
        facts: arguments of the facts by predicate.
        goal_object: the type that the goal asks for.
        walkthrough: the oracle's commands.
    """

    objects: frozenset[str]
    receptacles: frozenset[str]
    facts: dict[str, list[tuple[str, ...]]]
    goal_object: str
    walkthrough: list[str]

    def only(self, predicate: str) -> set[str]:
        """Return the arguments of a predicate of one argument."""
        return {arguments[0] for arguments in self.facts[predicate]}

    @cached_property
    def places(self) -> dict[str, list[str]]:
        """The receptacles that each object starts in."""
        found = defaultdict(list)
        for thing, receptacle in self.facts["inReceptacle"]:
            found[thing].append(receptacle)
        return found

    @cached_property
    def receptacle_kinds(self) -> Counter:
        """How many receptacles there are of each type."""
        return Counter(map(kind, self.receptacles))


def read(path: Path) -> GameFacts:
    """Read one game file."""
    data = json.loads(path.read_text(encoding="utf-8"))
    declared, _, rest = data["pddl_problem"].partition("(:init")
    init, _, goal = rest.partition("(:goal")
    facts = defaultdict(list)
    for match in _FACT.finditer(init):
        predicate, *arguments = match[1].split()
        facts[predicate].append(tuple(arguments))
    names = defaultdict(set)
    for name, sort in _DECLARED.findall(declared):
        names[sort].add(name)
    objects = frozenset(name for name in names["object"] if "_bar_" in name)
    goal_object = next(name for name in _GOAL_TYPE.findall(goal) if not name.endswith("Lamp"))
    return GameFacts(objects, frozenset(names["receptacle"]), facts, goal_object, data["walkthrough"])
