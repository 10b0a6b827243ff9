"""Other asins for the products of a trajectory."""

import re

import numpy as np

from envs.webshop.augment import rename

PAGE = (
    "Instruction: [SEP] Find me mild teas [SEP] Back to Search [SEP] Page 1 (Total results: 3) [SEP] Next > [SEP] "
    "B0GABCDEF1 [SEP] A mild tea, PLAIN [SEP] $3.0 [SEP] B0GABCDEF2 [SEP] tea [SEP] $4.0 [SEP] 1234567890 [SEP] "
    "DISTINCTLY mild [SEP] $5.0"
)
TEXTS = [PAGE, "click[b0gabcdef2]", "Price: $4.0", "search[b0gabcdef2 12]", PAGE, "click[1234567890]"]
ASINS = ("B0GABCDEF1", "B0GABCDEF2", "1234567890")


def test_asins_are_exchanged_consistently_and_nothing_else_changes() -> None:
    seen = set()
    for seed in range(60):
        page, click, price, _, again, other = rename(TEXTS, np.random.default_rng(seed))
        places = [page.index(asin) for asin in ASINS]
        assert sorted(places) == [PAGE.index(asin) for asin in ASINS]
        order = [asin for _, asin in sorted(zip(places, ASINS, strict=True))]
        seen.add(tuple(order))
        assert page == again
        assert click == f"click[{order[1].lower()}]"
        assert other == f"click[{order[2]}]"
        assert price == "Price: $4.0"
        assert re.split("|".join(ASINS), page) == re.split("|".join(ASINS), PAGE)
    assert len(seen) == 6


def test_texts_without_asins_are_left_alone() -> None:
    texts = ["WebShop [SEP] Instruction: [SEP] Find me SPECTACLES [SEP] Search", "click[buy now]", "click[turquoise8]"]
    assert rename(texts, np.random.default_rng(0)) == texts
