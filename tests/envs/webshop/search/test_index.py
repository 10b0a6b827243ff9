"""Ranking: BM25 by hand, lossy lengths, order of equals."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from envs.webshop import Catalogue, Search, load_catalogue
from envs.webshop.search.engine import document
from envs.webshop.search.index import Index, shorten


def test_scores_are_bm25() -> None:
    texts = ["red shoes", "red red hat", "blue hat of wool", "the"]
    found, scores = Index(texts).scores("red hat")
    assert found.tolist() == [0, 1, 2]
    average = (2 + 3 + 3) / 3  # "of" and "the" are stop words; the last text is empty, and counts for nothing
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))

    def part(times: int, length: int) -> float:
        return idf * times / (times + 0.9 * (1 - 0.4 + 0.4 * length / average))

    assert scores.tolist() == pytest.approx([part(1, 2), part(2, 3) + part(1, 3), part(1, 3)], rel=1e-6)
    assert scores.dtype == np.float32


def test_repeated_words_weigh_more() -> None:
    index = Index(["tea", "cup", "tea cup"])
    _, once = index.scores("tea")
    _, twice = index.scores("tea tea")
    assert twice.tolist() == pytest.approx((2 * once).tolist())


def test_lengths_as_one_byte_tells_them() -> None:
    # The values of Lucene's SmallFloat.byte4ToInt(intToByte4(length)).
    assert [shorten(length) for length in (0, 23, 24, 39, 40, 41, 42, 55, 56, 59, 60, 100, 1000)] == [
        0, 23, 24, 39, 40, 40, 42, 54, 56, 56, 60, 96, 984,
    ]  # fmt: skip
    assert len({shorten(length) for length in range(1 << 16)}) < 256


def test_empty() -> None:
    assert Index([]).scores("tea")[0].tolist() == []
    assert Index(["", "the"]).scores("tea the")[0].tolist() == []


def test_equals_are_ordered_by_asin(write: Callable[..., Path]) -> None:
    asins = ["B3", "B1", "B2"]
    catalogue = load_catalogue(write(*({"asin": asin} for asin in asins)))
    assert catalogue.search("oak table") == ["B1", "B2", "B3"]
    assert catalogue.search("oak table", limit=2) == ["B1", "B2"]


def test_queries_that_find_nothing(write: Callable[..., Path]) -> None:
    search = Search(write())
    assert search("") == search("the") == search("xyzzy") == search("\u3000!?") == []
    assert search("oak " * 2500) == ["B000000001"]


def test_documents(write: Callable[..., Path]) -> None:
    product = load_catalogue(write()).products[0]
    assert document(product) == (
        "oak side table with drawer a table of solid oak. solid: made of oak. "
        "color: walnut, oak  |  black, and size: small"
    )


def test_no_more_than_fifty(thousand: Catalogue) -> None:
    found = thousand.search("women")
    assert len(found) == 50 == len(set(found))
    assert thousand.search("women", limit=1000)[:50] == found
