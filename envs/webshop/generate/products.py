"""The products: families of near-duplicates, so that a search alone does not find what was asked for."""

from dataclasses import dataclass, field

import numpy as np

from envs.streams import stream
from envs.webshop.generate.words import BRANDS, DEPARTMENTS, KINDS, Kind
from envs.webshop.task_settings import Difficulty

#: What a product has beyond the attributes that its goals name, so that a near-duplicate can lack one and have another.
ATTRIBUTES = 3
#: Dollars that a dear twin costs more: beyond any bound of the first one's goals, which is at most 40 above its price.
DEARER = (50, 90)
CENTS = (0.0, 0.49, 0.99)
#: The kinds, so that departments take turns.
_TURNS = [
    kind
    for place in range(len(KINDS))
    for department in DEPARTMENTS
    for kind in [kind for kind in KINDS if kind.category == department][place : place + 1]
]
#: Characters of an asin after its first three.
LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class Product:
    """A generated product.

    Attributes:
        asin: ten characters, unique in its catalogue.
        kind: what it is.
        brand: who makes it.
        attributes: what it has.
        asked: those of its attributes that its goals name.
        told: those that its title names; the others stand in its features alone.
        options: names of choices -> its values.
        price: in dollars.
    """

    asin: str
    kind: Kind
    brand: str
    attributes: tuple[str, ...]
    asked: tuple[str, ...]
    told: tuple[str, ...]
    options: dict[str, tuple[str, ...]] = field(hash=False)
    price: float = 0.0

    @property
    def title(self) -> str:
        """The title: brand, noun, and the attributes told."""
        *first, last = self.told or ("",)
        words = " and ".join(part for part in (", ".join(first), last) if part)
        return f"{self.brand} {self.kind.noun}{f' with {words}' if words else ''}"

    @property
    def category(self) -> str:
        """The category levels, the widest first."""
        return " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} ".join(
            (DEPARTMENTS[self.kind.category], *self.kind.path)
        )

    @property
    def nouns(self) -> list[str]:
        """The nouns of the title, as the reward compares them: of brand and kind."""
        return [self.brand.lower(), *self.kind.noun.split()]


def products(seed: int, difficulty: Difficulty) -> list[Product]:
    """Make the products of a catalogue.

    They come in families of one kind: a product, and `difficulty.duplicates` that are like it but for the price, the
    values of an option, or an attribute. Kinds take turns. All depends on the arguments alone.

    Returns:
        `difficulty.products` products, in random order.
    """
    taken: set[str] = set()
    made: list[Product] = []
    family = 0
    while len(made) < difficulty.products:
        rng = stream("webshop family", seed, family)
        made += _family(_TURNS[family % len(_TURNS)], difficulty, rng, taken)
        family += 1
    made = made[: difficulty.products]
    return [made[place] for place in stream("webshop order", seed).permutation(len(made)).tolist()]


def _family(kind: Kind, difficulty: Difficulty, rng: np.random.Generator, taken: set[str]) -> list[Product]:
    """Make a product and its near-duplicates."""
    attributes = _pick(kind.attributes, ATTRIBUTES, rng)
    names = _pick(tuple(kind.options), _between(difficulty.options, rng), rng)
    options = {name: _values(kind.options[name], difficulty, rng) for name in names}
    price = float(rng.integers(*kind.prices, endpoint=True)) + float(rng.choice(CENTS))
    family = [_product(kind, attributes, options, price, difficulty, rng, taken)]
    for number in range(difficulty.duplicates):
        # An attribute, a price, an option's values: in turn, so that every family has all of these traps.
        which = number % 3
        other, values, cost = attributes, options, price
        if which == 1:
            cost = round(price + float(rng.integers(*DEARER, endpoint=True)), 2)
        elif which == 2 and options:
            name = names[int(rng.integers(len(names)))]
            values = {**options, name: _other_values(kind.options[name], options[name], rng)}
        else:
            lost = int(rng.integers(len(attributes)))
            spare = [attribute for attribute in kind.attributes if attribute not in attributes]
            other = (*attributes[:lost], spare[int(rng.integers(len(spare)))], *attributes[lost + 1 :])
        family.append(_product(kind, other, values, cost, difficulty, rng, taken))
    return family


def _product(
    kind: Kind,
    attributes: tuple[str, ...],
    options: dict[str, tuple[str, ...]],
    price: float,
    difficulty: Difficulty,
    rng: np.random.Generator,
    taken: set[str],
) -> Product:
    asked = _pick(attributes, _between(difficulty.attributes, rng), rng)
    told = tuple(attribute for attribute in attributes if rng.random() >= difficulty.hidden)
    brand = BRANDS[int(rng.integers(len(BRANDS)))]
    while True:
        asin = "B0G" + "".join(LETTERS[place] for place in rng.integers(len(LETTERS), size=7).tolist())
        if asin not in taken:
            break
    taken.add(asin)
    return Product(asin, kind, brand, attributes, asked, told, options, price)


def _pick(things: tuple[str, ...], count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Return some of the things, at most all, in random order."""
    return tuple(things[place] for place in rng.permutation(len(things))[:count].tolist())


def _between(span: tuple[int, int], rng: np.random.Generator) -> int:
    return int(rng.integers(*span, endpoint=True))


def _values(pool: tuple[str, ...], difficulty: Difficulty, rng: np.random.Generator) -> tuple[str, ...]:
    """Return some values of an option, in the order of all."""
    chosen = set(_pick(pool, _between(difficulty.values, rng), rng))
    return tuple(value for value in pool if value in chosen)


def _other_values(pool: tuple[str, ...], values: tuple[str, ...], rng: np.random.Generator) -> tuple[str, ...]:
    """Return the values with one of them lacking: another in its place, where there is one."""
    lost = values[int(rng.integers(len(values)))]
    spare = [value for value in pool if value not in values]
    kept = {value for value in values if value != lost}
    if spare:
        kept.add(spare[int(rng.integers(len(spare)))])
    return tuple(value for value in pool if value in kept) or values
