"""The page, in a real browser."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from progpo.cli import app
from progpo.errors import ProgpoError
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard
from progpo.viewer.page import embed
from tests import browser as browsers
from tests.browser import Browser
from tests.progpo.viewer.conftest import EVIL, walk

#: The sign, as the page prints it.
MINUS = "\u2212"


def view(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["view", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_no_text_can_end_the_script_that_holds_it() -> None:
    text = embed([EVIL])
    assert "<" not in text
    assert "\u2028" not in text
    assert json.loads(text) == [EVIL]


def test_the_page_is_one_file_and_holds_no_address(run: Path, tmp_path: Path) -> None:
    said = view(run / "progpo" / "iteration-001", "--output", tmp_path / "page.html")
    assert "8 trajectories" in said
    page = (tmp_path / "page.html").read_text()
    assert page.count("</script>") == 2
    assert "http" not in page.replace("http-equiv", "")
    assert "{{" not in page


def test_places_that_cannot_be_shown_together_are_refused(run: Path, tmp_path: Path) -> None:
    one = run / "progpo" / "iteration-001"
    for places, reason in (([one] * 3, "one is shown, or two"), ([one, run / "progpo"], "holds no trajectories")):
        with pytest.raises(ProgpoError, match=reason):
            view(*places, "--output", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if reason := browsers.missing():
        pytest.skip(reason)
    with browsers.browser() as started:
        yield started


@pytest.fixture
def page(browser: Browser, run: Path, tmp_path: Path) -> Browser:
    """The page of an arm's iteration."""
    browser.errors()
    view(run / "progpo" / "iteration-001", "--output", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    return browser


def listed(browser: Browser) -> list[str]:
    """The groups in the list, by the first word of their title."""
    return [text.split()[0] for text in browser.texts("nav li")]


def test_groups_are_listed_with_outcome_progress_and_branch(page: Browser) -> None:
    assert [text.split() for text in page.texts("nav li")] == [
        ["0", "·", "walk", "game-0", "■□", "1/2", "★", "0.75", "outcome"],
        ["1", "·", "seek", "game-1", "□□", "0/2", "★", "0.33", "progress"],
        ["2", "·", "walk", "game-2", "■■", "2/2", "★", "1.00", "outcome"],
        ["3", "·", "seek", "game-3", "□□", "0/2", "★", "1.00", "none"],
    ]
    assert page.texts("#count") == ["4 of 4 groups"]


def test_a_group_s_trajectories_stand_side_by_side(page: Browser) -> None:
    page.click("nav button", 1)
    heads = page.texts("thead th")
    assert len(heads) == 3
    assert "trajectory 0 □ failed" in heads[1]
    assert "3 steps · progress 0.67 · advantage +0.50" in heads[1]
    assert f"advantage {MINUS}0.50" in heads[2]
    assert page.texts(".start") == ["start"]
    assert len(page.texts("tbody tr")) == 3
    first, second = page.texts("tbody tr:first-child td")
    assert first.split("\n") == ["go to cellar", "★ new", "+0.50", "cellar"]
    assert second.split("\n") == ["go to start", "✗ invalid", f"{MINUS}0.50", "start"]
    assert page.texts("tbody tr:last-child td")[1] == ""
    assert "cut: no steps" in page.texts("tbody tr:last-child td")[0]


def test_the_advantage_is_a_colour_too(page: Browser) -> None:
    page.click("nav button", 1)
    ground = "e => getComputedStyle(e).backgroundColor"
    colours = page.run(f"return [...document.querySelectorAll('tbody tr:first-child .action')].map({ground})")
    assert len(set(colours)) == 2
    assert not any("rgba(0, 0, 0, 0)" in colour for colour in colours)


def test_what_an_environment_says_stays_text(page: Browser) -> None:
    page.click("nav button", 1)
    assert page.run("return document.querySelectorAll('img, #evil').length") == 0
    assert page.run("return document.title") == "progpo, seed 0, iteration 1"
    shown = page.run("return [...document.querySelectorAll('.observation')].map(e => e.textContent)")
    assert EVIL in shown
    assert page.requests() == []
    assert page.errors() == []


def test_a_script_that_were_put_in_would_not_run(page: Browser) -> None:
    page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title=1\">')")
    page.wait("true")
    assert page.run("return document.title") == "progpo, seed 0, iteration 1"
    assert any("Content Security Policy" in error for error in page.errors())


@pytest.mark.parametrize(
    ("filter", "value", "left"),
    [
        ("type", "seek", ["1", "3"]),
        ("outcome", "mixed", ["0"]),
        ("outcome", "solved", ["2"]),
        ("outcome", "failed", ["1", "3"]),
        ("branch", "none", ["3"]),
        ("branch", "progress", ["1"]),
    ],
)
def test_filters(page: Browser, filter: str, value: str, left: list[str]) -> None:
    page.click(f"#{filter} option[value={value}]")
    assert listed(page) == left
    assert page.texts("#count") == [f"{len(left)} of 4 groups"]
    assert page.texts("nav [aria-current=true]") == page.texts("nav button")[:1]


def test_search_finds_texts_and_marks_them(page: Browser) -> None:
    page.type("#search", "ATTIC")
    page.wait("document.querySelector('#count').textContent.startsWith('1 of')")
    assert listed(page) == ["0"]
    assert set(page.texts("mark")) == {"attic"}
    page.type("#search", "Escape")
    assert listed(page) == ["0", "1", "2", "3"]
    page.type("#search", "no such thing")
    page.wait("document.querySelector('#count').textContent.startsWith('0 of')")
    assert page.texts("#detail") == ["No group is like that: loosen the filters or the search."]


def test_the_keyboard_is_enough(page: Browser) -> None:
    chosen = "nav [aria-current=true] b"
    page.press("j")
    assert page.texts(chosen) == ["1 · seek"]
    page.press("ArrowDown")
    assert page.texts(chosen) == ["2 · walk"]
    page.press("k")
    assert page.texts(chosen) == ["1 · seek"]
    page.press("o")
    assert page.texts(".observation") == []
    page.press("/")
    assert page.run("return document.activeElement.id") == "search"
    page.press("j")
    assert page.run("return document.activeElement.value") == "j"


def test_two_arms_are_compared_on_the_same_task(browser: Browser, run: Path, tmp_path: Path) -> None:
    places = [run / arm / "iteration-001" for arm in ("progpo", "grpo")]
    view(*places, "--output", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.texts("nav li")[1].split() == [
        *("seek", "game-1"),
        *("progpo", "□□", "0/2", "★", "0.33", "progress"),
        *("grpo", "□□", "0/2", "★", "0.33", "outcome"),
    ]
    browser.click("nav button", 1)
    assert browser.texts("thead tr:first-child th")[1:] == [
        "progpo, seed 0, iteration 1 branch: progress",
        "grpo, seed 0, iteration 1 branch: outcome",
    ]
    assert browser.texts("tbody tr:first-child .advantage") == ["+0.50", f"{MINUS}0.50", "0.00", "0.00"]


def test_an_iteration_of_128_trajectories_of_50_steps(browser: Browser, tmp_path: Path) -> None:
    walks = [
        walk(group, number, [f"{group} {number} {step} {'a place seen once ' * 20}" for step in range(51)], False)
        for group in range(16)
        for number in range(8)
    ]
    write_shard(tmp_path / "shard.parquet", walks, Metadata("rollout"))
    view(tmp_path / "shard.parquet", "--output", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 10e6
    browser.open(tmp_path / "page.html")
    assert browser.texts("#count") == ["16 of 16 groups"]
    assert browser.run("return document.querySelectorAll('td').length") == 8 * 50


def test_a_task_that_one_side_lacks(browser: Browser, run: Path, tmp_path: Path) -> None:
    view(run / "progpo" / "iteration-001", run / "warmup" / "evaluation", "--output", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert "no group of this task" in browser.texts("nav li")[2]
    browser.click("nav button", 2)
    assert len(browser.texts("thead tr:last-child th")) == 3
    assert browser.errors() == []
