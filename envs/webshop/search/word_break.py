"""Splitting text into words as Lucene 8's StandardTokenizer does.

That is UAX #29 (Unicode Text Segmentation, https://unicode.org/reports/tr29/) for Unicode 9.0, with these additions:
emoji sequences (UTS #51) are words; so is each ideograph and each hiragana letter by itself, and each run of South-East
Asian letters; anything else is skipped; and a word has at most 255 UTF-16 units, a longer one is cut.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from envs.webshop.search.expressions import Automaton, Expression, either, many, maybe, one_of, sequence, some

#: The longest word, in UTF-16 code units (a character beyond U+FFFF has two).
LONGEST = 255

_EXTENDING = ("extend", "text_selector", "keycap_sign", "emoji_selector", "joiner", "tag", "tag_end", "complex_extend")

#: Words of ASCII text: the grammar below with what can't occur left out.
_ASCII_WORD = re.compile(
    r"_*[A-Za-z0-9]"
    r"(?:_*[A-Za-z0-9]|(?<=[0-9])[.,;'](?=[0-9])|(?<=[A-Za-z])[:.'](?=[A-Za-z]))*"
    r"_*"
)

_SPACE = re.compile(r"[ \t\r\n]+")


def split_words(text: str) -> list[str]:
    """Return the words of a text in order, as they are written."""
    if text.isascii():
        words = _ASCII_WORD.findall(text)
        if max(map(len, words), default=0) <= LONGEST:
            return words
    found = []
    for piece in _SPACE.split(text):  # not str.split: the narrow no-break space joins words
        if piece.isascii() and len(piece) <= LONGEST:
            found += _ASCII_WORD.findall(piece)
        else:
            found += _scan(piece)
    return found


def _scan(text: str) -> Iterator[str]:
    classes, word = _classes(), _word()
    symbols = [classes.get(ord(character)) for character in text]
    start = 0
    while start < len(text):
        end = start
        if symbols[start] is not None:
            end = word.longest(symbols, start, _reach(text, start))
            if end > start:
                yield text[start:end]
        start = max(end, start + 1)


def _reach(text: str, start: int) -> int:
    """Return where the longest word from a place on would end."""
    if len(text) - start <= LONGEST // 2:
        return len(text)
    units = 0
    for position in range(start, min(start + LONGEST, len(text))):
        units += 1 + (text[position] > "\uffff")
        if units > LONGEST:
            return position
    return min(start + LONGEST, len(text))


@cache
def _classes() -> dict[int, str]:
    """Return the class of every character that has one."""
    table: dict[int, str] = {}
    name = ""
    for line in (Path(__file__).parent / "word_break.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            name = line.rstrip(":")
            continue
        for item in line.split():
            first, _, last = item.partition("-")
            for code in range(int(first, 16), int(last or first, 16) + 1):
                table[code] = name
    return table


@cache
def _word() -> Automaton:
    return Automaton(either(_emoji(), _alphanumeric(), some(_extended("complex", "complex_extend")), _ideographic()))


def _extended(*classes: str) -> Expression:
    """WB4: a character and what extends it count as that character."""
    return sequence(one_of(*classes), many(one_of(*_EXTENDING)))


def _ideographic() -> Expression:
    return _extended("ideograph", "hiragana")


def _alphanumeric() -> Expression:
    """WB5 to WB13b: letters, numbers and what joins them."""
    connector = _extended("connector")
    letter = _extended("letter", "letter_emoji", "hebrew")
    hebrew = _extended("hebrew")
    number = _extended("numeric", "digit")
    katakana = _extended("katakana")
    in_word = either(many(connector), _extended("mid_letter", "mid_both", "single_quote"))
    in_number = either(many(connector), _extended("mid_number", "mid_both", "single_quote"))
    run = either(
        sequence(katakana, many(sequence(many(connector), katakana))),
        some(
            either(
                sequence(hebrew, either(_extended("single_quote"), sequence(_extended("double_quote"), hebrew))),
                sequence(number, many(sequence(in_number, number))),
                sequence(letter, many(sequence(in_word, letter))),
            )
        ),
    )
    return sequence(many(connector), run, many(sequence(some(connector), run)), many(connector))


def _emoji() -> Expression:
    """UTS #51, emoji_sequence."""
    extending = many(one_of(*(name for name in _EXTENDING if name not in ("text_selector", "emoji_selector"))))
    joiner, selector = one_of("joiner"), one_of("emoji_selector")

    def extended(*classes: str) -> Expression:
        return sequence(one_of(*classes), extending)

    element = either(
        sequence(many(joiner), extended("emoji", "emoji_base", "letter_emoji"), maybe(selector)),
        sequence(maybe(sequence(many(joiner), extended("emoji_base"))), extended("emoji_modifier")),
    )
    flag = _extended("regional_indicator")
    return either(
        sequence(element, either(many(sequence(joiner, element)), sequence(some(one_of("tag")), one_of("tag_end")))),
        sequence(extended("keycap", "digit"), maybe(selector), extended("keycap_sign")),
        sequence(flag, flag),
    )
