"""The digest of a game's state that both engines agree on."""

from collections.abc import Iterable
from hashlib import blake2b


def state_key(
    place: Iterable[str],
    held: Iterable[str],
    open_here: Iterable[str],
    clean: Iterable[str],
    hot: Iterable[str],
    cool: Iterable[str],
    sliced: Iterable[str],
    toggled: Iterable[str],
) -> str:
    """Return 16 hex digits that tell states apart by where the player is and what it has done to things.

    Each argument is a set of display names ("mug 1"; a place is "loc 7"), read off the current facts: `atLocation` of
    the agent, `holds`, `opened` of the receptacles at that place, then, anywhere, `isClean`, `isHot`, `isCool`,
    `isSliced` and `isToggled`. Keys of two games can't be compared.

    Left out on purpose: where things lie, and what is open elsewhere. With those in, the states that can be reached
    grow without bound in practice (every item in every place), and a count of first visits would reward carrying
    things about.
    """
    parts = (place, held, open_here, clean, hot, cool, sliced, toggled)
    text = "|".join(",".join(sorted(part)) for part in parts)
    return blake2b(text.encode(), digest_size=8).hexdigest()
