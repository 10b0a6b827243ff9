"""A full-text index ranked by BM25, in Lucene's arithmetic.

Lucene (8, the one of Pyserini 0.17 and Anserini 0.14) scores in single precision, keeps a document's length in one
byte, and adds up the terms' scores in double precision before it rounds to single. All of that shows in the order of
results.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.webshop.search.analysis import analyse

#: The defaults of Pyserini.
K1 = np.float32(0.9)
B = np.float32(0.4)


class _Term(NamedTuple):
    """A term: where its postings are, and its inverse document frequency."""

    rows: slice
    weight: np.float32


class Index:
    """An inverted index over documents, numbered from 0 in the order given.

    Attributes:
        documents: how many there are.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Index texts; they are read once and not kept."""
        numbers: dict[str, int] = {}
        terms, documents, frequencies, lengths = array("i"), array("i"), array("i"), array("i")
        for document, text in enumerate(texts):
            found = Counter(analyse(text))
            for term in found:
                numbers.setdefault(term, len(numbers))
            terms.extend(map(numbers.__getitem__, found))
            documents.extend(repeat(document, len(found)))
            frequencies.extend(found.values())
            lengths.append(found.total())
        self.documents = len(lengths)
        by_term = np.argsort(np.frombuffer(terms, np.int32), kind="stable") if terms else np.empty(0, np.intp)
        counts = np.bincount(np.frombuffer(terms, np.int32), minlength=len(numbers)) if terms else np.empty(0, np.intp)
        ends = np.cumsum(counts)
        rows = map(slice, (ends - counts).tolist(), ends.tolist())
        self._postings = _as_array(documents, np.int32)[by_term]
        weights = _inverse_document_frequencies(counts, sum(length > 0 for length in lengths))
        self._terms = dict(zip(numbers, map(_Term, rows, weights), strict=True))
        # Of each posting what does not depend on the query: 1 + frequency / norm.
        norms = _inverse_norms(_as_array(lengths, np.int64))
        frequency = _as_array(frequencies, np.int32)[by_term].astype(np.float32)
        self._saturation = frequency * norms[self._postings] + np.float32(1)

    def scores(self, query: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the documents that hold a word of the query, ascending, and their scores."""
        counts = Counter(analyse(query))
        known = [(self._terms[term], times) for term, times in counts.items() if term in self._terms]
        if not known:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        postings = np.concatenate([self._postings[term.rows] for term, _ in known])
        parts = np.concatenate([self._parts(term, times) for term, times in known])
        total = np.bincount(postings, parts, self.documents)  # adds up in double precision
        found = total.nonzero()[0]
        return found, total[found].astype(np.float32)

    def _parts(self, term: "_Term", times: int) -> NDArray[np.float32]:
        """Return what a term, so many times in the query, adds to the scores of the documents that have it."""
        weight = term.weight * np.float32(times) if times > 1 else term.weight
        return weight - weight / self._saturation[term.rows]


def _as_array(values: array, kind: type) -> NDArray:
    return np.array(values, dtype=kind)


def _inverse_document_frequencies(counts: NDArray, documents: int) -> NDArray[np.float32]:
    """Return each term's idf; `documents` are those that have any term."""
    values = (math.log(1 + (documents - count + 0.5) / (count + 0.5)) for count in counts.tolist())
    return np.fromiter(values, np.float32, len(counts))


def _inverse_norms(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return 1 / (k1 (1 - b + b length / average)) of each document, the length as one byte can tell it."""
    filled = int(np.count_nonzero(lengths))
    if filled == 0:
        return np.zeros(len(lengths), np.float32)
    average = np.float32(int(lengths.sum()) / filled)
    one = np.float32(1)
    kept = {int(length): shorten(int(length)) for length in np.unique(lengths)}
    rounded = np.array([kept[length] for length in lengths.tolist()], np.float32)
    return one / (K1 * ((one - B) + B * rounded / average))


def shorten(length: int) -> int:
    """Return a length after the way through Lucene's one byte: exact below 40, then four significant bits.

    The byte is a small float of three mantissa bits; since 24 of its values are not needed for it to reach 2^31 - 1,
    lengths below 24 are kept as they are, and the float begins there.
    """
    exact = 24
    if length < exact:
        return length
    rest = length - exact
    drop = max(rest.bit_length() - 4, 0)
    return exact + ((rest >> drop) << drop)
