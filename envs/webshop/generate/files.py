"""A catalogue as files, in the schema of WebShop's (arXiv 2207.01206)."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envs.streams import stream
from envs.webshop.generate.products import Product, products
from envs.webshop.task_settings import Difficulty

PRODUCTS, ATTRIBUTES, HUMAN, NOUNS = (
    "items_shuffle.json",
    "items_ins_v2.json",
    "items_human_ins.json",
    "nouns.json",
)


def generate(folder: Path, seed: int, difficulty: Difficulty | None = None) -> list[Product]:
    """Write a catalogue into a folder: products, attributes with instructions, human instructions, nouns of titles.

    The same arguments give the same files.

    Returns:
        The products, in the order of the files.
    """
    made = products(seed, difficulty or Difficulty())
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / PRODUCTS, [_product(item) for item in made])
    _write(folder / ATTRIBUTES, {item.asin: _attributes(item) for item in made})
    _write(folder / HUMAN, {item.asin: [_human(item, seed)] for item in made})
    _write(folder / NOUNS, {item.asin: item.nouns for item in made})
    return made


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _product(item: Product) -> dict[str, Any]:
    """Return a product as the original's first file holds it; what that engine does not read is left out."""
    hidden = [attribute for attribute in item.attributes if attribute not in item.told]
    shown = [attribute for attribute in item.attributes if attribute in item.told]
    return {
        "asin": item.asin,
        "name": item.title,
        "brand": item.brand,
        "category": item.kind.category,
        "product_category": item.category,
        "query": item.kind.query,
        "pricing": f"${item.price:.2f}",
        "average_rating": "",
        "total_reviews": 0,
        "images": [f"https://example.invalid/{item.asin}.jpg"],
        "full_description": f"This {item.kind.noun} was made by {item.brand}.",
        # The search index reads the first of these alone: what a title hides is not found through it.
        "small_description": [f"Sold by {item.brand}.", *(f"Feature: {part}." for part in (*shown, *hidden))],
        "customization_options": {
            name: [{"value": value, "is_selected": False, "image": None} for value in values]
            for name, values in item.options.items()
        },
    }


def _attributes(item: Product) -> dict[str, Any]:
    return {
        "attributes": list(item.attributes),
        "instruction": f"Find me {', '.join(item.asked)} {item.kind.query}",
        "instruction_attributes": list(item.asked),
    }


def _human(item: Product, seed: int) -> dict[str, Any]:
    """Return an instruction as a person might write it, for one choice of the options."""
    rng = stream("webshop human", seed, item.asin)
    chosen = {name: values[int(rng.integers(len(values)))] for name, values in item.options.items()}
    opening = ("i would like", "please find", "i am after", "show me")[int(rng.integers(4))]
    values = f" in {_listed(chosen.values())}" if chosen else ""
    return {
        "asin": item.asin,
        "instruction": f"{opening} {item.kind.query} with {_listed(item.asked)}{values}",
        "attributes": list(item.attributes),
        "options": [f"{name}: {value}" for name, value in chosen.items()],
        "instruction_attributes": list(item.asked),
        "instruction_options": list(chosen.values()),
        "assignment_id": "",
        "worker_id": "",
    }


def _listed(words: Iterable[str]) -> str:
    """Return "a, b and c"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
