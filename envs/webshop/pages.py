"""The pages of the shop: what stands on each, in the original's order, and as text.

The original renders HTML and reads the text off it again; what that does to the texts of products is kept: a text of
white space alone disappears where it has a line break, and is a single space where it has none.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from envs.webshop.products import RATING, Product

Mode = Literal["text", "text_rich"]

#: Buttons, as they are written on the pages.
SEARCH = "Search"
BACK_TO_SEARCH = "Back to Search"
NEXT_PAGE = "Next >"
PREVIOUS = "< Prev"
BUY = "Buy Now"
DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES = SUB_PAGES = ("Description", "Features", "Reviews", "Attributes")

#: Products on a page of results.
PAGE_SIZE = 10

#: White space as HTML has it.
_HTML_SPACE = " \t\n\f\r"


class Part(NamedTuple):
    """A piece of text on a page.

    Attributes:
        text: as it is written.
        kind: plain text, a button, an option value, or the link to a product.
        name: of an option value: the option that it belongs to.
    """

    text: str
    kind: Literal["plain", "button", "option", "link"] = "plain"
    name: str = ""


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        address: its URL: the original decides by it which page it is, and which options count as chosen.
        parts: what stands on it, from top to bottom.
        targets: the label of everything that can be clicked, in lower case and in order, and the part it stands for.
    """

    address: str
    parts: Sequence[Part]
    targets: dict[str, Part] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the targets: buttons first, then links, then options; of one label, the last counts."""
        found: dict[str, dict[str, Part]] = {"button": {}, "link": {}, "option": {}}
        for part in self.parts:
            if part.kind != "plain":
                found[part.kind][part.text if part.kind == "option" else part.text.lower()] = part
        object.__setattr__(self, "targets", found["button"] | found["link"] | found["option"])

    def render(self, mode: Mode, visited: Iterable[str] = ()) -> str:
        """Return the page as text; `visited` are the asins of products whose pages were opened."""
        if mode == "text":
            return " [SEP] ".join([text.strip() for part in self.parts if (text := _shown(part.text))])
        lines: list[str] = []
        chosen = ""
        for written, kind, _ in self.parts:
            text = _shown(written)
            if not text:
                continue
            if kind == "plain":
                lines.append(f"{text}\n")
            elif kind == "option" and f'"{text}"' in self.address:
                lines.append(f"  [clicked button] {text} [clicked button_]\n")
                chosen = f"You have clicked {text}.\n{chosen}"
            elif kind == "option":
                lines.append(f"  [button] {text} [button_]\n")
            elif kind == "button":
                lines.append(f"[button] {text} [button_]\n")
            else:
                button = "clicked button" if text in visited else "button"
                lines.append(f"\n[{button}] {text} [{button}_]\n")
        return chosen + "".join(lines)


def _shown(text: str) -> str:
    """Return what an HTML parser leaves of a text between two tags."""
    if text.strip(_HTML_SPACE):
        return text
    return " " if text and "\n" not in text else ""


_SITE = "http://127.0.0.1:3000"
_SESSION = "0"


def _path(*parts: object) -> str:
    return "/".join((_SITE, *map(str, parts)))


def search_page(instruction: str) -> Page:
    """Return the page that an episode starts from."""
    parts = [Part("WebShop"), Part("Instruction: "), Part(instruction), Part(SEARCH, "button")]
    return Page(_path(_SESSION), parts)


def results_page(instruction: str, keywords: Sequence[str], number: int, found: Sequence[Product]) -> Page:
    """Return a page of search results; `found` are all of them."""
    parts = [*_head(instruction), Part(f"Page {number} (Total results: {len(found)})")]
    if number > 1:
        parts.append(Part(PREVIOUS, "button"))
    parts.append(Part(NEXT_PAGE, "button"))
    for product in found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]:
        parts += [Part(product.asin, "link"), Part(product.title), Part(product.price_tag)]
    return Page(_path("search_results", _SESSION, "+".join(keywords), number), parts)


def item_page(
    instruction: str, keywords: Sequence[str], number: int, product: Product, options: Mapping[str, str]
) -> Page:
    """Return the page of a product; `options` are those chosen, name -> value."""
    parts = [*_head(instruction), Part(PREVIOUS, "button"), *_choices(product)]
    parts += [Part(product.title), Part(f"Price: {product.price_tag}"), Part(f"Rating: {RATING}")]
    parts += [Part(label, "button") for label in (DESCRIPTION, FEATURES, REVIEWS, BUY)]
    words, chosen = "+".join(keywords), json.dumps(dict(options))
    return Page(_path("item_page", _SESSION, product.asin, words, number, chosen), parts)


def sub_page(
    instruction: str, keywords: Sequence[str], number: int, product: Product, options: Mapping[str, str], name: str
) -> Page:
    """Return a page about a product: its description, features, reviews (there are none) or attributes."""
    parts = [*_head(instruction), Part(PREVIOUS, "button"), *map(Part, _about(product, name))]
    words, chosen = "+".join(keywords), dict(options)
    return Page(_path("item_sub_page", _SESSION, product.asin, words, number, name, chosen), parts)


def done_page(asin: str, options: Mapping[str, str], reward: float) -> Page:
    """Return the page after a purchase, with the gaps that the original leaves on it."""
    before = ["Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)"]
    bought = ["Purchased", "asin", asin, "options", _embedded_json(options)]
    for name in ("attrs", "category", "query", "product category"):
        bought += [name, "None"]
    target = ["Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category"]
    after = [
        "query",
        "Goal ",
        "None",
        "Reward",
        "Your score (min 0.0, max 1.0)",
        str(reward),
        "Reward Details ",
        "None",
    ]
    parts = [Part(text) for text in (*before, *bought, *target, *after)]
    return Page(_path("done", _SESSION, asin, dict(options)), parts)


def _head(instruction: str) -> tuple[Part, ...]:
    return Part("Instruction:"), Part(instruction), Part(BACK_TO_SEARCH, "button")


def _choices(product: Product) -> Iterator[Part]:
    for name, values in product.options.items():
        yield Part(name)
        for value in values:
            yield Part(value, "option", name)


def _about(product: Product, name: str) -> Iterable[str]:
    if name == DESCRIPTION:
        return [product.description]
    if name == FEATURES:
        return [f" {point}" for point in product.bullet_points]
    if name == ATTRIBUTES:
        own = [f" {attribute}" for attribute in product.attributes]
        return [*own, product.category, product.query, product.product_category]
    return []


def _embedded_json(value: Mapping[str, str]) -> str:
    """Return JSON as Flask embeds it into a page: keys sorted, and four characters escaped."""
    text = json.dumps(dict(value), sort_keys=True)
    for character in "<>&'":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
