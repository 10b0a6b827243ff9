"""What the original engine answered, answered again."""

import json
from typing import Any

import pytest

import envs
from envs.webshop import Catalogue, make_goals, reward
from envs.webshop.actions import parse_action
from envs.webshop.colours import COLOURS, normalise
from envs.webshop.products import Repairs, read_product

#: The names of the goals' orders in the vectors -> the seed of the shuffle.
SHUFFLES = {"original order with random.seed(42) before load": 233, "verl-agent, env seed 42": 42}


def test_rewards(vectors: dict[str, Any]) -> None:
    assert len(vectors["reward"]) == 49
    for vector in vectors["reward"]:
        expected = dict(vector["expect"])
        total, components = reward(
            vector["product"], vector["goal"], vector["options"], vector["price"], nouns=vector["nouns"]
        )
        assert total == pytest.approx(expected.pop("reward"), abs=1e-6), vector["note"]
        assert components == pytest.approx(expected, abs=1e-6), vector["note"]


def test_colours(vectors: dict[str, Any], webshop: Any) -> None:
    assert list(COLOURS) == json.loads((webshop / "colors.json").read_text(encoding="utf-8"))
    for vector in vectors["normalize_color"]:
        assert normalise(vector["input"]) == vector["output"]


def test_parsing(vectors: dict[str, Any]) -> None:
    for vector in vectors["parse_action"]:
        assert list(parse_action(vector["action"])) == vector["result"], vector["action"]


def test_loading(vectors: dict[str, Any], webshop: Any) -> None:
    entries = json.loads((webshop / "synth" / "items_shuffle_synth.json").read_text(encoding="utf-8"))
    attributes = json.loads((webshop / "synth" / "items_ins_v2_synth.json").read_text(encoding="utf-8"))
    base = next(entry for entry in entries if entry["asin"] == "B0SY41PJSO")
    checked = 0
    for vector in vectors["loader"]:
        expected = vector["result"]
        entry = base | vector["input"]
        product, repairs = read_product(entry, attributes.get(entry["asin"]))
        if isinstance(expected, dict):
            mapping = product.as_mapping()
            assert {key: mapping[key] for key in expected} == expected, vector["case"]
            checked += 1
        elif expected != "DROPPED":
            assert repairs != Repairs(), vector["case"]
    assert checked == 10


def test_dropped_products(synth: Catalogue) -> None:
    assert len(synth.products) == 300
    assert not synth.repaired


@pytest.mark.parametrize("mode", ["text", "text_rich"])
def test_pages(vectors: dict[str, Any], webshop: Any, mode: str) -> None:
    env = envs.make("webshop", folder=webshop / "synth", compatibility="original", mode=mode, max_steps=100)
    first, *rest = vectors["pages"]
    observation, info = env.reset(options={"goal": first["goal"]})
    assert observation == first[mode]
    for page in rest:
        if "verbose" in page:  # what the session holds after the purchase
            components = info["reward_components"]
            assert {key: components[key] for key in page["verbose"]} == pytest.approx(page["verbose"])
            assert (info["score"], info["won"]) == (1.0, True)
            continue
        if page["action"].startswith("reset"):
            observation, info = env.reset(options={"goal": page["goal"]})
        else:
            observation, paid, done, _, info = env.step(page["action"])
            assert (paid, done) == (page["reward"], page["done"]), page["label"]
        assert observation == page[mode], page["label"]
        assert info["admissible_commands"] == [f"click[{label}]" for label in page["actions"]["clickables"]]
        assert info["has_search_bar"] == page["actions"]["has_search_bar"]


def test_more_pages(vectors: dict[str, Any], webshop: Any, synth: Catalogue) -> None:
    first, *rest = vectors["pages_extra"]
    env = envs.make("webshop", folder=webshop / "synth", compatibility="original", max_steps=100)
    goal = make_goals(synth, "original", human_goals=True)[0].as_mapping()
    observation, info = env.reset(options={"goal": goal | {"instruction_text": first["instruction"]}})
    assert observation == first["obs"]
    for page in rest:
        if page["action"].startswith("(same page"):
            assert env._page.render("text") == page["obs"]
            continue
        observation, paid, done, _, info = env.step(page["action"])
        assert (observation, paid, done) == (page["obs"], page["reward"], page["done"]), page["action"]
        assert info["admissible_commands"] == [f"click[{label}]" for label in page["actions"]]


@pytest.mark.parametrize("number", range(4))
def test_goals(vectors: dict[str, Any], synth: Catalogue, number: int) -> None:
    vector = vectors["goals"][number]
    order = SHUFFLES[vector["how"]]
    goals = make_goals(synth, "original", vector["human_goals"], seed=42, shuffle_seed=order)
    assert len(goals) == vector["n_goals"]
    for goal, expected in zip(goals, vector["first8"], strict=False):
        mapping = goal.as_mapping()
        assert {key: mapping[key] for key in expected} == expected
    assert {asin: goals.prices[asin] for asin in vector["range_prices"]} == vector["range_prices"]


def test_searches(vectors: dict[str, Any], synth: Catalogue) -> None:
    for vector in vectors["search"]:
        found = synth.search(vector["query"])
        assert len(found) == vector["n"]
        assert found[:10] == [asin for asin, _ in vector["top10"]], vector["query"]


def test_special_queries(vectors: dict[str, Any], webshop: Any, synth: Catalogue) -> None:
    env = envs.make("webshop", folder=webshop / "synth", compatibility="original", mode="text", max_steps=100)
    goal = make_goals(synth, "original", human_goals=True)[0].as_mapping()
    text = vectors["special_queries"][2]["result"].split(" [SEP] ")[1]
    for vector in vectors["special_queries"]:
        before, _ = env.reset(options={"goal": goal | {"instruction_text": text}})
        if vector["action"].startswith("item page reached through"):
            env.step("search[search_results tea]")
            asin = env._found[0].asin
            env.step(f"click[{asin}]")
            observation, *_ = env.step("click[< prev]")
            assert observation == vector["result"]
            continue
        observation, paid, _, _, info = env.step(vector["action"])
        if "Error" in vector["result"]:
            assert (observation, paid, info["valid"]) == (before, 0, False)
        elif "<r>" in vector["action"]:
            assert "Total results: 50" in observation
        else:
            assert observation.startswith(vector["result"])
