"""The catalogue: the products of a folder, loaded once a process and shared by all environments."""

import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from envs.base import EnvironmentDataError
from envs.webshop.json_stream import read_items, read_pairs
from envs.webshop.nouns import NounBook, guess_nouns
from envs.webshop.products import LONGEST_ASIN, Product, read_product
from envs.webshop.search import Search

_KINDS = {
    "products": "items_shuffle",
    "attributes": "items_ins_v2",
    "instructions": "items_human_ins",
    "nouns": "nouns",
}
_WHERE = (
    "WebShop's setup script (github.com/princeton-nlp/WebShop, setup.sh) fetches the official files; "
    "`source: generated` needs none"
)


class Files(NamedTuple):
    """The files of a catalogue; None: there is none of that kind."""

    products: Path
    attributes: Path
    instructions: Path | None
    nouns: Path | None


class Catalogue:
    """Products in the order of their file, by asin and by search.

    Attributes:
        products: all of them.
        by_asin: asin -> product.
        nouns: the nouns of product names.
        repaired: asin -> what was wrong with the entry, for entries on which the original engine fails.
        source: where it is from, for messages.
    """

    def __init__(
        self,
        products: Iterable[Product],
        nouns: NounBook | None = None,
        repaired: dict[str, list[str]] | None = None,
        source: str = "the catalogue",
    ) -> None:
        """Make a catalogue of products with asins that differ."""
        self.products = tuple(products)
        self.by_asin = {product.asin: product for product in self.products}
        self.nouns = nouns or NounBook({}, source)
        self.repaired = repaired or {}
        self.source = source
        self._lock = threading.RLock()
        self._kept: dict[Any, Any] = {}

    @cached_property
    def by_label(self) -> dict[str, str]:
        """Return asin by the label that a click names it with: in lower case."""
        return {asin.lower(): asin for asin in self.by_asin}

    @property
    def search(self) -> Search:
        """Return the full-text search, indexed at the first use."""
        return self.keep("search", lambda: Search(self))

    def nouns_of(self, asin: str, name: str) -> Sequence[str]:
        """Return the nouns of a name: those known of the product, if it is its name, else guessed."""
        product = self.by_asin.get(asin)
        return self.nouns.of(asin, name) if product and product.title == name else guess_nouns(name)

    def keep(self, key: Any, make: Any) -> Any:
        """Return what was made under a key before, or make it: what all environments share of this catalogue."""
        if key not in self._kept:
            with self._lock:
                if key not in self._kept:
                    self._kept[key] = make()
        return self._kept[key]


_loaded: dict[Any, Catalogue] = {}
_loading = threading.RLock()


def load_catalogue(folder: str | Path, strict: bool = False) -> Catalogue:
    """Load a catalogue, or return the one that this process loaded from the same files before.

    Args:
        folder: holds `items_shuffle*.json` and `items_ins_v2*.json`, and may hold `items_human_ins*.json` and
            `nouns*.json` (each may end in `.gz`); or the path of the product file, where the folder has several.
        strict: refuse products on which the original engine fails, instead of repairing and naming them.

    Raises:
        EnvironmentDataError: a file is missing, damaged or of another kind, or, when strict, a product is.
    """
    files = find_files(Path(folder))
    stamps = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files if path)
    with _loading:
        if (stamps, strict) not in _loaded:
            _loaded[stamps, strict] = _load(files, strict)
        return _loaded[stamps, strict]


def find_files(folder: Path) -> Files:
    """Return the files of a catalogue; raises EnvironmentDataError naming what is missing and where to get it."""
    named = folder.name.startswith(_KINDS["products"]) and folder.is_file()
    place = (folder.parent if named else folder).absolute()
    if not place.is_dir():
        raise EnvironmentDataError(f"{folder}: no such folder of WebShop data; {_WHERE}")
    there = {kind: _matching(place, stem) for kind, stem in _KINDS.items()}
    products = there["products"]
    if named:
        suffix = _suffix(folder.name, _KINDS["products"])
    elif len(products) == 1:
        suffix = next(iter(products))
    elif products:
        names = ", ".join(path.name for path in products.values())
        raise EnvironmentDataError(f"{place}: several product files ({names}); give the path of one, not the folder's")
    else:
        raise EnvironmentDataError(f"{place}: no {_KINDS['products']}*.json; {_WHERE}")
    chosen = {kind: _choose(found, suffix) for kind, found in there.items() if kind != "products"}
    if chosen["attributes"] is None:
        raise EnvironmentDataError(f"{place}: no {_KINDS['attributes']}{suffix}.json; {_WHERE}")
    return Files(place / folder.name if named else products[suffix], **chosen)


def nouns_path(products: Path) -> Path:
    """Return where the nouns of a product file belong."""
    return products.with_name(f"{_KINDS['nouns']}{_suffix(products.name, _KINDS['products'])}.json")


def _matching(place: Path, stem: str) -> dict[str, Path]:
    """Return the files of a kind by what follows the stem in their names."""
    found = {}
    for path in sorted(place.iterdir()):
        suffix = _suffix(path.name, stem)
        if suffix is not None:
            found.setdefault(suffix, path)
    return found


def _suffix(name: str, stem: str) -> str | None:
    match = re.fullmatch(re.escape(stem) + r"(.*)\.json(?:\.gz)?", name)
    return match[1] if match else None


def _choose(found: dict[str, Path], suffix: str) -> Path | None:
    """Return the file that goes with a product file: of the same suffix, else the one for all, else the only one."""
    only = next(iter(found.values())) if len(found) == 1 else None
    return found.get(suffix) or found.get("") or only


def _load(files: Files, strict: bool) -> Catalogue:
    attributes = dict(read_pairs(files.attributes))
    instructions = dict(read_pairs(files.instructions)) if files.instructions else {}
    repaired: dict[str, list[str]] = {}

    def products() -> Iterator[Product]:
        seen: set[str] = set()
        for position, entry in enumerate(read_items(files.products)):
            asin = entry.get("asin") if isinstance(entry, dict) else None
            if not isinstance(asin, str) or not asin:
                _repair(f"number {position}", ["no asin: left out"], files.products, strict, repaired)
                continue
            if asin == "nan" or len(asin) > LONGEST_ASIN or asin in seen:
                continue
            seen.add(asin)
            product, repairs = read_product(entry, attributes.pop(asin, None), instructions.pop(asin, ()))
            if repairs:
                _repair(asin, repairs, files.products, strict, repaired)
            yield product

    found = tuple(products())
    if not found:
        raise EnvironmentDataError(f"{files.products}: holds no product")
    if repaired:
        first, what = next(iter(repaired.items()))
        warnings.warn(
            f"{files.products}: repaired {len(repaired)} of {len(found)} products, first {first} ({', '.join(what)}); "
            "`Catalogue.repaired` has them all",
            stacklevel=3,
        )
    nouns = NounBook.read(files.nouns) if files.nouns else NounBook({}, str(files.products))
    return Catalogue(found, nouns, repaired, str(files.products))


def _repair(name: str, what: list[str], path: Path, strict: bool, repaired: dict[str, list[str]]) -> None:
    if strict:
        raise EnvironmentDataError(f"{path}: product {name}: {', '.join(what)}; mend it, or load without `strict`")
    repaired[name] = list(what)
