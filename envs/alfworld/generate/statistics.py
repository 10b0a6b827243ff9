"""How released games furnish a room, as numbers: `statistics.json`, measured by `benchmarks/game_statistics.py`.

The train games of json_2.1.1 were counted, nothing else: how many objects of a type a room holds, and how likely a
receptacle of a type is to hold one of them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FLOOR = "floor"


@dataclass(frozen=True)
class Habit:
    """How objects of one type occur.

    Attributes:
        portable: whether they can be taken.
        copies: share of rooms that hold one, two, three, ... of them, among rooms that have the type.
        weights: how much one receptacle of a type draws such an object, relative to the others there are in the
            room and to `FLOOR` (in no receptacle: never seen, and out of reach).
    """

    portable: bool
    copies: tuple[float, ...]
    weights: Mapping[str, float]


@cache
def habits() -> dict[str, Habit]:
    """Return the habits of all object types by name."""
    table = json.loads(files(__package__).joinpath("statistics.json").read_text(encoding="utf-8"))
    return {name: Habit(row["portable"], tuple(row["copies"]), row["weights"]) for name, row in table.items()}
