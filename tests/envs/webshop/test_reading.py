"""What a shopper reads, in both text modes."""

import json

import pytest

from envs.webshop.reading import Listing, read_page, read_wish, stems

TASK = "Find me slim fit rain jackets with color: blue, and size: small, and price lower than 40.00 dollars"
HEAD = f"Instruction: [SEP] {TASK} [SEP] Back to Search [SEP] "


def test_a_page_of_results() -> None:
    text = HEAD + (
        "Page 2 (Total results: 50) [SEP] < Prev [SEP] Next > [SEP] B0GAAAAAA1 [SEP] A rain jacket [SEP] $19.5 [SEP] "
        "B0GAAAAAA2 [SEP] POCKETS [SEP] $12.5 to $20.0"
    )
    page = read_page(text, ["back to search", "< prev", "next >", "b0gaaaaaa1", "b0gaaaaaa2"])
    assert (page.kind, page.number, page.instruction) == ("results", 2, TASK)
    assert page.listings == [Listing("B0GAAAAAA1", "A rain jacket", 19.5), Listing("B0GAAAAAA2", "POCKETS", 12.5)]


ITEM = {
    "text": HEAD + "< Prev [SEP] color [SEP] blue [SEP] red [SEP] size [SEP] small [SEP] A rain jacket [SEP] "
    "Price: $19.5 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now",
    "text_rich": f"You have clicked red.\nInstruction:\n{TASK}\n[button] Back to Search [button_]\n"
    "[button] < Prev [button_]\ncolor\n  [button] blue [button_]\n  [clicked button] red [clicked button_]\nsize\n"
    "  [button] small [button_]\nA rain jacket\nPrice: $19.5\nRating: N.A.\n[button] Description [button_]\n"
    "[button] Features [button_]\n[button] Reviews [button_]\n[button] Buy Now [button_]\n",
}


@pytest.mark.parametrize("mode", ITEM)
def test_an_item(mode: str) -> None:
    buttons = ["back to search", "< prev", "description", "features", "reviews", "buy now", "blue", "red", "small"]
    page = read_page(ITEM[mode], buttons)
    assert (page.kind, page.title, page.price, page.instruction) == ("item", "A rain jacket", 19.5, TASK)
    assert page.groups == {"color": ["blue", "red"], "size": ["small"]}


def test_other_pages() -> None:
    assert read_page(f"WebShop [SEP] Instruction: [SEP] {TASK} [SEP] Search", ["search"]).kind == "search"
    detail = read_page(HEAD + "< Prev [SEP] Feature: slim fit. [SEP] Feature: dry.", ["back to search", "< prev"])
    assert (detail.kind, detail.text) == ("detail", "Feature: slim fit. Feature: dry.")
    assert read_page("Thank you for shopping with us! [SEP] Your code: [SEP] None", []).kind == "end"


def test_an_instruction_made_of_options() -> None:
    wish = read_wish(TASK)
    assert wish.words == ("slim", "fit", "rain", "jackets")
    assert wish.options == (("color", "blue"), ("size", "small"))
    assert wish.bound == 40.0
    wish = read_wish("Find me usda organic coffee with plug play with item package quantity: 2")
    assert wish.words == ("usda", "organic", "coffee", "plug", "play")
    assert (wish.options, wish.bound) == ((("item package quantity", "2"),), None)
    assert read_wish("Find me sets with color: a, and b, and size: c").options == (("color", "a, and b"), ("size", "c"))


def test_an_instruction_by_a_person() -> None:
    wish = read_wish("i am looking for open toe women's sandals in 6, black, and price lower than 70.00 dollars")
    assert wish.words == ("open", "toe", "women's", "sandals", "6", "black")
    assert (wish.options, wish.bound) == ((), 70.0)


def test_stems_meet_plurals() -> None:
    assert stems("women's boxes, dresses and cables; glass buses") == stems("women box dress and cable glass bus")


def test_the_originals_pages_are_read(shared) -> None:
    """Every recorded page is told apart, and both text modes read alike."""
    for recorded in json.loads((shared / "webshop" / "vectors.json").read_text())["pages"]:
        if "actions" not in recorded:
            continue
        buttons = recorded["actions"]["clickables"]
        plain, rich = read_page(recorded["text"], buttons), read_page(recorded["text_rich"], buttons)
        assert plain == rich
        if plain.kind == "results":
            assert [listing.asin.lower() for listing in plain.listings] == [
                label for label in buttons if label.startswith("b0sy")
            ]
        elif plain.kind == "item":
            values = [value for values in plain.groups.values() for value in values]
            assert sorted(values) == sorted(set(buttons) - set(BUTTONS))


BUTTONS = ("back to search", "< prev", "description", "features", "reviews", "buy now", "attributes")
