"""Goals: prices and bounds, synthetic and human ones, order, satisfiability."""

from collections.abc import Callable
from pathlib import Path

import pytest

from envs.base import EnvironmentDataError
from envs.webshop import Catalogue, Goal, load_catalogue, make_goals, reward
from envs.webshop.colours import normalise, normalise_pair
from envs.webshop.rating import meets, option_texts

Write = Callable[..., Path]


def test_the_thousand_products(thousand: Catalogue) -> None:
    original = make_goals(thousand, "original")
    assert len(original) == 6910
    assert original.left_out == 0
    fixed = make_goals(thousand, "fixed")
    assert (len(fixed), fixed.left_out) == (6910 - 458, 458)
    assert [fixed.split(place) for place in (0, 499, 500, 1499, 1500)] == [
        "test", "test", "validation", "validation", "train",
    ]  # fmt: skip


def test_goals_of_the_thousand_can_be_satisfied(thousand: Catalogue) -> None:
    goals = make_goals(thousand, "fixed")
    for goal in goals[::50]:
        product = thousand.by_asin[goal.asin]
        nouns = thousand.nouns.of(goal.asin, goal.name)
        given = product.as_mapping(), goal.as_mapping(), goal.goal_options, goals.prices[goal.asin]
        assert reward(*given, {"purchased": nouns, "goal": nouns})[0] == 1


def test_synthetic(write: Write) -> None:
    goals = make_goals(load_catalogue(write()), "original", seed=1)
    assert {tuple(goal.goal_options.items()) for goal in goals} == {
        (("color", "oak  |  black"), ("size", "small")),
        (("color", "walnut"), ("size", "small")),
    }
    goal = next(goal for goal in goals if goal.goal_options["color"] == "walnut")
    bound = goal.price_upper
    assert bound in (60, 70, 80, 90)
    assert goal.instruction_text == (
        f"Find me solid wood side tables with color: walnut, and size: small, and price lower than {bound:.2f} dollars"
    )
    assert goal.weight == 1 / 2


def test_human(write: Write) -> None:
    written = [
        {"instruction": "a table...", "instruction_attributes": [], "instruction_options": ["walnut"]},
        {"instruction": "a wooden table.", "instruction_attributes": ["wood"], "instruction_options": ["walnut"]},
    ]
    folder = write({"pricing": "$979.99"}, items_human_ins={"B000000001": written})
    goals = make_goals(load_catalogue(folder), "original", human_goals=True)
    assert [(goal.instruction_text, goal.goal_options, goal.weight) for goal in goals] == [
        ("a wooden table, and price lower than 990.00 dollars", ("walnut",), 1)
    ]


def test_no_bound_is_left(write: Write) -> None:
    goal = make_goals(load_catalogue(write({"pricing": "$985"})), "original")[0]
    assert goal.price_upper == 1000000
    assert "price" not in goal.instruction_text


def test_bound_is_the_larger_of_two(thousand: Catalogue) -> None:
    goals = make_goals(thousand, "original")
    for goal in goals:
        above = [10 * tens for tens in range(1, 100) if 10 * tens > goals.prices[goal.asin]][:4]
        assert goal.price_upper in above[1:] if len(above) > 1 else goal.price_upper == 1000000


def test_one_seed_gives_all(synth: Catalogue) -> None:
    goals = make_goals(synth, seed=3)
    synth._kept.pop(("goals", "fixed", False, 3, None, None))
    again = make_goals(synth, seed=3)
    assert goals is not again
    assert goals == again
    assert goals.prices == again.prices
    assert goals != make_goals(synth, seed=4)


def test_prices_given(synth: Catalogue) -> None:
    asin = next(product.asin for product in synth.products if len(product.prices) == 2)
    drawn = make_goals(synth, "original", seed=2)
    given = make_goals(synth, "original", seed=2, prices={asin: 985.0})
    assert given.prices[asin] == 985.0 != drawn.prices[asin]
    assert {goal.price_upper for goal in given if goal.asin == asin} <= {1000000}
    assert {key: price for key, price in given.prices.items() if key != asin} == {
        key: price for key, price in drawn.prices.items() if key != asin
    }


def test_unsatisfiable_goals_are_left_out(write: Write) -> None:
    # "green2" is normalised to "green" when it is chosen, and stays as it is in the pair that is wanted.
    change = {"customization_options": {"Color": [{"value": "green2"}, {"value": "black"}]}}
    catalogue = load_catalogue(write(change))
    assert len(make_goals(catalogue, "original")) == 2
    assert [goal.goal_options for goal in make_goals(catalogue)] == [{"color": "black"}]


def test_attributes_that_the_product_lacks(write: Write) -> None:
    known = {"B000000001": {"attributes": ["wood"], "instruction": "x", "instruction_attributes": ["velvet"]}}
    catalogue = load_catalogue(write(items_ins_v2=known))
    assert len(make_goals(catalogue, "original")) == 2
    assert len(make_goals(catalogue)) == 0


def test_no_goals(write: Write) -> None:
    catalogue = load_catalogue(write(items_ins_v2={"B000000001": {}}))
    with pytest.raises(EnvironmentDataError, match="makes no synthetic goal"):
        make_goals(catalogue)
    with pytest.raises(EnvironmentDataError, match="makes no human goal"):
        make_goals(catalogue, human_goals=True)


def test_mapping_and_back(thousand: Catalogue) -> None:
    goal = make_goals(thousand)[0]
    assert Goal.from_mapping(goal.as_mapping()) == goal
    with pytest.raises(EnvironmentDataError, match="lacks name, price_upper"):
        Goal.from_mapping(
            {key: value for key, value in goal.as_mapping().items() if key not in ("name", "price_upper")}
        )


def test_colours() -> None:
    assert normalise("wine red") == "red"
    assert normalise_pair("color", "black") == "black"
    assert normalise_pair("color", "dark green") == "('color', 'dark green')"
    assert normalise_pair("steel", "ash") == "ash"
    assert option_texts(["dark green", "large"]) == ["dark", "large"]


@pytest.mark.parametrize(
    ("wanted", "chosen", "met"),
    [
        ("large", "x-large", True),
        ("12 inch", "18 inch", True),
        ("('color', 'green2')", "green2", False),
        ("caf\u00e9", "caf", True),  # characters of Latin-1 are left out
        ("", "", False),
    ],
)
def test_meets(wanted: str, chosen: str, met: bool) -> None:
    assert meets(wanted, chosen) is met


def test_nouns_of_a_reward(thousand: Catalogue) -> None:
    goal, other = make_goals(thousand)[0].as_mapping(), {"nouns": ["toaster"]}
    product = thousand.by_asin[goal["asin"]].as_mapping()
    # Guessed, held by product and goal, given: a name without a shared noun is worth nothing.
    assert reward(product, goal, goal["goal_options"], 1.0)[0] == 1
    assert reward(product | other, goal, {}, 1.0)[1]["title_score"] == 0
    assert reward(product | other, goal | other, {}, 1.0)[1]["title_score"] == 1
    given = {"purchased": ["a", "b"], "goal": ["a", "a", "c"]}
    assert reward(product | other, goal, {}, 1.0, nouns=given)[1]["title_score"] == 1 / 3


def test_nouns_of_another_name(write: Write) -> None:
    catalogue = load_catalogue(write())
    assert list(catalogue.nouns_of("B000000001", "Oak Side Table with Drawer")) == ["oak", "table", "drawer"]
    assert list(catalogue.nouns_of("B000000001", "Toaster")) == ["toaster"]


def test_reward_of_what_lacks_an_entry() -> None:
    with pytest.raises(EnvironmentDataError, match="no 'name'"):
        reward({}, {}, {}, 1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("price_upper", None),
        ("price_upper", float("nan")),
        ("name", 5),
        ("instruction_text", None),
        ("attributes", "xyz"),
        ("attributes", [None]),
        ("goal_options", 5),
        ("goal_options", {"colour": None}),
    ],
)
def test_a_goal_of_wrong_types_is_refused_by_name(name, value):
    texts = ("asin", "category", "query", "name", "product_category", "instruction_text")
    good = {**dict.fromkeys(texts, "x"), "attributes": ["soft"], "goal_options": {"colour": "red"}, "price_upper": 20.0}
    assert Goal.from_mapping(good).goal_options == {"colour": "red"}
    with pytest.raises(EnvironmentDataError, match=f"a goal's {name} is"):
        Goal.from_mapping({**good, name: value})
