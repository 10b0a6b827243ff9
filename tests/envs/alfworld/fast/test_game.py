"""Reading games: PDDL in other clothes is the same game, and what the engine can't play it says."""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from envs.alfworld.fast import DOMAINS, GRAMMARS, FastEpisode, Game, UnsupportedGameError, load_game
from envs.alfworld.fast.rules import check_domain, task_sentence
from envs.alfworld.generate import domain, generate, grammar
from envs.alfworld.generate.shipped import package
from envs.alfworld.parity import hurried
from envs.alfworld.textworld_engine import TextWorldEpisode

CONTENT = generate(6, "train", 0, ("pick_cool_then_place_in_recep",)).content
DOMAIN, GRAMMAR, PROBLEM = (CONTENT[key] for key in ("pddl_domain", "grammar", "pddl_problem"))


def _declared(kind: str) -> str:
    """Return a declared id with a position, of a type."""
    return re.search(rf"(\w+_bar_\w+) - {kind}\b", PROBLEM)[1]


def _group(problem: str) -> str:
    """Write "a - t b - t" as "a b - t"."""
    return re.sub(r" - object\s+(?=\w+ - object\b)", " ", problem)


SAME: dict[str, Callable[[str], str]] = {
    "one line": lambda problem: " ".join(problem.split()),
    "blanks everywhere": lambda problem: re.sub(r"\s+", "\n\t ", problem.replace("(", " ( ").replace(")", " ) ")),
    "no blanks": lambda problem: re.sub(r"\s*([()])\s*", r"\1", problem),
    "capitals": str.upper,
    "comments": lambda problem: problem.replace("(:init", "; a comment )\n(:init ; and (another\n"),
    "types for many at once": _group,
    "every fact twice": lambda problem: re.sub(r"(\((?:inReceptacle|openable|objectType) [\w ]+\))", r"\1 \1", problem),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_game_written_otherwise(name: str) -> None:
    changed = SAME[name](PROBLEM)
    assert changed != PROBLEM
    plain, other = (FastEpisode(Game(DOMAIN, GRAMMAR, problem)) for problem in (PROBLEM, changed))
    assert other.start() == plain.start()
    for command in CONTENT["walkthrough"]:
        assert other.step(command) == plain.step(command)
        assert other.admissible_commands == plain.admissible_commands
        assert other.state_key == plain.state_key
    assert other.won


@pytest.mark.parametrize("name", ["blanks everywhere", "comments", "types for many at once"])
def test_the_official_engine_reads_it_alike(name: str, tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps({**CONTENT, "pddl_problem": SAME[name](PROBLEM)}))
    with hurried():
        official = TextWorldEpisode(path)
        fast = FastEpisode(load_game(path))
        assert fast.start() == official.start()
        assert fast.admissible_commands == official.admissible_commands
        official.close()


UNSUPPORTED = {
    "negation": (f"(not (opened {_declared('receptacle')}))", "negations or numbers"),
    "number": ("(= (total-cost) 0)", "negations or numbers"),
    "held": (f"(holds agent1 {_declared('object')})", "holds something at the start"),
    "two places at once": (
        f"(atLocation agent1 {_declared('location')}) (checked {_declared('receptacle')})",
        "two places",
    ),
    "object as a receptacle": (f"(openable {_declared('object')})", "which is no receptacle"),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_initial_state_beyond_the_released_games(name: str) -> None:
    fact, reason = UNSUPPORTED[name]
    with pytest.raises(UnsupportedGameError, match=reason):
        Game(DOMAIN, GRAMMAR, PROBLEM.replace("(:init", f"(:init {fact}"))


def test_receptacle_in_two_places() -> None:
    receptacle, place = re.search(r"\(receptacleAtLocation (\w+) (\w+)\)", PROBLEM).groups()
    other = next(name for name in re.findall(r"(\w+) - location", PROBLEM) if name != place)
    with pytest.raises(UnsupportedGameError, match="two places"):
        Game(DOMAIN, GRAMMAR, PROBLEM.replace("(:init", f"(:init (receptacleAtLocation {receptacle} {other})"))


@pytest.mark.parametrize("section", ["(:requirements :adl)", "(:constraints)"])
def test_another_section(section: str) -> None:
    with pytest.raises(UnsupportedGameError, match="other sections"):
        Game(DOMAIN, GRAMMAR, PROBLEM.replace("(:objects", f"{section} (:objects"))


def test_a_metric() -> None:
    with pytest.raises(UnsupportedGameError, match="goal"):
        Game(DOMAIN, GRAMMAR, PROBLEM.rstrip()[:-1] + "(:metric minimize (total-cost)))")


def test_another_goal() -> None:
    with pytest.raises(UnsupportedGameError, match="six task families"):
        Game(DOMAIN, GRAMMAR, PROBLEM.replace("(isCool ?o)", "(isHot ?o)"))


@pytest.mark.parametrize(
    "sentence", ["put a {mug}", "put a [mug", "put a #mug#", "put a mug; now", "put a\\n mug", "é"]
)
def test_task_sentence_that_the_grammar_would_read(sentence: str) -> None:
    with pytest.raises(UnsupportedGameError, match="special characters"):
        task_sentence(grammar(sentence))


def test_known_texts() -> None:
    for text in (domain(), (package() / "data" / "alfred.pddl").read_text()):
        check_domain(text)
    for text in (grammar("put a mug in desk"), (package() / "data" / "alfred.twl2").read_text()):
        assert task_sentence(text).startswith("Your task is to: ")
    assert len(DOMAINS) == len(GRAMMARS) == 2
    with pytest.raises(UnsupportedGameError, match="another PDDL domain"):
        check_domain(domain() + " ")
    for text in ("", grammar("put a mug in desk") + " ", grammar("x").replace("Your task is to", "Do")):
        with pytest.raises(UnsupportedGameError, match="another text grammar"):
            task_sentence(text)


def test_generated_and_released_games_share_their_texts() -> None:
    assert sha256(DOMAIN.encode()).hexdigest() == DOMAINS["released"]
    sentence = task_sentence(GRAMMAR).removeprefix("Your task is to: ")
    assert sha256(GRAMMAR.replace(sentence, "").encode()).hexdigest() == GRAMMARS["released"]


def test_the_session_reads_a_file_once(tmp_path: Path) -> None:
    path = generate(6, "train", 1).write(tmp_path)
    first = load_game(path)
    assert load_game(str(path)) is first
