"""Other asins for the products of a trajectory, such as the catalogue might have given them."""

import re

import numpy as np

#: An asin of ten characters as results list it; a digit tells it from a word.
_LISTED = re.compile(r"\b(?=[A-Z]*\d)[A-Z0-9]{10}\b")
#: The same, or as an action names it.
_NAMED = re.compile(rf"(?<=click\[)(?=[a-z]*\d)[a-z0-9]{{10}}(?=\])|{_LISTED.pattern}")


def rename(texts: list[str], rng: np.random.Generator) -> list[str]:
    """Return the texts of one trajectory with its products' asins exchanged among themselves.

    An asin is arbitrary: a product may bear any. All texts share the mapping, so an action still names what its
    observation showed; which asin it is says nothing, and a policy has to read the page.

    Args:
        texts: all observations and actions of the trajectory.
        rng: of the mapping.

    Returns:
        As many texts, in the same order.
    """
    listed = sorted({asin for text in texts for asin in _LISTED.findall(text)})
    mapping = dict(zip(listed, [listed[place] for place in rng.permutation(len(listed)).tolist()], strict=True))

    def replace(match: re.Match) -> str:
        new = mapping.get(match[0].upper(), match[0])
        return new if match[0] == match[0].upper() else new.lower()

    return [_NAMED.sub(replace, text) for text in texts]
