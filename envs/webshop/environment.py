"""WebShop behind the Gymnasium API."""

import math
import operator
import random
import string
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import gymnasium
from gymnasium.error import ResetNeeded

from envs.base import EnvironmentDataError
from envs.webshop import pages
from envs.webshop.actions import parse_action
from envs.webshop.catalogue import Catalogue, load_catalogue
from envs.webshop.goals import Compatibility, Goal, Goals, Prices, draw_prices, make_goals
from envs.webshop.pages import Mode, Page, Part
from envs.webshop.products import Product
from envs.webshop.rating import reward as rate
from envs.webshop.search import LIMIT

_TEXT = gymnasium.spaces.Text(min_length=0, max_length=1 << 16, charset=string.printable)

#: Which page an address is of: the first of these that is part of it. A query may hold one of them.
_PAGE_NAMES = ("search_results", "item_page", "item_sub_page", "done")

#: How a prompt tells that one can search; `click[search]`, which the original lists there, does nothing.
SEARCH_FORM = "search[<words>]"

_SUB_PAGES = {name.lower(): name for name in pages.SUB_PAGES}


class WebShopEnvironment(gymnasium.Env[str, str]):
    """One episode slot: a shopper with a goal in a shop.

    An observation is the text of a page. An action is `search[words]`, from every page, or `click[label]` of something
    on the page; the verb in lower case, the label in any. Any other action changes nothing.

    `info` holds `admissible_commands` (list[str], one `click[...]` for each thing that can be clicked, in the order
    of the original), `has_search_bar` (bool: whether the page has a field to search with), `listed_commands`
    (list[str], for prompts: the form of a search where there is that field, else the clicks), `valid` (bool: whether
    the last action was carried out), `score` (the reward of WebShop for what was bought, 0.0 before), `won` (score ==
    1), `task_type` (the category of the goal's product), `state_key` (page, query, product and chosen options,
    digested), and after a purchase `reward_components` (dict; see `envs.webshop.reward`).
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space = _TEXT
    action_space = _TEXT

    def __init__(
        self,
        folder: str | Path | None = None,
        compatibility: Compatibility = "fixed",
        mode: Mode = "text_rich",
        human_goals: bool = False,
        seed: int = 0,
        prices: Prices | None = None,
        max_steps: int = 15,
        reward: Literal["success", "score"] | None = None,
    ) -> None:
        """Make an episode slot.

        Args:
            folder: of the catalogue (see `load_catalogue`), or named at reset.
            compatibility: "original" or "fixed"; see `make_goals`. In "fixed", `<a> words` in a query selects by
                attribute, on which the original fails, and a random selection stays as it is over its pages.
            mode: "text" or "text_rich".
            human_goals: which goals a number at reset names.
            seed: of prices and goals, and of what is drawn within episodes.
            prices: asin -> price in dollars, instead of those drawn.
            max_steps: after so many an episode is truncated.
            reward: what a step pays: "success": 1 for a purchase with score 1, or "score": the score of the purchase;
                None: "score" in "original", "success" in "fixed".

        Raises:
            EnvironmentDataError: an argument has a value that there is not.
        """
        for name, value, allowed in (
            ("compatibility", compatibility, ("original", "fixed")),
            ("mode", mode, ("text", "text_rich")),
            ("reward", reward, ("success", "score", None)),
        ):
            if value not in allowed:
                raise EnvironmentDataError(f"unknown {name} {value!r}; there are: {', '.join(map(str, allowed))}")
        if max_steps < 1:
            raise EnvironmentDataError(f"max_steps is {max_steps}; it must be 1 or more")
        for asin, price in (prices or {}).items():
            if not (isinstance(price, int | float) and math.isfinite(price) and price >= 0):
                raise EnvironmentDataError(f"prices: of {asin} it is {price!r}; expected dollars, as a number")
        self.folder = folder
        self.compatibility = compatibility
        self.mode = mode
        self.human_goals = human_goals
        self.seed = seed
        self.max_steps = max_steps
        self.pays = reward or ("score" if compatibility == "original" else "success")
        self._given_prices = prices
        self._random = random.Random(seed)
        self._catalogue: Catalogue | None = None
        self._loaded: str | Path | None = None
        self._priced: int | None = None
        self._prices: Prices = {}
        self._goal: Goal | None = None
        self._running = False
        self._clear()

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: of what is drawn from here on: goals, where none is named, and the query `<r>`.
            options: `goal`: the number of a goal, or one as a mapping (see `Goal.from_mapping`); without it one is
                drawn, by weight. `folder`: of the catalogue. `price_seed`: of the prices that a goal given as a
                mapping was made with, where it is not the environment's own seed.

        Raises:
            EnvironmentDataError: no catalogue, a damaged one, or no such goal.
        """
        super().reset(seed=seed)
        if seed is not None:
            self._random = random.Random(seed)
        options = options or {}
        self._running = False
        self._open(options.get("folder", self._loaded or self.folder), options.get("price_seed"))
        self._goal = self._choose(options.get("goal"))
        self._clear()
        self._show("search", pages.search_page(self._goal.instruction_text))
        self._steps = 0
        self._components: dict[str, Any] | None = None
        self._score = 0.0
        self._running = True
        return self._observation, self._info(True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do something.

        Returns:
            observation, reward, terminated (something was bought), truncated (`max_steps` are used up), info.

        Raises:
            gymnasium.error.ResetNeeded: there is no running episode. The original knows no end: with its
                compatibility one can shop on after a purchase, or after `max_steps`.
        """
        if self._goal is None or not (self._running or self.compatibility == "original"):
            raise ResetNeeded("the episode has ended or never began: call reset() first")
        self._bought = False
        verb, argument = parse_action(action)
        label = argument.lower() if argument is not None else ""
        if verb == "search" and label:
            valid = self._search(label.split(" "), 1)
        elif verb == "click" and label in self._page.targets and label != pages.SEARCH.lower():
            valid = self._click(label, self._page.targets[label])
        else:
            valid = False
        self._steps += 1
        truncated = not self._bought and self._steps >= self.max_steps
        self._running = not (self._bought or truncated)
        paid = 0.0
        if self._bought:
            paid = self._score if self.pays == "score" else float(self._score == 1)
        return self._observation, paid, self._bought, truncated, self._info(valid)

    def goals(self) -> Goals:
        """Return the goals that a number at reset names, made once a process.

        Raises:
            EnvironmentDataError: no catalogue, a damaged one, or one that makes no goals.
        """
        self._open(self._loaded or self.folder)
        return make_goals(self._catalogue, self.compatibility, self.human_goals, self.seed, self._given_prices)

    def price(self, asin: str) -> float:
        """Return what a product costs in this episode, in dollars: the price that the reward compares."""
        return self._prices[asin]

    def _open(self, folder: str | Path | None, price_seed: int | None = None) -> None:
        if folder is None:
            raise EnvironmentDataError("no catalogue: make(..., folder=FOLDER) or reset(options={'folder': FOLDER})")
        seed = self.seed if price_seed is None else price_seed
        if self._catalogue is None or str(folder) != str(self._loaded):
            self._catalogue = load_catalogue(folder)
            self._loaded, self._priced = folder, None
        if seed != self._priced:
            self._prices, self._priced = draw_prices(self._catalogue, seed, self._given_prices), seed

    def _choose(self, given: Any) -> Goal:
        if isinstance(given, Goal):
            return given
        if isinstance(given, Mapping):
            return Goal.from_mapping(given)
        goals = self.goals()
        if given is None:
            place = bisect_right(goals.totals, self._random.uniform(0, goals.totals[-1]))
            # The original is one off: it never draws its first goal.
            return goals[min(place + (self.compatibility == "original"), len(goals) - 1)]
        try:
            index = operator.index(given)
        except TypeError:
            raise EnvironmentDataError(f"goal {given!r} is neither a number nor a mapping") from None
        if not 0 <= index < len(goals):
            raise EnvironmentDataError(f"there is no goal {index}: they are numbered 0 to {len(goals) - 1}")
        return goals[index]

    def _clear(self) -> None:
        """Forget what was searched, looked at and chosen."""
        self._keywords: Sequence[str] = ()
        self._found: Sequence[Product] = ()
        self._number = 0
        self._product: Product | None = None
        self._visited: set[str] = set()
        self._options: dict[str, str] = {}

    def _show(self, place: str, page: Page) -> bool:
        self._place = place
        self._page = page
        self._observation = page.render(self.mode, self._visited)
        return True

    def _search(self, keywords: Sequence[str], number: int) -> bool:
        """Show a page of results; False, and nothing changes, for a query on which the original fails."""
        again = keywords is self._keywords and (keywords[0] != "<r>" or self.compatibility == "fixed")
        found = self._found if again else self._find(keywords)
        if found is None:
            return False
        self._keywords, self._found, self._number = keywords, found, number
        self._product, self._options = None, {}
        return self._show("results", pages.results_page(self._goal.instruction_text, keywords, number, found))

    def _find(self, keywords: Sequence[str]) -> Sequence[Product] | None:
        products = self._catalogue.products
        rest = " ".join(keywords[1:]).strip()
        match keywords[0]:
            case "<r>":
                return self._random.sample(products, min(LIMIT, len(products)))
            case "<a>":
                if self.compatibility == "original":
                    return None
                return [product for product in products if rest in product.attributes]
            case "<c>":
                if len(keywords) < 2:
                    return None
                return [product for product in products if product.category == keywords[1].strip()]
            case "<q>":
                return [product for product in products if product.query == rest]
        return self._catalogue.search.products(" ".join(keywords))

    def _click(self, label: str, target: Part) -> bool:
        """Follow a click, in the order in which the original asks what was clicked."""
        where = next((name for name in _PAGE_NAMES if name in self._page.address), "")
        if label == pages.BUY.lower():
            return self._buy()
        if label == pages.BACK_TO_SEARCH.lower():
            self._clear()
            return self._show("search", pages.search_page(self._goal.instruction_text))
        if where == "search_results" and label == pages.NEXT_PAGE.lower():
            return self._search(self._keywords, self._number + 1)
        if where == "search_results" and label == pages.PREVIOUS.lower():
            return self._search(self._keywords, self._number - 1)
        if where == "item_page" and label == pages.PREVIOUS.lower():
            return self._search(self._keywords, self._number)
        if label in _SUB_PAGES:
            return self._open_sub_page(_SUB_PAGES[label])
        return self._open_item(target)

    def _open_item(self, target: Part) -> bool:
        if target.kind == "link":
            self._product = self._catalogue.by_asin[target.text]
            self._visited.add(target.text)
        elif target.kind == "option":
            self._options[target.name] = target.text
        if self._product is None:
            return False
        return self._show("item", pages.item_page(*self._where(), self._product, self._options))

    def _open_sub_page(self, name: str) -> bool:
        if self._product is None:
            return False
        return self._show(name, pages.sub_page(*self._where(), self._product, self._options, name))

    def _where(self) -> tuple[str, Sequence[str], int]:
        return self._goal.instruction_text, self._keywords, self._number

    def _buy(self) -> bool:
        product, goal = self._product, self._goal
        if product is None:
            return False
        nouns_of = self._catalogue.nouns_of
        self._score, self._components = rate(
            product.as_mapping(),
            goal.as_mapping(),
            self._options,
            self.price(product.asin),
            {"purchased": nouns_of(product.asin, product.title), "goal": nouns_of(goal.asin, goal.name)},
        )
        self._bought = True
        return self._show("done", pages.done_page(product.asin, self._options, self._score))

    def _info(self, valid: bool) -> dict[str, Any]:
        clicks = [f"click[{label}]" for label in self._page.targets]
        info = {
            "admissible_commands": clicks,
            "has_search_bar": self._place == "search",
            "listed_commands": [SEARCH_FORM] if self._place == "search" else clicks,
            "valid": valid,
            "won": self._score == 1,
            "score": self._score,
            "task_type": self._goal.category,
            "state_key": self._state_key(),
        }
        if self._components is not None:
            info["reward_components"] = self._components
        return info

    def _state_key(self) -> str:
        asin = self._product.asin if self._product else ""
        text = repr((self._place, tuple(self._keywords), self._number, asin, sorted(self._options.items())))
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def make(**options: Any) -> WebShopEnvironment:
    """Make one episode slot; see WebShopEnvironment for the options."""
    return WebShopEnvironment(**options)
