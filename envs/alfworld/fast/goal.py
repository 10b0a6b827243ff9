"""The goals of ALFWorld's six task families, recognised in PDDL and checked on a state."""

import re
from dataclasses import dataclass
from typing import Literal

from envs.alfworld.fast.rules import UnsupportedGameError

Family = Literal["place", "place two", "light"]

_EXISTS_BOTH = r"\(and \(exists \(\?r - receptacle\) \(exists \(\?o - object\) \(and {body}\)\)\)\)"
_KINDS = r"\(objecttype \?o (?P<thing>\S+)\) \(receptacletype \?r (?P<receptacle>\S+)\)"
_PLACE = re.compile(_EXISTS_BOTH.format(body=rf"\(inreceptacle \?o \?r\) {_KINDS}"))
_CHANGED = re.compile(
    _EXISTS_BOTH.format(
        body=r"\((?P<able>cleanable|heatable|coolable) \?o\) "
        + _KINDS
        + r" \((?P<changed>isclean|ishot|iscool) \?o\) \(inreceptacle \?o \?r\)"
    )
)
_TWO = re.compile(
    r"\(and \(exists \(\?r - receptacle\) \(exists \(\?o1 - object\) \(and "
    r"\(objecttype \?o1 (?P<thing>\S+)\) \(receptacletype \?r (?P<receptacle>\S+)\) \(inreceptacle \?o1 \?r\) "
    r"\(exists \(\?o2 - object\) \(and \(not \(= \?o1 \?o2\)\) \(objecttype \?o2 (?P=thing)\) "
    r"\(receptacletype \?r (?P=receptacle)\) \(inreceptacle \?o2 \?r\)\)\)\)\)\)\)"
)
_LIGHT = re.compile(
    r"\(and \(exists \(\?ot - object \?r - receptacle \?a - agent \?l - location\) \(and "
    r"\(objecttype \?ot (?P<lamp>\S+)\) \(toggleable \?ot\) \(istoggled \?ot\) "
    r"\(receptacleatlocation \?r \?l\) \(atlocation \?a \?l\) \(inreceptacle \?ot \?r\)\)\) "
    r"\(exists \(\?o - object \?a - agent\) \(and \(objecttype \?o (?P<thing>\S+)\) \(holds \?a \?o\)\)\)\)"
)
_CHANGES = {"cleanable": "isclean", "heatable": "ishot", "coolable": "iscool"}


@dataclass(frozen=True)
class StatedGoal:
    """A goal as PDDL states it.

    Attributes:
        family: "place": a thing is in a receptacle; "place two": two are in one and the same; "light": a lamp that
            was switched on stands in a receptacle here, while a thing is held.
        thing: the type of the thing, e.g. "mugtype".
        target: the receptacle's type; in the light family, the lamp's.
        able, changed: the predicates that the thing must meet besides, e.g. "heatable" and "ishot"; or None.
    """

    family: Family
    thing: str
    target: str
    able: str | None = None
    changed: str | None = None

    @property
    def task_type(self) -> str:
        """The task family by its official name."""
        if self.changed is not None:
            return f"pick_{ {'isclean': 'clean', 'ishot': 'heat', 'iscool': 'cool'}[self.changed] }_then_place_in_recep"
        return {
            "place": "pick_and_place_simple",
            "place two": "pick_two_obj_and_place",
            "light": "look_at_obj_in_light",
        }[self.family]


def parse_goal(text: str) -> StatedGoal:
    """Recognise a goal; the text is in canonical form (see `Problem`).

    Raises:
        UnsupportedGameError: it is none of the six.
    """
    text = text.strip()
    if found := _PLACE.fullmatch(text):
        return StatedGoal("place", found["thing"], found["receptacle"])
    if (found := _CHANGED.fullmatch(text)) and _CHANGES[found["able"]] == found["changed"]:
        return StatedGoal("place", found["thing"], found["receptacle"], found["able"], found["changed"])
    if found := _TWO.fullmatch(text):
        return StatedGoal("place two", found["thing"], found["receptacle"])
    if found := _LIGHT.fullmatch(text):
        return StatedGoal("light", found["thing"], found["lamp"])
    raise UnsupportedGameError("a goal beyond the six task families")
