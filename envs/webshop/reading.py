"""What a shopper reads: pages and instructions, in either text mode."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

SEPARATOR = " [SEP] "

_BUTTON = re.compile(r"\[(?:clicked )?button\] (.*) \[(?:clicked )?button_\]")
_RESULTS = re.compile(r"Page (\d+) \(Total results: (\d+)\)")
_ASIN = re.compile(r"[A-Z0-9]{1,10}")
_AMOUNT = re.compile(r"\$([\d.,]+)")
_BOUND = re.compile(r",? and price lower than (\d+(?:\.\d+)?) dollars\s*$")
_SIBILANT = ("ses", "xes", "zes", "ches", "shes")
_WORD = re.compile(r"[a-z0-9]+(?:[.'-][a-z0-9]+)*")

#: Words of an instruction that say nothing about a product.
_FILLERS = """a after also am an and any are as at be by can find for from get give has have help i in is it like look
looking made make me my need of on or please show some that the them there this to want which will with would you
your"""
_SILENT = frozenset(_FILLERS.split())


@dataclass(frozen=True)
class Listing:
    """A product among search results.

    Attributes:
        asin: as printed.
        title: of the product.
        price: the least that it may cost, in dollars.
    """

    asin: str
    title: str
    price: float


@dataclass(frozen=True)
class Page:
    """A page, as far as it matters.

    Attributes:
        kind: which page; "detail" is a sub-page of an item, as its features.
        instruction: the shopper's.
        number: of a page of results, from 1.
        listings: the results on it.
        title, price: of an item.
        groups: an item's choices, name -> values, in lower case.
        text: of a sub-page.
    """

    kind: Literal["search", "results", "item", "detail", "end"]
    instruction: str = ""
    number: int = 0
    listings: Sequence[Listing] = ()
    title: str = ""
    price: float = 0.0
    groups: dict[str, list[str]] = field(default_factory=dict)
    text: str = ""


def read_page(observation: str, buttons: Iterable[str]) -> Page:
    """Read an observation of either text mode.

    Args:
        buttons: what can be clicked, in lower case: in the mode `text` nothing else tells an option's values from its
            name.
    """
    parts = _parts(observation)
    if "Instruction:" not in parts:
        return Page("end")
    start = parts.index("Instruction:") + 1
    instruction, rest = (parts[start], parts[start + 1 :]) if start < len(parts) else ("", [])
    there = set(buttons)
    for place, part in enumerate(rest):
        if match := _RESULTS.fullmatch(part):
            return Page("results", instruction, int(match[1]), _listings(rest[place + 1 :], there))
        if part.startswith("Price: ") and "Buy Now" in rest[place:]:
            first = rest.index("< Prev") + 1 if "< Prev" in rest else 0
            title = rest[place - 1] if place > first else ""
            return Page(
                "item",
                instruction,
                title=title,
                price=_price(part),
                groups=_groups(rest[first : max(first, place - 1)], there),
            )
    if "< Prev" in rest:
        return Page("detail", instruction, text=" ".join(rest[rest.index("< Prev") + 1 :]))
    return Page("search", instruction)


def _parts(observation: str) -> list[str]:
    if SEPARATOR in observation:
        return [part.strip() for part in observation.split(SEPARATOR)]
    lines = [line.strip() for line in observation.splitlines()]
    return [match[1] if (match := _BUTTON.fullmatch(line)) else line for line in lines if line]


def _listings(parts: Sequence[str], buttons: set[str]) -> list[Listing]:
    starts = [place for place, part in enumerate(parts) if _ASIN.fullmatch(part) and part.lower() in buttons]
    found = []
    for start, end in pairwise([*starts, len(parts)]):
        *title, price = parts[start + 1 : end] or ("",)
        found.append(Listing(parts[start], " ".join(title), _price(price)))
    return found


def _groups(parts: Sequence[str], buttons: set[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    name = ""
    for part in parts:
        if part.lower() in buttons:
            groups.setdefault(name, []).append(part.lower())
        else:
            name = part.lower()
    return groups


def _price(text: str) -> float:
    amounts = [amount.replace(",", "").strip(".") for amount in _AMOUNT.findall(text)]
    return min((float(amount) for amount in amounts if amount.count(".") < 2 and amount), default=0.0)


@dataclass(frozen=True)
class Wish:
    """What an instruction asks for.

    Attributes:
        text: the instruction in lower case, less the price.
        words: what it says of the product, in order, options and fillers left out.
        options: the choices that it names, as pairs (name, value).
        bound: the price must be lower, in dollars; None: it may be any.
    """

    text: str
    words: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    bound: float | None


def read_wish(instruction: str) -> Wish:
    """Read an instruction: "Find me <words> with <name>: <value>, and ..., and price lower than <bound> dollars".

    People name values without the option's name: those stand among the words.
    """
    text = instruction.lower().strip()
    bound = _BOUND.search(text)
    text = text[: bound.start()] if bound else text
    head, options = text, []
    colon = text.find(": ")
    place = text.rfind(" with ", 0, colon) if colon > 0 else -1
    if place >= 0 and "," not in text[place:colon]:
        head = text[:place]
        for pair in text[place + len(" with ") :].split(", and "):
            name, found, value = pair.partition(": ")
            if found:
                options.append((name, value))
            elif options:  # a value that holds the separator itself
                options[-1] = (options[-1][0], f"{options[-1][1]}, and {pair}")
    words = dict.fromkeys(word for word in _WORD.findall(head) if word not in _SILENT)
    return Wish(text, tuple(words), tuple(options), float(bound[1]) if bound else None)


def stems(text: str) -> set[str]:
    """Return the words of a text without the endings by which titles and instructions commonly differ."""
    return {stem(word) for word in _WORD.findall(text.lower())}


def stem(word: str) -> str:
    """Return a word without plural and possessive endings."""
    word = word.removesuffix("'s")
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return word
    return word[: -len("es")] if word.endswith(_SIBILANT) else word[: -len("s")]
