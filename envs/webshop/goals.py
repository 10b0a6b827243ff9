"""What a shopper is asked to buy: goals written by people, or made of attributes and options."""

import itertools
import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from envs.base import EnvironmentDataError
from envs.webshop.catalogue import Catalogue
from envs.webshop.products import Product
from envs.webshop.rating import meets, option_texts, reward

Compatibility = Literal["original", "fixed"]
Split = Literal["test", "validation", "train"]
Prices = Mapping[str, float]

#: Bounds on prices: multiples of 10 below 1,000 dollars, of which the next few above the price are drawn from.
BOUNDS = tuple(10.0 * tens for tens in range(1, 100))
NEXT_BOUNDS = 4
#: The bound where there are fewer than two left: none.
NO_BOUND = 1000000

#: The seed of the original's shuffle, whatever its prices were drawn with.
SHUFFLE_SEED = 233

#: Goals with an index below the first are for testing, below the second for validation, the rest for training.
TEST_END = 500
VALIDATION_END = 1500


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal.

    Attributes:
        asin: of the product that it was made from.
        category, query, name, product_category: of that product.
        instruction_text: what the shopper is told.
        attributes: what the product must have.
        goal_options: to be chosen: values (human goals), or option name -> value (synthetic goals).
        price_upper: the price must be at most this, in dollars.
        weight: for drawing goals.
    """

    asin: str
    category: str
    query: str
    name: str
    product_category: str
    instruction_text: str
    attributes: tuple[str, ...]
    goal_options: tuple[str, ...] | dict[str, str]
    price_upper: float
    weight: float = 1

    def as_mapping(self) -> dict[str, Any]:
        """Return the goal under the names that the original engine uses; JSON can hold it."""
        given = {name: getattr(self, name) for name in self.__slots__}
        options = self.goal_options
        given["attributes"] = list(self.attributes)
        given["goal_options"] = dict(options) if isinstance(options, dict) else list(options)
        return given

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> "Goal":
        """Make a goal of such a mapping, `category` and `weight` being optional; raises EnvironmentDataError."""
        known = {name: given[name] for name in cls.__slots__ if name in given}
        missing = [name for name in cls.__slots__ if name not in {"category", "weight", *known}]
        if missing:
            raise EnvironmentDataError(f"a goal lacks {', '.join(missing)}; see envs.webshop.goals.Goal")
        for name, value in known.items():
            if not _fits(name, value):
                raise EnvironmentDataError(
                    f"a goal's {name} is {value!r}; see envs.webshop.goals.Goal for what it may be"
                )
        options = known["goal_options"]
        known["attributes"] = tuple(known["attributes"])
        known["goal_options"] = dict(options) if isinstance(options, Mapping) else tuple(options)
        return cls(**{"category": "", **known})


def _fits(name: str, value: Any) -> bool:
    """Return whether a goal's attribute may have a value."""
    if name in ("price_upper", "weight"):
        return isinstance(value, int | float) and not math.isnan(value)
    if name not in ("attributes", "goal_options"):
        return isinstance(value, str)
    if name == "goal_options" and isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


class Goals(list[Goal]):
    """Goals in order.

    Attributes:
        prices: asin -> price in dollars, as drawn or given.
        left_out: how many goals were left out because no purchase satisfies them.
        totals: the sums of the weights up to and with each goal.
    """

    prices: dict[str, float]
    left_out: int
    totals: list[float]

    def split(self, index: int) -> Split:
        """Return the split of a goal: the first 500 are "test", the next 1,000 "validation", the rest "train"."""
        return "test" if index < TEST_END else "validation" if index < VALIDATION_END else "train"


def make_goals(
    catalogue: Catalogue,
    compatibility: Compatibility = "fixed",
    human_goals: bool = False,
    seed: int = 0,
    prices: Prices | None = None,
    shuffle_seed: int | None = SHUFFLE_SEED,
) -> Goals:
    """Return the goals of a catalogue, in order; made once a process for each choice of arguments.

    Args:
        catalogue: as `load_catalogue` returns it.
        compatibility: "original": `seed` draws prices, then bounds, and `shuffle_seed` the order; all goals stay.
            "fixed": one stream from `seed` draws all three, and goals that no purchase satisfies are left out.
        human_goals: those that people wrote, instead of those made of attributes and options.
        seed: see above.
        prices: asin -> price, instead of those drawn; the draws that follow stay the same.
        shuffle_seed: for "original": 233 as in WebShop; RL frameworks that seed each environment give their own.

    Raises:
        EnvironmentDataError: there are no such goals.
    """
    given = None if prices is None else tuple(sorted(prices.items()))
    key = "goals", compatibility, human_goals, seed, given, shuffle_seed if compatibility == "original" else None
    return catalogue.keep(
        key, lambda: _make_goals(catalogue, compatibility, human_goals, seed, dict(prices or {}), shuffle_seed)
    )


def _make_goals(
    catalogue: Catalogue,
    compatibility: Compatibility,
    human_goals: bool,
    seed: int,
    prices: dict[str, float],
    shuffle_seed: int | None,
) -> Goals:
    stream = random.Random(seed)
    drawn = _draw_prices(catalogue, stream, prices)
    make = _human if human_goals else _synthetic
    goals = Goals(make(catalogue, drawn, stream))
    if not goals:
        kind, needed = ("human", "items_human_ins*.json") if human_goals else ("synthetic", "instructions in items_ins")
        raise EnvironmentDataError(f"{catalogue.source}: makes no {kind} goal; those need {needed}")
    order = random.Random(shuffle_seed) if compatibility == "original" else stream
    order.shuffle(goals)
    every = len(goals)
    if compatibility == "fixed":
        goals[:] = _satisfied(goals, catalogue, drawn)
    goals.left_out = every - len(goals)
    goals.prices = drawn
    goals.totals = list(itertools.accumulate(goal.weight for goal in goals))
    return goals


def draw_prices(catalogue: Catalogue, seed: int = 0, prices: Prices | None = None) -> dict[str, float]:
    """Return asin -> price in dollars, as `make_goals` has them, made once a process."""
    given = prices or {}
    key = "prices", seed, tuple(sorted(given.items()))
    return catalogue.keep(key, lambda: _draw_prices(catalogue, random.Random(seed), given))


def _draw_prices(catalogue: Catalogue, stream: random.Random, given: Prices) -> dict[str, float]:
    """Return asin -> price: drawn uniformly from a range."""
    return {
        product.asin: product.prices[0] if len(product.prices) == 1 else stream.uniform(*product.prices)
        for product in catalogue.products
    } | dict(given)


def _draw_bound(price: float, stream: random.Random) -> tuple[float, str]:
    """Return the bound on a price, and what the instruction says of it."""
    first = bisect_right(BOUNDS, price)
    choices = BOUNDS[first : first + NEXT_BOUNDS]
    if len(choices) < 2:
        return NO_BOUND, ""
    bound = max(stream.sample(choices, 2))
    return bound, f", and price lower than {bound:.2f} dollars"


def _human(catalogue: Catalogue, prices: Prices, stream: random.Random) -> Iterator[Goal]:
    for product in catalogue.products:
        for written in product.human_instructions:
            if written.attributes:
                bound, clause = _draw_bound(prices[product.asin], stream)
                text = written.text.strip(".") + clause
                yield _goal(product, text, written.attributes, written.options, bound)


def _synthetic(catalogue: Catalogue, prices: Prices, stream: random.Random) -> list[Goal]:
    goals, counts = [], Counter()
    for product in catalogue.products:
        if product.instruction is None:
            continue
        bound, clause = _draw_bound(prices[product.asin], stream)
        names = sorted(product.options)
        for values in itertools.product(*(product.options[name] for name in names)):
            options = dict(zip(names, values, strict=True))
            listed = ", and ".join(f"{name}: {value}" for name, value in options.items())
            text = product.instruction + (f" with {listed}" if listed else "") + clause
            goals.append(_goal(product, text, product.instruction_attributes, options, bound))
            counts.update(product.instruction_attributes)
    return [
        replace(goal, weight=sum(1.0 / counts[attribute] for attribute in goal.attributes) / len(goal.attributes))
        for goal in goals
    ]


def _goal(
    product: Product,
    text: str,
    attributes: tuple[str, ...],
    options: tuple[str, ...] | dict[str, str],
    bound: float,
) -> Goal:
    return Goal(
        product.asin,
        product.category,
        product.query,
        product.title,
        product.product_category,
        text,
        attributes,
        options,
        bound,
    )


def _attainable(goal: Goal, catalogue: Catalogue, prices: Prices) -> bool:
    """Return whether the goal's own product scores 1 when no options are wanted."""
    product = catalogue.by_asin[goal.asin]
    nouns = catalogue.nouns.of(product.asin, product.title)
    plain = goal.as_mapping() | {"goal_options": []}
    own = {"purchased": nouns, "goal": nouns}
    return reward(product.as_mapping(), plain, {}, prices[product.asin], own)[0] == 1


def _choosable(goal: Goal, product: Product) -> bool:
    """Return whether one value of each of the product's options, at most, can hit all options of the goal."""
    wanted = frozenset(option_texts(goal.goal_options))
    if isinstance(goal.goal_options, dict):
        # A synthetic goal names one value of each of the product's options, and nearly always those do.
        values = goal.goal_options.values()
        if all(any(meets(option, value) for value in values) for option in wanted):
            return True
    missing = {wanted}  # what may still be missing, after the options looked at
    for values in product.options.values():
        hits = {frozenset(option for option in wanted if meets(option, value)) for value in values}
        missing |= {options - hit for options in missing for hit in hits}
    return frozenset() in missing


def _satisfied(goals: Goals, catalogue: Catalogue, prices: Prices) -> list[Goal]:
    """Return the goals that buying their own product, with some choice of options, satisfies, in order."""
    known: dict[tuple[str, tuple[str, ...], float], bool] = {}
    kept = []
    for goal in goals:
        key = goal.asin, goal.attributes, goal.price_upper
        if key not in known:
            known[key] = _attainable(goal, catalogue, prices)
        if known[key] and _choosable(goal, catalogue.by_asin[goal.asin]):
            kept.append(goal)
    return kept
