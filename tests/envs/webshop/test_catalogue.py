"""Loading a catalogue: what is kept, repaired, refused."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envs.base import EnvironmentDataError
from envs.webshop import load_catalogue, make_goals
from envs.webshop.catalogue import find_files
from envs.webshop.json_stream import read_items, read_pairs
from envs.webshop.products import Repairs, read_price

Write = Callable[..., Path]


def test_loaded_once_a_process(write: Write) -> None:
    folder = write()
    catalogue = load_catalogue(folder)
    assert load_catalogue(str(folder)) is catalogue
    assert catalogue.search is load_catalogue(folder).search
    assert make_goals(catalogue) is make_goals(load_catalogue(folder))
    write({"name": "Another Table"})
    assert load_catalogue(folder).products[0].title == "Another Table"


def test_dropped_as_in_the_original(write: Write) -> None:
    folder = write({}, {"name": "Again"}, {"asin": "nan"}, {"asin": "B0123456789"}, {"asin": "B2"})
    catalogue = load_catalogue(folder)
    assert [product.asin for product in catalogue.products] == ["B000000001", "B2"]
    assert catalogue.by_asin["B000000001"].title == "Oak Side Table with Drawer"
    assert not catalogue.repaired


@pytest.mark.parametrize(
    ("change", "repair"),
    [
        ({"pricing": "12.50"}, "price '12.50' has no $"),
        ({"pricing": "$15.99."}, "price '$15.99.' is no number"),
        ({"pricing": 12.5}, "price 12.5 is not text"),
        ({"images": []}, "no images"),
        ({"images": ...}, "no images"),
        ({"name": None}, "no name"),
        ({"name": ...}, "no name"),
        ({"full_description": 7}, "full_description is not text"),
        ({"small_description": []}, "no small_description"),
        ({"small_description": [None, "x"]}, "no small_description"),
        ({"customization_options": [1]}, "customization_options is no object"),
        ({"customization_options": {"Color": [{"image": "u"}]}}, "option 'Color' has a choice without value"),
        ({"customization_options": {"Color": "red"}}, "option 'Color' has a choice without value"),
        ({"query": ...}, "no query"),
    ],
)
def test_repairs(write: Write, change: dict[str, Any], repair: str) -> None:
    folder = write(change, {"asin": "B2"})
    with pytest.warns(UserWarning, match="repaired 1 of 2 products, first B000000001"):
        catalogue = load_catalogue(folder)
    assert catalogue.repaired == {"B000000001": [repair]}
    assert catalogue.by_asin["B000000001"].prices in ((49.99,), (100.0,))
    assert catalogue.search("side table")
    with pytest.raises(EnvironmentDataError, match=r"product B000000001: .*mend it") as refused:
        load_catalogue(folder, strict=True)
    assert repair in str(refused.value)


def test_no_price_and_no_options_are_sound(write: Write) -> None:
    catalogue = load_catalogue(write({"pricing": ..., "customization_options": ...}), strict=True)
    product = catalogue.products[0]
    assert (product.prices, product.price_tag, product.options) == ((100.0,), "$100.0", {})


def test_asin_missing_from_the_attribute_file(write: Write) -> None:
    folder = write({}, {"asin": "B2"}, items_ins_v2={"B2": {"instruction": "x", "instruction_attributes": ["y"]}})
    with pytest.warns(UserWarning, match="not in the attribute file"):
        catalogue = load_catalogue(folder)
    assert catalogue.products[0].attributes == ("DUMMY_ATTR",)
    assert {goal.asin for goal in make_goals(catalogue, "original")} == {"B2"}


def test_entries_without_asin(write: Write) -> None:
    folder = write({}, {"asin": ...}, {"asin": 5})
    with pytest.warns(UserWarning, match="number 1"):
        assert len(load_catalogue(folder).products) == 1


def test_html_and_emoji_stay(write: Write) -> None:
    title = "<b>Oak</b> &amp; Table \u2764\ufe0f \U0001f44d"
    catalogue = load_catalogue(write({"name": title}))
    assert catalogue.products[0].title == title
    assert catalogue.search("\u2764\ufe0f") == catalogue.search("amp") == ["B000000001"]


def test_gzipped(write: Write) -> None:
    folder = write()
    plain = folder / "items_shuffle.json"
    (folder / "items_shuffle.json.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert len(load_catalogue(folder).products) == 1


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.99])
def test_truncated(write: Write, kept: float) -> None:
    path = write() / "items_shuffle.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: int(len(text) * kept)], encoding="utf-8")
    with pytest.raises(
        EnvironmentDataError, match=r"items_shuffle\.json: not valid JSON at character \d+: the file ends"
    ):
        load_catalogue(path.parent)
    packed = path.with_suffix(".json.gz")
    packed.write_bytes(gzip.compress(text.encode())[:-12])
    path.unlink()
    with pytest.raises(EnvironmentDataError, match="damaged or cut"):
        load_catalogue(path.parent)


@pytest.mark.parametrize("text", ['{"a": 1}', "", "[1", "[1 2]", "[1] x", "nothing", '["a\nb"]', "[" * 100_000])
def test_other_json(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(EnvironmentDataError, match=r"x\.json: not valid JSON at character"):
        list(read_items(path))


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"[\xff]")
    with pytest.raises(EnvironmentDataError, match="not UTF-8"):
        list(read_items(path))
    path.write_bytes(b'["not packed"]')
    with pytest.raises(EnvironmentDataError, match="damaged"):
        list(read_items(path.rename(tmp_path / "x.json.gz")))


def test_streams_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envs.webshop.json_stream._CHUNK", 3)
    values = [12345678, {"a": ["\u2764\ufe0f", None, 1.5e10]}, "x" * 99, [], True]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")
    assert list(read_items(path)) == values
    path.write_text(json.dumps({str(number): value for number, value in enumerate(values)}), encoding="utf-8")
    assert [value for _, value in read_pairs(path)] == values
    path.write_text(" [ ] ", encoding="utf-8")
    assert list(read_items(path)) == []


def test_missing_files(write: Write, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentDataError, match=r"nowhere: no such folder .*setup\.sh"):
        load_catalogue(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(EnvironmentDataError, match=r"no items_shuffle\*\.json"):
        load_catalogue(tmp_path / "empty")
    folder = write()
    (folder / "items_ins_v2.json").unlink()
    with pytest.raises(EnvironmentDataError, match=r"no items_ins_v2\.json"):
        load_catalogue(folder)
    (folder / "items_ins_v2.json").write_text("{}", encoding="utf-8")
    (folder / "items_shuffle.json").write_text("[]", encoding="utf-8")
    with pytest.raises(EnvironmentDataError, match="holds no product"):
        load_catalogue(folder)


def test_several_catalogues_in_a_folder(write: Write) -> None:
    folder = write(items_shuffle_9=[], items_ins_v2_9={}, items_human_ins={}, nouns_9={})
    with pytest.raises(EnvironmentDataError, match="several product files"):
        find_files(folder)
    files = find_files(folder / "items_shuffle_9.json")
    assert [path and path.name for path in files] == [
        "items_shuffle_9.json",
        "items_ins_v2_9.json",
        "items_human_ins.json",
        "nouns_9.json",
    ]
    assert find_files(folder / "items_shuffle.json").attributes.name == "items_ins_v2.json"


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [("$5 - $6 - $7", (5.0, 6.0), "$5.0 to $6.0"), ("$15.", (15.0,), "$15.0"), ("USD $1,299", (1299.0,), "$1299.0")],
)
def test_prices(pricing: str, prices: tuple[float, ...], tag: str) -> None:
    repairs = Repairs()
    assert read_price(pricing, repairs) == (prices, tag)
    assert not repairs
