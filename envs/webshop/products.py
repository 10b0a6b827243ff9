"""A product, and how the entry of a catalogue file becomes one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from sys import intern
from typing import Any

#: What a product without a price costs, in dollars.
DEFAULT_PRICE = 100.0
#: The attribute of a product that the attribute file does not know.
NO_ATTRIBUTES = ("DUMMY_ATTR",)
RATING = "N.A."
LONGEST_ASIN = 10

_NOT_PRICE = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """What a person wrote for a product: the sentence, and the attributes and option values that it is about."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """One product as the shop knows it.

    Attributes:
        asin: the identifier.
        category: the top category ("beauty").
        query: the search words under which it was found, in lower case.
        product_category: the categories, "›" between them.
        title, description, bullet_points: its texts.
        prices: one price, or the two ends of a range, in dollars.
        price_tag: the price as pages show it.
        options: option name -> values; all in lower case.
        attributes: what the reward knows of it.
        instruction, instruction_attributes: for synthetic goals; None where there is none.
        human_instructions: for human goals.
        main_image: address of a picture, "" without one.
    """

    asin: str
    category: str
    query: str
    product_category: str
    title: str
    description: str
    bullet_points: tuple[str, ...]
    prices: tuple[float, ...]
    price_tag: str
    options: dict[str, tuple[str, ...]]
    attributes: tuple[str, ...] = NO_ATTRIBUTES
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] = ()
    human_instructions: tuple[HumanInstruction, ...] = ()
    main_image: str = ""

    def as_mapping(self) -> dict[str, Any]:
        """Return the product under the names that the original engine uses."""
        return {
            "asin": self.asin,
            "category": self.category,
            "query": self.query,
            "product_category": self.product_category,
            "name": self.title,
            "Title": self.title,
            "Description": self.description,
            "BulletPoints": list(self.bullet_points),
            "pricing": list(self.prices),
            "Price": self.price_tag,
            "options": {name: list(values) for name, values in self.options.items()},
            "Attributes": list(self.attributes),
            "MainImage": self.main_image,
            "Rating": RATING,
            "Reviews": [],
        }


class Repairs(list[str]):
    """What was wrong with an entry, in words; the list is empty for a sound one."""

    def text(self, entry: Mapping[str, Any], key: str) -> str:
        """Return a text of the entry, "" where it is missing or no text."""
        value = entry.get(key)
        if isinstance(value, str):
            return value
        self.append(f"no {key}" if value is None else f"{key} is not text")
        return ""


def read_product(
    entry: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    instructions: Sequence[Any] = (),
) -> tuple[Product, Repairs]:
    """Turn an entry of the product file into a product.

    Args:
        entry: as in `items_shuffle.json`, with an asin.
        attributes: what `items_ins_v2.json` says of it; None: nothing.
        instructions: what `items_human_ins.json` says of it.

    Returns:
        the product, and what had to be repaired: on those entries the original engine raises an exception.
    """
    repairs = Repairs()
    prices, tag = read_price(entry.get("pricing"), repairs)
    images = entry.get("images")
    if not (isinstance(images, list) and images and isinstance(images[0], str)):
        repairs.append("no images")
        images = [""]
    known = attributes if isinstance(attributes, Mapping) else {}
    if attributes is None:
        repairs.append("not in the attribute file")
    instruction = known.get("instruction")
    wanted = _texts(known.get("instruction_attributes"))
    if instruction is not None and not (isinstance(instruction, str) and wanted):
        repairs.append("an instruction without attributes")
        instruction = None
    own = known.get("attributes")
    return (
        Product(
            asin=entry["asin"],
            category=intern(repairs.text(entry, "category")),
            query=intern(repairs.text(entry, "query").lower().strip()),
            product_category=intern(repairs.text(entry, "product_category")),
            title=repairs.text(entry, "name"),
            description=repairs.text(entry, "full_description"),
            bullet_points=_bullet_points(entry.get("small_description"), repairs),
            prices=prices,
            price_tag=tag,
            options=_options(entry.get("customization_options"), repairs),
            attributes=NO_ATTRIBUTES if own is None else _texts(own),
            instruction=instruction,
            instruction_attributes=wanted,
            human_instructions=_human(instructions, repairs),
            main_image=images[0],
        ),
        repairs,
    )


def read_price(pricing: Any, repairs: Repairs) -> tuple[tuple[float, ...], str]:
    """Return the price, or the two ends of its range, and the tag that pages show.

    Every part after a `$` is a price, of which the first two count; without any it is the default.
    """
    if not pricing:
        return (DEFAULT_PRICE,), f"${DEFAULT_PRICE}"
    prices: list[float] = []
    if not isinstance(pricing, str):
        repairs.append(f"price {pricing!r} is not text")
    elif "$" not in pricing:
        repairs.append(f"price {pricing!r} has no $")
    else:
        try:
            prices = [float(Decimal(_NOT_PRICE.sub("", part))) for part in pricing.split("$")[1:]]
        except InvalidOperation:
            repairs.append(f"price {pricing!r} is no number")
    prices = prices or [DEFAULT_PRICE]
    return tuple(prices[:2]), " to ".join(f"${price}" for price in prices[:2])


def _bullet_points(value: Any, repairs: Repairs) -> tuple[str, ...]:
    points = value if isinstance(value, list) else [value]
    texts = tuple(point for point in points if isinstance(point, str))
    if not points or len(texts) < len(points):
        repairs.append("no small_description")
    return texts


def _options(value: Any, repairs: Repairs) -> dict[str, tuple[str, ...]]:
    if not value:
        return {}
    if not isinstance(value, Mapping):
        repairs.append("customization_options is no object")
        return {}
    options = {}
    for name, choices in value.items():
        if choices is None:
            continue
        values = []
        for choice in choices if isinstance(choices, list) else [None]:
            text = choice.get("value") if isinstance(choice, Mapping) else None
            if isinstance(text, str):
                values.append(intern(text.strip().replace("/", " | ").lower()))
            else:
                repairs.append(f"option {name!r} has a choice without value")
        options[intern(name.lower())] = tuple(values)
    return options


def _human(instructions: Any, repairs: Repairs) -> tuple[HumanInstruction, ...]:
    found = []
    for given in instructions if isinstance(instructions, Sequence) else ():
        text = given.get("instruction") if isinstance(given, Mapping) else None
        if isinstance(text, str):
            parts = (_texts(given.get(key)) for key in ("instruction_attributes", "instruction_options"))
            found.append(HumanInstruction(text, *parts))
        else:
            repairs.append("a human instruction without text")
    return tuple(found)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(intern(item) for item in value if isinstance(item, str)) if isinstance(value, list) else ()
