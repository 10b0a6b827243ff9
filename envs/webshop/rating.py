"""What a purchase is worth (WebShop, arXiv 2207.01206, section 3.2), in the arithmetic of the original engine.

reward = r_type * (attribute hits + option hits + [price <= bound]) / (attributes + options + 1)
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from envs.base import EnvironmentDataError
from envs.webshop.colours import normalise, normalise_pair
from envs.webshop.nouns import guess_nouns

#: Texts are alike above this, in percent, rounded.
ALIKE = 85

#: Between the levels of a category.
_BELOW = "\u203a"

#: The original's fuzzy matching leaves out the characters of Latin-1 beyond ASCII, and those alone.
_LATIN_1 = dict.fromkeys(range(128, 256))

Options = Mapping[str, str]


def reward(
    product: Mapping[str, Any],
    goal: Mapping[str, Any],
    options: Options,
    price: float,
    nouns: Mapping[str, Sequence[str]] | None = None,
) -> tuple[float, dict[str, Any]]:
    """Return what buying a product is worth for a goal.

    Args:
        product: as `Product.as_mapping()`: query, product_category, name, Title, BulletPoints, Description, Attributes.
        goal: as `Goal.as_mapping()`: query, product_category, name, attributes, goal_options, price_upper.
        options: chosen, option name -> value.
        price: paid, in dollars.
        nouns: of the two names, under "purchased" and "goal", in lower case. Without, they are what the product and the
            goal hold under "nouns", or else guessed from the names.

    Returns:
        the reward in [0, 1], and its components: r_type, query_match, category_match, title_score, r_att,
        num_attr_matches, r_option, num_option_matches, r_price, and the weights w_att, w_option, w_price; r_option and
        w_option are None where the goal has no options.

    Raises:
        EnvironmentDataError: the product or the goal lacks an entry.
    """
    try:
        if nouns is None:
            nouns = {"purchased": _nouns(product), "goal": _nouns(goal)}
        kind = _rate_type(product, goal, nouns["purchased"], nouns["goal"])
        hits = _count_attributes(product, goal["attributes"])
        chosen = _count_options(goal["goal_options"], options)
        within = bool(price <= goal["price_upper"])
        attributes, wanted = len(goal["attributes"]), len(goal["goal_options"])
    except KeyError as error:
        raise EnvironmentDataError(f"no {error} in what the reward is asked of; see envs.webshop.reward") from error
    parts = attributes + wanted + 1
    total = (hits + chosen + within) / parts * kind["r_type"]
    return total, {
        **kind,
        "r_att": hits / attributes if attributes else None,
        "num_attr_matches": hits,
        "r_option": chosen / wanted if wanted else None,
        "num_option_matches": chosen,
        "r_price": within,
        "w_att": attributes / parts,
        "w_option": wanted / parts if wanted else None,
        "w_price": 1 / parts,
    }


def _nouns(named: Mapping[str, Any]) -> Sequence[str]:
    return named["nouns"] if "nouns" in named else guess_nouns(named["name"])


def _rate_type(
    product: Mapping[str, Any], goal: Mapping[str, Any], purchased: Sequence[str], desired: Sequence[str]
) -> dict[str, Any]:
    """Return whether it is the right kind of thing: by query, by category, by the nouns of the names."""
    query_match = product["query"] == goal["query"]
    category_match = len(_levels(product["product_category"]) & _levels(goal["product_category"])) >= 2
    title_score = len(set(purchased) & set(desired)) / len(desired) if desired else 0.2
    r_type = 1.0 if query_match or category_match or title_score > 0.2 else 0.5
    if title_score < 0.1:
        r_type = 0.1
    if title_score == 0:
        r_type = 0.0
    return {
        "r_type": r_type,
        "query_match": query_match,
        "category_match": category_match,
        "title_score": title_score,
    }


def _levels(category: str) -> set[str]:
    return {level.strip() for level in category.split(_BELOW)}


def _count_attributes(product: Mapping[str, Any], wanted: Sequence[str]) -> int:
    """Return how many of the attributes are among the product's, about, or stand in its texts."""
    texts = (product["Title"].lower(), " ".join(product["BulletPoints"]).lower(), product["Description"].lower())
    return sum(
        any(_alike(own, attribute) for own in product["Attributes"]) or any(attribute in text for text in texts)
        for attribute in wanted
    )


def _count_options(wanted: Mapping[str, str] | Sequence[str], options: Options) -> int:
    """Return how many of the options are met by one that was chosen."""
    chosen = [normalise(value) for value in options.values()]
    return sum(any(_alike(value, option) for value in chosen) for option in option_texts(wanted))


def option_texts(wanted: Mapping[str, str] | Sequence[str]) -> list[str]:
    """Return the options of a goal as the original engine compares them: pairs of a mapping, values of a list."""
    if isinstance(wanted, Mapping):
        return [normalise_pair(name, value) for name, value in wanted.items()]
    return [normalise(value) for value in wanted]


def meets(option: str, value: str) -> bool:
    """Return whether choosing a value hits an option of a goal, given as in `option_texts`."""
    return _alike(normalise(value), option)


@lru_cache(maxsize=1 << 16)
def _alike(one: str, other: str) -> bool:
    return round(token_set_ratio(_plain(one), _plain(other))) > ALIKE


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> str:
    return default_process(text.translate(_LATIN_1))
