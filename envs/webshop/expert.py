"""An expert that shops by what it reads: it searches with the words of the instruction, compares, chooses and buys.

It sees what a policy sees: the pages, and what can be clicked. What a product would earn it estimates from its title,
price and choices, and, where words are missing from the title, from its features.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from envs.base import Search
from envs.webshop.reading import Page, Wish, read_page, read_wish, stem, stems

#: Steps that it allows itself: the usual length of an episode.
PATIENCE = 15
#: How instructions made of attributes and options begin.
OPENING = "find me "
#: What a word is worth that is not in the title and may be in the features, which are not read.
HOPE = 0.5
#: A result's place on its page decides between equals.
RANK = 1e-3
#: More products than so many it does not open.
MOST_OPENED = 4


@dataclass
class _Candidate:
    """A product that was seen.

    Attributes:
        title, price: as listed.
        query, page, rank: where.
        groups: its choices, once it was opened.
        details: the text of its features, once read.
    """

    title: str
    price: float
    query: str
    page: int
    rank: int
    groups: dict[str, list[str]] | None = None
    details: str | None = None
    stems: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.stems = stems(self.title)


class ShoppingExpert:
    """Shops from observations, in either text mode.

    Args:
        rng: of the order of choices; drawn from if it is varied.
        search: "varied": choose options in another order, and name them in the search or not, drawn anew for each
            episode. Its best order is plain.
    """

    def __init__(self, rng: np.random.Generator, search: Search = "best") -> None:
        self._rng = rng
        self._vary = search == "varied"
        self._wish: Wish

    def reset(self, observation: str, info: Mapping[str, Any]) -> None:
        """Start an episode: read the instruction."""
        self._wish = read_wish(read_page(observation, _buttons(info)).instruction)
        self._stems = [stem(word) for word in self._wish.words]
        self._queries = self._plan_queries()
        self._order = self._rng.random(64).tolist() if self._vary else [0.0] * 64
        self._known: dict[str, _Candidate] = {}
        self._chosen: dict[str, str] = {}
        self._current: str | None = None
        self._query = ""
        self._page = Page("search")
        self._steps = 0
        self._last: str | None = None

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the next action, given what came of `info["last_action"]` (of its own last one, where absent)."""
        buttons = _buttons(info)
        page = read_page(observation, buttons)
        self._observe(page, info.get("last_action", self._last))
        self._page = page
        self._steps += 1
        self._last = self._choose(page)
        return self._last

    def _plan_queries(self) -> list[str]:
        """Return what to search for, the next where one finds nothing."""
        wish = self._wish
        # Options and all, as it is told: to be copied. The names of options do a search no harm.
        whole = [] if self._vary and self._rng.random() < 0.5 else [wish.text.removeprefix(OPENING)]
        tries = [whole if wish.options else [], wish.words, wish.words[-2:], wish.words[-1:]]
        return list(dict.fromkeys(query for part in tries if (query := _searchable(part)))) or ["gift"]

    def _observe(self, page: Page, action: str | None) -> None:
        """Take in a page, and what was done to get there."""
        verb, _, argument = (action or "").partition("[")
        argument = argument.partition("]")[0].lower()
        if page.kind in ("search", "results"):
            self._chosen, self._current = {}, None
        if page.kind == "results":
            if verb == "search":
                self._query = argument
            for rank, listing in enumerate(page.listings):
                self._known.setdefault(
                    listing.asin.lower(),
                    _Candidate(listing.title, listing.price, self._query, page.number, rank),
                )
            if not page.listings and self._query in self._queries[:-1]:
                self._queries = self._queries[self._queries.index(self._query) + 1 :]
        elif page.kind == "item":
            if self._page.kind == "results" and argument in self._known:
                self._current = argument
                self._known[argument].groups = page.groups
            for name, values in page.groups.items():
                if self._page.kind == "item" and verb == "click" and argument in values:
                    self._chosen[name] = argument
        elif page.kind == "detail" and self._current in self._known and argument == "features":
            self._known[self._current].details = page.text

    def _choose(self, page: Page) -> str:
        best = self._best()
        if page.kind == "detail":
            return "click[< Prev]"
        if page.kind == "item":
            return self._on_item(page, best)
        if page.kind == "results" and best is not None:
            candidate = self._known[best]
            if any(listing.asin.lower() == best for listing in page.listings):
                return f"click[{best.upper()}]"
            if candidate.query == self._query:
                return "click[Next >]" if candidate.page > page.number else "click[< Prev]"
            return f"search[{candidate.query}]"
        return f"search[{self._queries[0]}]"

    def _on_item(self, page: Page, best: str | None) -> str:
        wanted = self._wanted(page.groups)
        left = [(name, value) for name, value in wanted.items() if self._chosen.get(name) != value]
        spare = PATIENCE - self._steps - len(left)
        here = self._known.get(self._current or "")
        if here is not None and self._current != best and spare >= len(wanted) + 2:
            return "click[< Prev]"
        if here is not None and here.details is None and spare >= 3 and self._covered(here) < len(self._stems):
            return "click[Features]"
        if left:
            left.sort(key=lambda pair: self._order[list(page.groups).index(pair[0]) % len(self._order)])
            return f"click[{left[0][1]}]"
        return "click[Buy Now]"

    def _best(self) -> str | None:
        """Return the product of the best estimate: any that was seen, as long as it may still open some."""
        opened = [asin for asin, candidate in self._known.items() if candidate.groups is not None]
        pool = opened if len(opened) >= MOST_OPENED or self._steps + 5 > PATIENCE else list(self._known)
        return max(pool or self._known, key=lambda asin: self._estimate(self._known[asin]), default=None)

    def _covered(self, candidate: _Candidate) -> int:
        """Return how many of the wish's words a product is known to bear."""
        there = candidate.stems
        if candidate.details is not None:
            there = there | stems(candidate.details)
        if candidate.groups is not None:
            there = there | stems(" ".join(value for values in candidate.groups.values() for value in values))
        return sum(word in there for word in self._stems)

    def _estimate(self, candidate: _Candidate) -> float:
        """Return what share of the reward's parts a product would get, by what is known of it."""
        wish = self._wish
        covered = self._covered(candidate)
        missing = len(self._stems) - covered
        words = (covered + (HOPE * missing if candidate.details is None else 0.0)) / 2
        options = float(len(wish.options))
        if candidate.groups is not None and wish.options:
            options = float(len(self._wanted(candidate.groups)))
        cheap = 1.0 if wish.bound is None or candidate.price <= wish.bound else 0.0
        total = len(self._stems) / 2 + len(wish.options) + 1
        return (words + options + cheap) / total - RANK * (candidate.rank + 10 * (candidate.page - 1))

    def _wanted(self, groups: Mapping[str, list[str]]) -> dict[str, str]:
        """Return the values to choose, by the name of the choice."""
        wish = self._wish
        wanted = {}
        for name, values in groups.items():
            named = [value for other, value in wish.options if other == name]
            if named:
                found = [value for value in values if value == named[0]]
            elif wish.options:
                found = []
            else:
                found = [value for value in values if re.search(rf"(?<!\w){re.escape(value)}(?!\w)", wish.text)]
            if found:
                wanted[name] = max(found, key=len)
        return wanted


def _buttons(info: Mapping[str, Any]) -> set[str]:
    commands = info["admissible_commands"]
    return {command[len("click[") : -1].lower() for command in commands if command.startswith("click[")}


def _searchable(words: Iterable[str]) -> str:
    """Return a query: words without what ends an action."""
    return re.sub(r"[\[\]\n]", " ", " ".join(words)).strip()
