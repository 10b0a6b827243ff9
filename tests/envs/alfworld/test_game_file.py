"""Broken games: each gets one message that names the file and what is wrong with it, from both engines."""

import json
import re
from pathlib import Path

import pytest

import envs
from envs.alfworld.game_file import read_game, task_type_of_goal
from envs.alfworld.generate import generate
from envs.alfworld.settings import TASK_TYPES
from envs.base import EnvironmentDataError


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict:
    return json.loads(generate(4, "train", 0, (TASK_TYPES[0],)).write(tmp_path_factory.mktemp("game")).read_text())


def _reset(text: str | bytes, folder: Path, engine: str) -> str:
    path = folder / "game.tw-pddl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(EnvironmentDataError) as caught:
        envs.make("alfworld", engine=engine).reset(options={"game": path})
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("engine", ["fast", "textworld"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ('{"pddl_domain": "(def', "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        ("[1, 2]", "no JSON object"),
        ('{"pddl_domain": "", "grammar": ""}', "`pddl_problem` is missing"),
        ('{"pddl_domain": 3, "grammar": "", "pddl_problem": ""}', "`pddl_domain` is missing, or is no text"),
    ],
)
def test_no_game(text: str | bytes, reason: str, engine: str, tmp_path: Path) -> None:
    assert reason in _reset(text, tmp_path, engine)


def test_missing_file(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.tw-pddl", tmp_path):
        with pytest.raises(EnvironmentDataError, match=r"cannot read the game .*; check the path"):
            read_game(path)


BROKEN = {
    "cut off": (lambda text: text[: len(text) // 2], r"\d+ opening and \d+ closing brackets"),
    "closed too early": (lambda text: ")(" + text, "closes a bracket that was not opened"),
    "no goal": (lambda text: text.replace("(:goal", "(:gaol"), "has no :goal"),
    "another domain's name": (lambda text: text.replace(":domain alfred", ":domain blocks"), "has no :domain alfred"),
    "unknown predicate": (lambda text: text.replace("(openable ", "(opennable "), "`\\(opennable .*does not know"),
    "a word among the facts": (lambda text: text.replace("(:init", "(:init nonsense "), "the fact `nonsense"),
    "too many arguments": (lambda text: text.replace("(openable ", "(openable agent1 "), "number of arguments"),
    "undeclared": (lambda text: text.replace("(pickupable ", "(pickupable Ghost_", 1), "does not declare ghost_"),
    "declared twice": (lambda text: text.replace("agent1 - agent", "agent1 - agent agent1 - agent"), "twice"),
    "unknown type": (lambda text: text.replace("agent1 - agent", "agent1 - spirit"), "unknown type spirit"),
    "type without a name": (lambda text: text.replace("agent1 - agent", "- agent"), "type without objects"),
    "not ASCII": (lambda text: text.replace("agent1", "agént1"), "beyond ASCII"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_problem(name: str, content: dict, tmp_path: Path) -> None:
    change, reason = BROKEN[name]
    changed = change(content["pddl_problem"])
    assert changed != content["pddl_problem"]
    message = _reset(json.dumps({**content, "pddl_problem": changed}), tmp_path, "fast")
    assert re.search(reason, message), message
    assert "PDDL" in message


def test_broken_problem_on_the_official_engine(content: dict, tmp_path: Path) -> None:
    changed = {**content, "pddl_problem": content["pddl_problem"].rstrip()[:-1]}
    assert "the official engine cannot load it" in _reset(json.dumps(changed), tmp_path, "textworld")


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_task_type_of_goal(task_type: str) -> None:
    problem = generate(4, "valid_unseen", 1, (task_type,)).content["pddl_problem"]
    assert task_type_of_goal(problem) == task_type
