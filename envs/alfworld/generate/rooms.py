"""The 120 rooms: what stands where, from the floor plans that alfworld ships."""

from dataclasses import dataclass
from functools import cache

import numpy as np

from envs.alfworld.generate.shipped import constants, floor_plan
from envs.alfworld.generate.streams import stream

#: The rooms of `valid_unseen`, three of each kind: those in which no released train game plays. The official
#: valid_unseen and test_unseen games play there, so that a policy that learned from generated games has not seen
#: them either.
UNSEEN = (9, 10, 29, 215, 219, 226, 308, 315, 325, 404, 424, 425)

#: The floor plans do not list the places of some receptacles, only that the room has them; how many there are.
_UNLISTED = {"StoveBurner": 4}

Location = tuple[int, int, int, int]


@dataclass(frozen=True)
class Receptacle:
    """A place for objects.

    Attributes:
        id: type and coordinates in metres, e.g. "Cabinet|-01.46|+00.78|+00.47".
        kind: its type, e.g. "Cabinet"; that of "Sink|...|SinkBasin" is "SinkBasin".
        position: x, y (up), z in metres.
        location: where an agent stands to reach it: x and z in quarters of a metre, rotation in quarter turns,
            horizon in degrees.
        openable: whether it has a door, which is closed at the start.
    """

    id: str
    kind: str
    position: tuple[float, float, float]
    location: Location
    openable: bool


@dataclass(frozen=True)
class Room:
    """A room without its movable contents.

    Attributes:
        number: of the floor plan.
        kind: "kitchen", "living room", "bedroom" or "bathroom".
        objects: types of the objects that belong into it.
        receptacles: all of them, sorted by id.
        points: x and z in quarters of a metre of all places where an agent can stand.
    """

    number: int
    kind: str
    objects: tuple[str, ...]
    receptacles: tuple[Receptacle, ...]
    points: tuple[tuple[int, int], ...]


def numbers() -> list[int]:
    """Return the numbers of all floor plans."""
    return [first + number for first in (0, 200, 300, 400) for number in range(1, 31)]


def _receptacle_kinds() -> set[str]:
    tables = constants()
    return tables.RECEPTACLES - tables.MOVABLE_RECEPTACLES_SET


def identifier(kind: str, position: tuple[float, float, float], suffix: str = "") -> str:
    """Return an id as AI2-THOR writes it."""
    return "|".join((kind, *(f"{coordinate:+06.2f}" for coordinate in position))) + suffix


def _listed(name: str, pose: list[float]) -> Receptacle:
    parts = name.split("|")
    x, z, rotation, horizon = pose
    kind = parts[4] if len(parts) > 4 else parts[0]
    return Receptacle(
        id=name,
        kind=kind,
        position=tuple(map(float, parts[1:4])),
        location=(round(4 * x), round(4 * z), round(rotation / 90) % 4, round(horizon)),
        openable=kind in constants().OPENABLE_CLASS_SET,
    )


def _unlisted(kind: str, points: np.ndarray, rng: np.random.Generator) -> Receptacle:
    """Put a receptacle in front of a random point; as in released games, one without a listed pose has no door."""
    x, z = points[rng.integers(len(points))].tolist()
    turn = int(rng.integers(4))
    east, north = ((0, 1), (1, 0), (0, -1), (-1, 0))[turn]
    position = (x + 0.75 * east, 0.9, z + 0.75 * north)
    basin = kind.removesuffix("Basin") if kind.endswith("Basin") else None
    name = identifier(basin, position, f"|{kind}") if basin else identifier(kind, position)
    return Receptacle(name, kind, position, (round(4 * x), round(4 * z), turn, 30), openable=False)


@cache
def room(number: int) -> Room:
    """Read a room. What the floor plan leaves open is drawn once and for all, from the room's number."""
    kinds, poses, layout = floor_plan(number)
    points = np.load(layout)
    fixed = _receptacle_kinds()
    found = {name: _listed(name, pose) for name, pose in sorted(poses.items())}
    missing = fixed.intersection(kinds) - {receptacle.kind for receptacle in found.values()}
    rng = stream("room", number)
    for kind in sorted(missing):
        wanted = len(found) + _UNLISTED.get(kind, 1)
        while len(found) < wanted:
            made = _unlisted(kind, points, rng)
            found.setdefault(made.id, made)
    return Room(
        number=number,
        kind=("kitchen", "", "living room", "bedroom", "bathroom")[number // 100],
        objects=tuple(sorted(set(kinds) - fixed)),
        receptacles=tuple(found[name] for name in sorted(found)),
        points=tuple((round(4 * x), round(4 * z)) for x, z in points),
    )


@cache
def rooms_of(split: str, size: str = "all") -> tuple[int, ...]:
    """Return the rooms of a split, of each kind the smaller or the larger half of them, or all.

    Size is the number of receptacles; where the number of rooms is odd, the middle one belongs to both halves.
    """
    of_split = [number for number in numbers() if (number in UNSEEN) == (split == "valid_unseen")]
    if size == "all":
        return tuple(of_split)
    chosen = []
    for kind in dict.fromkeys(room(number).kind for number in of_split):
        group = sorted(
            (number for number in of_split if room(number).kind == kind),
            key=lambda number: (len(room(number).receptacles), number),
            reverse=size == "large",
        )
        chosen += group[: (len(group) + 1) // 2]
    return tuple(sorted(chosen))
