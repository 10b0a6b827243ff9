"""Fixtures for the tests of WebShop: the reference data, and small catalogues."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envs.webshop import Catalogue, load_catalogue


@pytest.fixture(scope="session")
def webshop(shared: Path) -> Path:
    """The folder of WebShop's reference data."""
    folder = shared / "webshop"
    if not folder.is_dir():
        pytest.skip(f"no reference data at {folder}")
    return folder


@pytest.fixture(scope="session")
def vectors(webshop: Path) -> dict[str, Any]:
    """What the original engine answered."""
    return json.loads((webshop / "vectors.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def synth(webshop: Path) -> Catalogue:
    """The catalogue that the vectors are about."""
    return load_catalogue(webshop / "synth")


@pytest.fixture(scope="session")
def thousand(webshop: Path) -> Catalogue:
    """The public 1,000 products."""
    return load_catalogue(webshop)


ENTRY = {
    "asin": "B000000001",
    "name": "Oak Side Table with Drawer",
    "category": "garden",
    "query": "side tables",
    "product_category": "Home \u203a Furniture \u203a Tables",
    "full_description": "A table of solid oak.",
    "small_description": ["SOLID: made of oak.", "Easy to assemble."],
    "pricing": "$49.99",
    "images": ["https://example.invalid/1.jpg"],
    "customization_options": {"Color": [{"value": "Walnut"}, {"value": "Oak / Black"}], "Size": [{"value": "Small"}]},
}
INSTRUCTIONS = {
    "attributes": ["solid wood", "easy assemble"],
    "instruction": "Find me solid wood side tables",
    "instruction_attributes": ["solid wood"],
}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a catalogue: each product is given by what differs from a sound one; returns the folder.

    `files` adds files or replaces those that are made; None leaves one out.
    """

    def written(*changes: dict[str, Any], **files: Any) -> Path:
        entries = [ENTRY | change for change in changes or ({},)]
        entries = [{key: value for key, value in entry.items() if value is not ...} for entry in entries]
        known = {entry["asin"]: INSTRUCTIONS for entry in entries if isinstance(entry.get("asin"), str)}
        nouns = {asin: ["oak", "table", "drawer"] for asin in known}
        made = {"items_shuffle": entries, "items_ins_v2": known, "nouns": nouns, **files}
        for name, content in made.items():
            if content is not None:
                (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return tmp_path

    return written
