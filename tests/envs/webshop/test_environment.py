"""The environment: actions, episodes, bad input."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gymnasium.error import ResetNeeded

import envs
from envs.base import EnvironmentDataError, listed_commands
from envs.webshop import Catalogue, load_catalogue
from envs.webshop.actions import parse_action

Write = Callable[..., Path]


def shop(folder: Path, **options: Any) -> Any:
    return envs.make("webshop", folder=folder, **options)


def goal_for(env: Any, **options: str) -> int:
    return next(place for place, goal in enumerate(env.goals()) if goal.goal_options == options)


BUY = ["search[oak table]", "click[B000000001]", "click[walnut]", "click[Small]", "click[Buy Now]"]


@pytest.mark.parametrize("compatibility", ["original", "fixed"])
def test_a_purchase(write: Write, compatibility: str) -> None:
    env = shop(write(), compatibility=compatibility)
    _, info = env.reset(options={"goal": goal_for(env, color="walnut", size="small")})
    assert (info["task_type"], info["score"], info["won"], info["has_search_bar"]) == ("garden", 0.0, False, True)
    keys = {info["state_key"]}
    for action in BUY:
        assert "reward_components" not in info
        _, paid, terminated, truncated, info = env.step(action)
        assert info["valid"]
        keys.add(info["state_key"])
        assert not truncated
    assert (paid, terminated, info["score"], info["won"]) == (1.0, True, 1.0, True)
    assert info["reward_components"]["num_option_matches"] == 2
    assert info["admissible_commands"] == []
    assert len(keys) == 6


def test_prompts_list_the_form_of_a_search_where_one_can_search(write: Write) -> None:
    env = shop(write())
    _, info = env.reset(options={"goal": 0})
    assert info["admissible_commands"] == ["click[search]"]
    assert listed_commands(info) == ["search[<words>]"]
    assert not env.step("click[search]")[-1]["valid"]
    _, _, _, _, info = env.step("search[oak table]")
    assert info["valid"]
    assert listed_commands(info) == info["admissible_commands"] != []


def test_what_a_step_pays(write: Write) -> None:
    folder = write()
    for pays, compatibility, expected in [
        (None, "fixed", 0.0),
        ("score", "fixed", 0.75),
        (None, "original", 0.75),
        ("success", "original", 0.0),
    ]:
        env = shop(folder, reward=pays, compatibility=compatibility)
        env.reset(options={"goal": goal_for(env, color="walnut", size="small")})
        for action in BUY[:3]:
            assert env.step(action)[1] == 0
        _, paid, terminated, _, info = env.step("click[buy now]")
        assert (paid, terminated, info["score"], info["won"]) == (expected, True, 0.75, False)


def test_ends(write: Write) -> None:
    env = shop(write(), max_steps=2)
    with pytest.raises(ResetNeeded):
        env.step("search[x]")
    env.reset(options={"goal": 0})
    assert env.step("search[oak]")[2:4] == (False, False)
    assert env.step("nothing")[2:4] == (False, True)
    with pytest.raises(ResetNeeded):
        env.step("search[x]")


def test_state_key_tells_pages_apart(write: Write) -> None:
    env = shop(write(), max_steps=50)
    env.reset(options={"goal": 0})
    first = [env.step(action)[-1]["state_key"] for action in (*BUY[:4], "click[features]", "click[< prev]")]
    assert len(set(first)) == 5
    assert first[3] == first[5]
    env.reset(options={"goal": 0})
    *_, other = [env.step(action)[-1]["state_key"] for action in (*BUY[:2], BUY[3], BUY[2])]
    assert other == first[3]  # in whichever order options are chosen


@pytest.mark.parametrize(
    "action",
    [
        "", "buy", "click", "click[]", "click[nothing]", "click[search]", "Search[oak]", "SEARCH[oak]", "search[]",
        "search[<c>]", "click[B000000001", "search oak", "click[\n]", "search[oak\n]", "[x]", "x[search[oak]]",
        "\ud800", "click[\u0130]", " search[oak]",
    ],
)  # fmt: skip
def test_what_changes_nothing(write: Write, action: str) -> None:
    env = shop(write(), max_steps=5)
    before, known = env.reset(options={"goal": 0})
    after, paid, terminated, truncated, info = env.step(action)
    assert (after, paid, terminated, truncated) == (before, 0.0, False, False)
    assert not info["valid"]
    assert info["state_key"] == known["state_key"]


@pytest.mark.parametrize(
    "query",
    ["oak", "OAK", " ", "\u3000", "the", "xyzzy", "x" * 10_000, "oak " * 2500, "(" * 5000, "\u2764\ufe0f", "\ud800",
     "<b>&amp;</b>", '"oak" and (table', "<q>", "<c> none", "<r>"],
)  # fmt: skip
def test_any_query(write: Write, query: str) -> None:
    env = shop(write(), max_steps=5)
    env.reset(options={"goal": 0})
    observation, *_, info = env.step(f"search[{query}] and thank you")
    assert info["valid"]
    assert "Total results: " in observation
    found = "oak" in query.lower() or query == "<r>"
    assert ("click[b000000001]" in info["admissible_commands"]) == found


def test_parsing_takes_linear_time() -> None:
    assert parse_action("[" * 100_000) == ("[" * 100_000, None)
    assert parse_action("[" * 100_000 + "x]") == ("[" * 99_999, "x")
    assert parse_action("a[[]") == ("a", "[")


def test_selection_by_attribute(write: Write) -> None:
    folder = write({}, {"asin": "B2"})
    for compatibility, valid in (("fixed", True), ("original", False)):
        env = shop(folder, compatibility=compatibility)
        env.reset(options={"goal": 0})
        *_, info = env.step("search[<a> solid wood]")
        assert info["valid"] is valid
        assert ("click[b2]" in info["admissible_commands"]) is valid


def test_random_selection_keeps_over_pages_when_fixed(thousand: Catalogue, webshop: Path) -> None:
    seen = {}
    for compatibility in ("fixed", "original"):
        env = shop(webshop, compatibility=compatibility)
        env.reset(options={"goal": 0})
        first = env.step("search[<r>]")[0]
        env.step("click[next >]")
        seen[compatibility] = env.step("click[< prev]")[0] == first
    assert seen == {"fixed": True, "original": False}


def test_options_named_like_buttons(write: Write) -> None:
    values = [{"value": value} for value in ("Features", "Next >", "Back to Search", '42"w', "Walnut")]
    env = shop(write({"customization_options": {"Style": values}}), max_steps=20)
    env.reset(options={"goal": 0})
    env.step("search[oak]")
    *_, info = env.step("click[b000000001]")
    labels = [command[6:-1] for command in info["admissible_commands"]]
    assert labels == [
        "back to search", "< prev", "description", "features", "reviews", "buy now", "next >", '42"w', "walnut",
    ]  # fmt: skip
    assert "SOLID: made of oak." in env.step("click[features]")[0]  # the page, not the option
    env.step("click[< prev]")
    assert "You have clicked next >." in env.step("click[next >]")[0]
    assert "You have clicked 42" not in env.step('click[42"w]')[0]  # its quote is escaped in the address


def test_pages_of_odd_products(write: Write) -> None:
    change = {"name": " ", "full_description": "\n \n", "small_description": ["", "<i>x</i> \U0001f44d"]}
    env = shop(write(change, items_human_ins=None), max_steps=20)
    env.reset(options={"goal": 0})
    text = env.step("search[walnut]")[0]
    assert text.endswith("\n[button] B000000001 [button_]\n \n$49.99\n")
    env.step("click[b000000001]")
    assert env.step("click[description]")[0].endswith("[button] < Prev [button_]\n")
    env.step("click[< prev]")
    assert env.step("click[features]")[0].endswith("[button] < Prev [button_]\n \n <i>x</i> \U0001f44d\n")


def test_goals_by_number_mapping_and_draw(write: Write) -> None:
    env = shop(write(), seed=3)
    with pytest.raises(EnvironmentDataError, match="no goal 2: they are numbered 0 to 1"):
        env.reset(options={"goal": 2})
    with pytest.raises(EnvironmentDataError, match="neither a number nor a mapping"):
        env.reset(options={"goal": "first"})
    with pytest.raises(EnvironmentDataError, match="a goal lacks"):
        env.reset(options={"goal": {"asin": "B1"}})
    mapping = env.goals()[1].as_mapping()
    observation, _ = env.reset(options={"goal": mapping | {"instruction_text": "buy it"}})
    assert "buy it" in observation
    drawn = [env.reset(seed=seed)[0] for seed in range(20)]
    assert len(set(drawn)) == 2
    assert drawn == [env.reset(seed=seed)[0] for seed in range(20)]


def test_original_never_draws_its_first_goal(write: Write) -> None:
    env = shop(write(), compatibility="original")
    first = env.goals()[0].instruction_text
    assert all(first not in env.reset(seed=seed)[0] for seed in range(20))


def test_folder_at_reset(write: Write) -> None:
    env = envs.make("webshop")
    with pytest.raises(EnvironmentDataError, match="no catalogue"):
        env.reset()
    env.reset(options={"folder": write(), "goal": 0})
    assert env.step("search[oak]")[-1]["valid"]


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "html"},
        {"compatibility": "old"},
        {"reward": "profit"},
        {"max_steps": 0},
        {"prices": {"B000000001": "$5"}},
        {"prices": {"B000000001": float("nan")}},
        {"prices": {"B000000001": -1.0}},
    ],
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(EnvironmentDataError, match=next(iter(options))):
        envs.make("webshop", **options)


def walk(env: Any, stream: random.Random, steps: int) -> list[Any]:
    """Take random steps, sensible and not; return what came back."""
    words = ["oak", "red", "women", "shoes", "<q>", "<c>", "<r>", "<a>", "the", "\u2764\ufe0f", "search_results", "zz"]
    seen = []
    ended = True
    for _ in range(steps):
        if ended:
            seen.append(env.reset(seed=stream.randrange(1000), options={"goal": stream.randrange(len(env.goals()))}))
            commands = seen[-1][1]["admissible_commands"]
        kind = stream.random()
        if kind < 0.3 or not commands:
            action = f"search[{' '.join(stream.choices(words, k=stream.randint(1, 4)))}]"
        elif kind < 0.9:
            action = stream.choice(commands)
        else:
            action = "".join(stream.choices("search[]click <>\n\u2764", k=stream.randint(0, 30)))
        seen.append(env.step(action))
        observation, paid, terminated, truncated, info = seen[-1]
        assert observation
        assert 0 <= info["score"] <= 1
        assert paid in (0, info["score"])
        ended = terminated or truncated
        commands = info["admissible_commands"]
    return seen


@pytest.mark.parametrize("compatibility", ["original", "fixed"])
def test_ten_thousand_random_steps(webshop: Path, compatibility: str) -> None:
    seen = walk(shop(webshop, compatibility=compatibility, reward="score"), random.Random(0), 10_000)
    assert sum(len(item) == 5 and item[2] for item in seen) > 50


def test_random_steps_among_broken_products(write: Write) -> None:
    folder = write(
        {"customization_options": None}, {"asin": "B2", "name": ""}, {"asin": "b3", "pricing": "$"},
        {"asin": "B4", "small_description": None, "full_description": None, "images": None},
        {"asin": "B5", "customization_options": {"": [{"value": ""}, {"value": "buy now"}], "X": []}},
        nouns=None,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="repaired"):
        load_catalogue(folder)
    for mode in ("text", "text_rich"):
        walk(shop(folder, reward="score", mode=mode), random.Random(1), 2000)


def test_episodes_do_not_meet(webshop: Path) -> None:
    alone = [walk(shop(webshop, reward="score"), random.Random(seed), 60) for seed in range(4)]
    slots = [shop(webshop, reward="score") for _ in range(4)]
    streams = [random.Random(seed) for seed in range(4)]
    # Interleave: one environment a stream, a few steps each in turn, from a reset on.
    together = [walk(slot, stream, 60) for slot, stream in zip(slots, streams, strict=True)]
    assert together == alone
    first, second = slots[:2]
    first.reset(options={"goal": 0})
    second.reset(options={"goal": 0})
    asin = first.step("search[women shoes]")[-1]["admissible_commands"][2]
    for action in ("search[women shoes]", asin):
        first.step(action)
    assert "[clicked button]" not in second.step("search[women shoes]")[0]
