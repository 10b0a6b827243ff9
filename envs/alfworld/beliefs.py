"""What a player of ALFWorld knows, from the texts alone."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from envs.alfworld.likely_places import DOORS

REFUSAL = "Nothing happens."

_NAMES = re.compile(r"[a-z]+ \d+")
_INTRO = re.compile(r"Looking quickly around you, you see (.*?)\.(?:\n|$)")
_SEEN = re.compile(r"(?:On the (\w+ \d+)|The (\w+ \d+) is open\. In it), you see ([^.]*)\.")
_SHUT = re.compile(r"The (\w+ \d+) is closed\.|You close the (\w+ \d+)\.")
_ARRIVAL = re.compile(r"You arrive at (\w+ \d+)\.")
_FACING = re.compile(r"You are facing the ([^.]*)\. Next to it")
_TAKEN = re.compile(r"You pick up the (\w+ \d+) from the (\w+ \d+)\.")
_PUT = re.compile(r"You move the (\w+ \d+) to the (\w+ \d+)\.")
_CARRIED = re.compile(r"You are (?:carrying: ([^.]*)|not carrying anything)\.")
_CHANGED = re.compile(r"You (clean|heat|cool) the (\w+ \d+) using the (\w+ \d+)\.")
_UNDOES = {"heat": "cool", "cool": "heat"}


def kind(name: str) -> str:
    """Return the kind of a numbered thing: "mug" of "mug 2"."""
    return name.rpartition(" ")[0]


def shown(observation: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each receptacle that an observation looks into, and what lies in or on it."""
    for surface, inside, listed in _SEEN.findall(observation):
        yield surface or inside, _NAMES.findall(listed)


@dataclass
class Beliefs:
    """The state of the room as far as it was told.

    Several receptacles may stand at one place: there all of them are within reach, and "go to" any of them is
    refused. Which ones do is only found out by trying; `spot` holds what is known of it.

    Attributes:
        receptacles: all there are, in the order of the first observation.
        contents: what was last seen in or on a receptacle; those not looked into are missing.
        opened: whether a receptacle with a door is open; missing where nothing was told.
        spot: receptacles with the same number stand at the same place.
        at: the receptacle that was last gone to, or None at the start.
        held: the object in hand, if any.
        origin: where that object was taken from.
        changed: what was cleaned, heated, cooled, as pairs (change, object).
    """

    receptacles: list[str]
    contents: dict[str, list[str]] = field(default_factory=dict)
    opened: dict[str, bool] = field(default_factory=dict)
    spot: dict[str, int] = field(default_factory=dict)
    at: str | None = None
    held: str | None = None
    origin: str | None = None
    changed: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of_intro(cls, observation: str) -> "Beliefs":
        """Return what the first observation tells: the receptacles."""
        intro = _INTRO.search(observation)
        receptacles = _NAMES.findall(intro[1]) if intro else []
        return cls(receptacles, spot={name: number for number, name in enumerate(receptacles)})

    def here(self, receptacle: str) -> bool:
        """Return whether the receptacle is known to be within reach."""
        return self.at is not None and self.spot[receptacle] == self.spot[self.at]

    def shut(self, receptacle: str) -> bool:
        """Return whether the receptacle is closed, or of a kind that is until one opens it."""
        return not self.opened.get(receptacle, kind(receptacle) not in DOORS)

    def set_here(self, receptacle: str) -> None:
        """Note that a receptacle turned out to be within reach."""
        if receptacle not in self.spot:
            return
        if self.at is None:
            self.at = receptacle
        old, new = self.spot[receptacle], self.spot[self.at]
        if old != new:
            for name, number in self.spot.items():
                if number == old:
                    self.spot[name] = new

    def set_apart(self, receptacle: str) -> None:
        """Note that a receptacle thought to be within reach is not."""
        self.spot[receptacle] = max(self.spot.values()) + 1

    def observe(self, action: str, observation: str) -> None:
        """Take in what came of an action, whoever chose it."""
        if observation.strip() == REFUSAL:
            # The only refusal that tells something whoever asked: one is there already.
            verb, _, target = action.partition("go to ")
            if not verb and target in self.spot and self.at:
                self.set_here(target)
            return
        if arrival := _ARRIVAL.search(observation):
            self.at = arrival[1]
        if facing := _FACING.search(observation):
            for name in _NAMES.findall(facing[1]):
                self.set_here(name)
        for name, things in shown(observation):
            self.set_here(name)
            self.opened[name] = True
            self.contents[name] = things
        for closed in _SHUT.findall(observation):
            name = closed[0] or closed[1]
            self.set_here(name)
            self.opened[name] = False
        if taken := _TAKEN.search(observation):
            self.held, self.origin = taken[1], taken[2]
            self.contents[taken[2]] = [name for name in self.contents.get(taken[2], []) if name != taken[1]]
        elif put := _PUT.search(observation):
            self.held = self.origin = None
            self.contents.setdefault(put[2], []).append(put[1])
        elif carried := _CARRIED.search(observation):
            names = _NAMES.findall(carried[1] or "")
            self.held = names[0] if names else None
        elif changed := _CHANGED.search(observation):
            self.changed.discard((_UNDOES.get(changed[1], ""), changed[2]))
            self.changed.add((changed[1], changed[2]))
