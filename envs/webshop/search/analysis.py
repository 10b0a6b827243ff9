"""From text to index terms, as Lucene's English analysis goes: words, possessives, lower case, stop words, stems."""

from functools import lru_cache

from envs.webshop.search.stemmer import stem
from envs.webshop.search.word_break import split_words

#: Lucene's English stop words, all 33.
STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)

_APOSTROPHES = ("'", "\u2019", "\uff07")


def analyse(text: str) -> list[str]:
    """Return the terms of a text in order."""
    return [term for term in map(_term, split_words(text)) if term is not None]


@lru_cache(maxsize=1 << 16)
def _term(word: str) -> str | None:
    """Return the term of a word, None for a stop word."""
    if len(word) >= 2 and word[-1] in "sS" and word[-2] in _APOSTROPHES:
        word = word[:-2]
    word = _lower(word)
    return None if word in STOP_WORDS else stem(word)


def _lower(word: str) -> str:
    """Lower a word character by character, as Java does: no final sigma, and no letter becomes two."""
    if word.isascii():
        return word.lower()
    return "".join("i" if letter == "\u0130" else letter.lower() for letter in word)
