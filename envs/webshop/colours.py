"""Colour words, and the family that an option value belongs to."""

from functools import lru_cache

#: The colour words of WebShop's reward, in the order in which they are tried.
COLOURS = tuple(
    [
        "alabaster",
        "apricot",
        "aqua",
        "ash",
        "asphalt",
        "azure",
        "banana",
        "beige",
        "black",
        "blue",
        "blush",
        "bordeaux",
        "bronze",
        "brown",
        "burgundy",
        "camel",
        "camo",
        "caramel",
        "champagne",
        "charcoal",
        "cheetah",
        "chestnut",
        "chocolate",
        "christmas",
        "coffee",
        "cognac",
        "copper",
        "coral",
        "cranberry",
        "cream",
        "crystal",
        "dark",
        "denim",
        "eggplant",
        "elephant",
        "espresso",
        "fuchsia",
        "gold",
        "granite",
        "grape",
        "graphite",
        "grass",
        "gray",
        "green",
        "grey",
        "heather",
        "indigo",
        "ivory",
        "ivy",
        "khaki",
        "lavender",
        "lemon",
        "leopard",
        "light",
        "lilac",
        "lime",
        "magenta",
        "maroon",
        "mauve",
        "merlot",
        "midnight",
        "mint",
        "mocha",
        "multicolor",
        "mushroom",
        "mustard",
        "natural",
        "navy",
        "nude",
        "olive",
        "orange",
        "peach",
        "pewter",
        "pink",
        "plum",
        "purple",
        "rainbow",
        "red",
        "rose",
        "royal",
        "rust",
        "sand",
        "sapphire",
        "seashell",
        "silver",
        "skull",
        "slate",
        "steel",
        "stone",
        "stonewash",
        "sunflower",
        "tan",
        "taupe",
        "teal",
        "tiger",
        "turquoise",
        "violet",
        "walnut",
        "wheat",
        "white",
        "wine",
        "yellow",
    ]
)
_COLOURS = frozenset(COLOURS)


@lru_cache(maxsize=1 << 14)
def normalise(value: str) -> str:
    """Return the first colour word that is part of a value, or the value where none is: "wine red" -> "red"."""
    return next((colour for colour in COLOURS if colour in value), value)


def normalise_pair(name: str, value: str) -> str:
    """Return the colour that an option's name or value is, else the pair as Python prints it.

    The original engine normalises the pairs of synthetic goals as it does strings, so that a colour word must be all of
    the value ("black"), not a part ("dark green"), and a pair without one is compared in its printed form.
    """
    given = {name, value} & _COLOURS
    return min(given, key=COLOURS.index) if given else str((name, value))
