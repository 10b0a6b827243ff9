"""Other numbers for the objects of a trajectory, such as the environment might have given them."""

import re
from collections.abc import Iterable

import numpy as np

#: How many objects of a kind a room of the official games commonly has (`MAX_NUM_OF_OBJ_INSTANCES` of alfworld.gen).
COMMON_COUNT = 3

_LIST = re.compile(r"(?:you see|You are carrying:) ((?:a [a-z]+ \d+(?:,? and |, )?)+)")
_ENTITY = re.compile(r"\b([a-z]+) (\d+)\b")
_INTRO = re.compile(r"Looking quickly around you, you see ([^.]*)\.")


def renumber(texts: list[str], rng: np.random.Generator) -> list[str]:
    """Return the texts of one trajectory with its objects renumbered under one random mapping.

    What a player could rely on stays true:

    - All texts share the mapping, so an action still names what its observation showed.
    - Each kind of object is mapped by itself, one to one and in order. The environment numbers a kind's objects by
      their place in one sorted list, the last being 1, and sorts every list that it prints in the same way: within
      a list, numbers of a kind count down, before and after.
    - Objects that are never seen use up numbers too, so which ones a trajectory shows says nothing: the numbers seen
      are mapped to any ascending choice from 1 to the largest number seen, or to `COMMON_COUNT` if that is more.
      Hence no number arises that the kind could not have had; and the identity is among the mappings.
    - Receptacles stay as they are: the first observation lists all of them, always from n down to 1, so another
      choice would not be true, and another order would contradict that list.
    - Anything else that holds a number (a word that was listed nowhere as an object) is left alone.

    Args:
        texts: all observations and actions of the trajectory, the first observation among them.
        rng: of the mapping.

    Returns:
        As many texts, in the same order.
    """
    mapping = _mapping(texts, rng)

    def replace(match: re.Match) -> str:
        return mapping.get(match[0], match[0])

    return [_ENTITY.sub(replace, text) for text in texts]


def _mapping(texts: Iterable[str], rng: np.random.Generator) -> dict[str, str]:
    """Draw the new name of each object that the texts name."""
    whole = "\n".join(texts)
    receptacles = {name for intro in _INTRO.findall(whole) for name, _ in _ENTITY.findall(intro)}
    listed = {name for objects in _LIST.findall(whole) for name, _ in _ENTITY.findall(objects)}
    numbers: dict[str, set[int]] = {name: set() for name in sorted(listed - receptacles)}
    for name, number in _ENTITY.findall(whole):
        if name in numbers:
            numbers[name].add(int(number))
    mapping = {}
    for name, old in numbers.items():
        largest = max(COMMON_COUNT, *old)
        new = np.sort(rng.permutation(largest)[: len(old)]) + 1
        mapping.update({f"{name} {a}": f"{name} {b}" for a, b in zip(sorted(old), new.tolist(), strict=True)})
    return mapping
