"""From text to terms: the right answers are those of Lucene 8.11 (as in Anserini 0.14.3)."""

import pytest

from envs.webshop.search.analysis import STOP_WORDS, analyse
from envs.webshop.search.stemmer import stem
from envs.webshop.search.word_break import split_words

WORDS = [
    ("women's 12.5 oz, 3,000 u.s.a. t-shirt x_y", ["women's", "12.5", "oz", "3,000", "u.s.a", "t", "shirt", "x_y"]),
    ("a1b2 3d 1.a a.1 1,2.3;4 a:b 'tis", ["a1b2", "3d", "1", "a", "a", "1", "1,2.3;4", "a:b", "tis"]),
    ("_a_ __ a__b 1_2 _._x", ["_a_", "a__b", "1_2", "_x"]),
    ('42"w x 96"l 10% $5', ["42", "w", "x", "96", "l", "10", "5"]),
    ("a\u00adb a\u200bb a\u200db a\u202fb", ["a\u00adb", "a", "b", "a\u200db", "a\u202fb"]),
    ("\u00e9 e\u0301 \u00bd 1\u00bd 10\u00b2 \u00b5m 5\u00b0c", ["\u00e9", "e\u0301", "1", "10", "\u00b5m", "5", "c"]),
    ("\uff15 \uff43\uff4d \u2460", ["\uff15", "\uff43\uff4d"]),
    ("\u2764\ufe0f x \u2122\u00ae", ["\u2764\ufe0f", "x", "\u2122", "\u00ae"]),
    ("\U0001f44d\U0001f3fd\U0001f44d", ["\U0001f44d\U0001f3fd", "\U0001f44d"]),
    ("\U0001f468\u200d\U0001f469\u200d\U0001f467", ["\U0001f468\u200d\U0001f469\u200d\U0001f467"]),
    ("\U0001f1fa\U0001f1f8\U0001f1ec\U0001f1e7\U0001f1eb", ["\U0001f1fa\U0001f1f8", "\U0001f1ec\U0001f1e7"]),
    ("5\u20e3 5\ufe0f\u20e3 #\ufe0f\u20e3 # *", ["5\u20e3", "5\ufe0f\u20e3", "#\ufe0f\u20e3"]),
    ("e\u20e3 a#b", ["e\u20e3", "a", "b"]),
    (
        "\u65e5\u672c \u3072\u3089 \u30ab\u30bf\u30ab\u30ca",
        ["\u65e5", "\u672c", "\u3072", "\u3089", "\u30ab\u30bf\u30ab\u30ca"],
    ),
    ("\u0e44\u0e17\u0e22", ["\u0e44\u0e17\u0e22"]),
    ("\u05d2'\u05d9\u05e8\u05e3 \u05e6\u05d4\"\u05dc", ["\u05d2'\u05d9\u05e8\u05e3", '\u05e6\u05d4"\u05dc']),
    ("x" * 256, ["x" * 255, "x"]),
    ("\U0001d400" * 200, ["\U0001d400" * 127, "\U0001d400" * 73]),
    ("", []),
]

TERMS = [
    ("men\u2019s l'or\u00e9al it's s's", ["men", "l'or\u00e9al", "s"]),
    ("don't y'all's the and", ["don't", "y'all"]),
    ("\u0130stanbul \u0391\u03a3 STRASSE", ["istanbul", "\u03b1\u03c3", "strass"]),
    ("c++ at&t usb3.0 wi-fi 2-pack", ["c", "t", "usb3.0", "wi", "fi", "2", "pack"]),
]

#: Words and their stems.
STEMS = """caresses caress ponies poni ties ti cats cat feed feed agreed agre plastered plaster bled bled motoring motor
sing sing conflated conflat troubled troubl sized size hopping hop tanned tan falling fall hissing hiss fizzed fizz
failing fail filing file happy happi sky sky relational relat conditional condit rational ration valenci valenc
hesitanci hesit digitizer digit conformabli conform radicalli radic differentli differ vileli vile analogousli analog
vietnamization vietnam predication predic operator oper feudalism feudal decisiveness decis hopefulness hope
callousness callous formaliti formal sensitiviti sensit sensibiliti sensibl triplicate triplic formative form
formalize formal electriciti electr electrical electr hopeful hope goodness good revival reviv allowance allow
inference infer airliner airlin gyroscopic gyroscop adjustable adjust defensible defens irritant irrit replacement
replac adjustment adjust dependent depend adoption adopt homologou homolog communism commun activate activ angulariti
angular homologous homolog effective effect is is as as"""


@pytest.mark.parametrize(("text", "words"), WORDS)
def test_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize(("text", "terms"), TERMS)
def test_terms(text: str, terms: list[str]) -> None:
    assert analyse(text) == terms


def test_stop_words() -> None:
    assert len(STOP_WORDS) == 33


@pytest.mark.parametrize(("word", "expected"), list(zip(*[iter(STEMS.split())] * 2, strict=True)))
def test_stems(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_stems_with_porters_later_rules() -> None:
    # With the rules of 1980 these are "possibli" and "psychologi".
    assert [stem("possibly"), stem("psychology")] == ["possibl", "psycholog"]


def test_stems_count_utf_16_units() -> None:
    # Three units, so that it is long enough to be stemmed.
    assert stem("\U0001d400s") == "\U0001d400"
    assert stem("\u00e9s") == "\u00e9s"
