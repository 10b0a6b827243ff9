"""The nouns of product names, which the reward compares.

The original engine asks spaCy for them at every purchase. Here they are read from a file beside the catalogue, asin ->
nouns in lower case, in the order of the name and with repetitions; `progpo webshop nouns` makes it, once.
"""

import importlib
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from envs.base import EnvironmentDataError
from envs.webshop.json_stream import read_pairs

_WORD = re.compile(r"\b[^\W\d_][\w'\u2019-]*")
#: Words that are common in product names, and no nouns.
_OTHERS = frozenset(
    [
        "a",
        "about",
        "adjustable",
        "all",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "best",
        "big",
        "black",
        "blue",
        "brown",
        "by",
        "can",
        "classic",
        "deluxe",
        "easy",
        "elegant",
        "extra",
        "for",
        "free",
        "from",
        "full",
        "gold",
        "gray",
        "great",
        "green",
        "grey",
        "handmade",
        "heavy",
        "high",
        "in",
        "into",
        "is",
        "it",
        "its",
        "large",
        "light",
        "lightweight",
        "long",
        "low",
        "made",
        "mini",
        "multi",
        "natural",
        "new",
        "no",
        "non",
        "not",
        "of",
        "off",
        "on",
        "or",
        "organic",
        "our",
        "out",
        "over",
        "perfect",
        "pink",
        "plus",
        "portable",
        "premium",
        "professional",
        "purple",
        "red",
        "regular",
        "round",
        "safe",
        "short",
        "silver",
        "slim",
        "small",
        "soft",
        "suitable",
        "super",
        "that",
        "the",
        "this",
        "to",
        "under",
        "up",
        "upgraded",
        "use",
        "warm",
        "waterproof",
        "white",
        "wide",
        "with",
        "without",
        "wireless",
        "yellow",
        "you",
        "your",
    ]
)


class NounBook:
    """The nouns of product names, by asin.

    Without an entry they are guessed: all words of the name that begin with a letter, but for some hundred that are no
    nouns. The guess rates likeness of names about as the real ones do, but rewards will differ from the original's.
    """

    def __init__(self, nouns: Mapping[str, Sequence[str]], source: str) -> None:
        """Keep nouns; `source` names the catalogue in the warning of the first guess."""
        self._nouns = dict(nouns)
        self._source = source
        self._warned = False

    @classmethod
    def read(cls, path: Path) -> "NounBook":
        """Read a nouns file; raises EnvironmentDataError."""
        known: dict[str, str] = {}  # equal words are kept once
        nouns = {}
        for asin, words in read_pairs(path):
            if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
                raise EnvironmentDataError(f"{path}: {asin}: expected a list of words")
            nouns[asin] = tuple(known.setdefault(word, word) for word in words)
        return cls(nouns, str(path))

    def of(self, asin: str, name: str) -> Sequence[str]:
        """Return the nouns of a product's name, in lower case."""
        found = self._nouns.get(asin)
        if found is None:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"{self._source}: no nouns of product {asin}: they are guessed, and rewards may differ from the "
                    "original engine's; `progpo webshop nouns FOLDER` makes the file",
                    stacklevel=2,
                )
            found = self._nouns[asin] = guess_nouns(name)
        return found


def guess_nouns(name: str) -> tuple[str, ...]:
    """Return the words of a name that may be nouns, in lower case."""
    words = (word.lower() for word in _WORD.findall(name))
    return tuple(word for word in words if word not in _OTHERS and len(word) > 1)


def find_nouns(names: Iterable[str], model: str) -> Iterator[list[str]]:
    """Yield the nouns of each name by spaCy; raises EnvironmentDataError where spaCy or its model is not installed."""
    try:
        spacy = importlib.import_module("spacy")
    except ImportError as error:
        raise EnvironmentDataError(
            "spaCy is not installed, which tells nouns: pip install 'progpo[webshop-nouns]'"
        ) from error
    try:
        # The tagger and what it needs; names of things and sentence structure are not wanted.
        language = spacy.load(model, exclude=["parser", "ner", "lemmatizer"])
    except OSError as error:
        raise EnvironmentDataError(
            f"spaCy's model {model} is not installed: python -m spacy download {model}"
        ) from error
    for document in language.pipe(names):
        yield [token.text.lower() for token in document if token.pos_ in ("NOUN", "PROPN")]
