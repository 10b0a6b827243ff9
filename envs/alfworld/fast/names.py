"""From the ids of a PDDL problem to the names that players see."""

from collections import Counter
from collections.abc import Iterable
from sys import intern

from envs.alfworld.fast.rules import UnsupportedGameError

_SIGNS = (("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Return id -> name for all entities of a game, e.g. "mug_bar_01_bar_02" -> "mug 1".

    Numbers count by name, down the sorted ids: the last one is number 1. An id with "basin" in it has that added to
    its name. An id without a position keeps its own text, with a blank after it in the place of the number.

    Raises:
        UnsupportedGameError: an id that the official naming would stumble over, or two of one name.
    """
    names = {}
    count: Counter[str] = Counter()
    for entity in sorted(ids, reverse=True):
        kind, bar, _ = entity.partition("_bar_")
        if "|" in entity or (bar and "_" in kind and _plain(kind) != kind):
            raise UnsupportedGameError(f"the id {entity}")
        if not bar:
            names[entity] = f"{_plain(entity)} "
            continue
        if "basin" in entity:
            kind += "basin"
        count[kind] += 1
        # The same few hundred names come in every game: keep one copy of each.
        names[entity] = intern(f"{kind} {count[kind]}")
    if len(set(names.values())) < len(names):
        raise UnsupportedGameError("two things of one name")
    return names


def _plain(text: str) -> str:
    for written, sign in _SIGNS:
        text = text.replace(written, sign)
    return text
