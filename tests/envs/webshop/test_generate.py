"""Generated catalogues: what is in them, and that they depend on their arguments alone."""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from rapidfuzz.fuzz import token_set_ratio

from envs.webshop.generate import Product, generate
from envs.webshop.generate.words import BRANDS, KINDS
from envs.webshop.task_settings import Difficulty


def read(folder: Path, name: str):
    return json.loads((folder / name).read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("catalogue")


@pytest.fixture(scope="module")
def made(folder: Path) -> list[Product]:
    return generate(folder, seed=3, difficulty=Difficulty(products=200))


def test_the_files_depend_on_the_arguments_alone(folder: Path, made: list[Product], tmp_path: Path) -> None:
    generate(tmp_path / "again", seed=3, difficulty=Difficulty(products=200))
    generate(tmp_path / "other", seed=4, difficulty=Difficulty(products=200))
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["items_human_ins.json", "items_ins_v2.json", "items_shuffle.json", "nouns.json"]
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
        assert (tmp_path / "other" / name).read_bytes() != (folder / name).read_bytes()


def test_every_file_knows_every_product(folder: Path, made: list[Product]) -> None:
    asins = [entry["asin"] for entry in read(folder, "items_shuffle.json")]
    assert asins == [product.asin for product in made]
    assert len(set(asins)) == 200
    assert {len(asin) for asin in asins} == {10}
    for name in ("items_ins_v2.json", "items_human_ins.json", "nouns.json"):
        assert list(read(folder, name)) == asins


def test_categories_are_spread_evenly(made: list[Product]) -> None:
    counts = Counter(product.kind.category for product in made)
    assert set(counts) == {"beauty", "electronics", "fashion", "garden", "grocery"}
    assert max(counts.values()) - min(counts.values()) <= 4


def test_families_are_alike_but_for_one_thing(folder: Path) -> None:
    """Of the near-duplicates one lacks an attribute, one is dearer than any bound, and one lacks an option's value."""
    made = generate(folder / "families", seed=0, difficulty=Difficulty(products=80, options=(1, 2), duplicates=3))
    by_kind: dict[str, list[Product]] = {}
    for product in made:
        by_kind.setdefault(product.kind.query, []).append(product)
    assert {len(family) for family in by_kind.values()} == {4}
    for family in by_kind.values():
        pairs = list(combinations(family, 2))
        shared = [len(set(a.attributes) & set(b.attributes)) for a, b in pairs]
        assert sorted(shared) == [2, 2, 2, 3, 3, 3]
        other = [a.options != b.options for a, b in pairs]
        assert sum(other) == 3
        dearer = [abs(a.price - b.price) for a, b in pairs if a.price != b.price]
        assert len(dearer) == 3
        assert min(dearer) >= 50


def test_difficulty_is_kept(folder: Path) -> None:
    hard = Difficulty(products=60, attributes=(3, 3), options=(0, 0), hidden=1.0, duplicates=0)
    made = generate(folder / "hard", seed=0, difficulty=hard)
    assert {len(product.asked) for product in made} == {3}
    assert not any(product.options for product in made)
    for product, entry in zip(made, read(folder / "hard", "items_shuffle.json"), strict=True):
        first, *features = entry["small_description"]
        for attribute in product.attributes:
            assert attribute not in " ".join([entry["name"], entry["full_description"], first]).lower()
            assert any(attribute in feature for feature in features)
    values = Difficulty(products=60, values=(2, 2), options=(1, 1))
    made = generate(folder / "values", seed=0, difficulty=values)
    assert {len(values) for product in made for values in product.options.values()} == {2}


def test_words_cannot_be_taken_for_each_other() -> None:
    """By the reward's own measure of likeness, of an attribute with another of its kind, of a value with another."""
    assert len(set(BRANDS)) == len(BRANDS)
    for kind in KINDS:
        for a, b in combinations(kind.attributes, 2):
            assert token_set_ratio(a, b) <= 85, (a, b)
            assert set(a.split()).isdisjoint(b.split())
        for name, values in kind.options.items():
            for a, b in combinations(values, 2):
                assert token_set_ratio(a, f"{name} {b}") <= 85, (a, b)
                assert token_set_ratio(b, f"{name} {a}") <= 85, (a, b)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attributes": (2, 1)}, "attributes: the least is more than the most"),
        ({"attributes": (0, 1)}, "attributes: must be 1 or more"),
        ({"values": (0, 2)}, "values: must be 1 or more"),
        ({"hidden": 1.5}, "hidden"),
        ({"products": 0}, "products"),
    ],
)
def test_bad_difficulty_is_refused(settings: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Difficulty(**settings)
