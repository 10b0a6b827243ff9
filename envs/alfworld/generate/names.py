"""Ids in PDDL, and the names that the text game gives them."""

from collections import Counter
from collections.abc import Iterable

_MANGLED = str.maketrans({"-": "_minus_", "+": "_plus_", "|": "_bar_", ".": "_dot_"})


def mangle(name: str) -> str:
    """Return an id as PDDL allows it: "Mug|+00.10|..." becomes "Mug_bar__plus_00_dot_10_bar_..."."""
    return name.translate(_MANGLED)


def text_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the names that players see, e.g. "mug 2", by id.

    Args:
        ids: of all objects and receptacles of the game. The mangled ids are sorted; of each type the last one gets
            number 1, the one before it 2, and so on.
    """
    count: Counter[str] = Counter()
    names = {}
    for name in sorted(ids, key=lambda name: mangle(name).lower(), reverse=True):
        kind = name.split("|")[0].lower() + ("basin" if name.endswith("Basin") else "")
        count[kind] += 1
        names[name] = f"{kind} {count[kind]}"
    return names
