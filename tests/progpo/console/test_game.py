"""A task in the terminal."""

from collections.abc import Iterable
from pathlib import Path

import corridor
import numpy as np
import pytest
from typer.testing import CliRunner

from envs import Task
from progpo.cli import app
from progpo.console.game import Game, choose_task, columns, plain, play
from progpo.errors import ProgpoError
from progpo.settings.base import validate
from progpo.settings.experiment import TasksStage
from progpo.stages import tasks as tasks_stage

#: The coin lies in the next room.
FETCH = Task("fetch-it", "train", "fetch", {"rooms": 3, "coin": 2, "goal": None})


def played(lines: Iterable[str], expert: corridor.CorridorExpert | None = None) -> tuple[float | None, str]:
    """Return the score and what was said, when a person types some lines."""
    said: list[str] = []
    typed = iter(lines)
    game = Game(corridor.make(), FETCH, expert)
    score = play(game, lambda text="": said.append(text), lambda: next(typed, None))
    return score, "\n".join(said)


def test_a_person_plays_by_words_and_numbers() -> None:
    score, said = played(["go to room 2", "4"])
    assert score == 1.0
    assert said.startswith("task: fetch-it (fetch)\n")
    assert "Your task is to: find the coin." in said
    assert "1 go to room 2  2 look" in said
    assert "> take coin 1 from room 2\nYou take the coin 1 from the room 2.\nreward 1" in said
    assert said.endswith("won after 2 steps; score 1")


def test_what_is_no_action_costs_nothing_and_what_is_not_admissible_is_marked() -> None:
    score, said = played(["", "?", "9", "dance", "quit"])
    assert score is None
    assert said.count("1 go to room 2  2 look") == 3
    assert "there is no action 9: there are 2" in said
    assert "> dance  (not admissible)\nNothing happens." in said
    assert said.endswith("left after 1 steps")


def test_the_end_of_the_input_is_the_end() -> None:
    assert played([]) == (None, played([])[1])
    assert played(["look"])[1].endswith("left after 1 steps")


def test_steps_are_limited() -> None:
    score, said = played(["look"] * 20)
    assert score == 0.0
    assert said.endswith("not won after 12 steps, cut there; score 0")


def test_the_expert_plays() -> None:
    score, said = played([], corridor.CorridorExpert(np.random.default_rng(0)))
    assert score == 1.0
    assert "> go to room 2\n" in said


def test_what_is_said_steers_no_terminal() -> None:
    assert plain("a\x1b[2Jb\r\u202ec\n\td é ★") == "a\ufffd[2Jb\ufffd\ufffdc\n\td é ★"


def test_where_more_is_allowed_than_is_listed_it_is_said() -> None:
    assert "such as search[words]" in run("webshop", typed="search[red]\nquit\n")
    assert "such as search[words]" not in played([])[1]


def test_columns_are_read_downwards() -> None:
    assert columns(["a", "b", "c"], 6) == "a  c\nb"
    assert columns(["long", "longer"], 3) == "long\nlonger"
    assert columns([], 80) == "(no action is listed)"


def run(*arguments: object, typed: str = "") -> str:
    result = CliRunner().invoke(app, ["play", *map(str, arguments)], input=typed, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the corridor's tasks."""
    place = tmp_path_factory.mktemp("made") / "tasks"
    tasks_stage.run(validate(TasksStage, {"environment": "corridor", "tasks": {}}, "test"), place)
    return place


def test_a_task_is_taken_from_a_folder(folder: Path) -> None:
    said = run("corridor", "--tasks", folder, "--task", "valid-2", "--expert")
    assert said.startswith("task: valid-2 (fetch)\n")
    assert "\nwon after " in said
    assert run("corridor", "--tasks", folder, "--split", "valid", "--expert").startswith("task: valid-")
    names = {run("corridor", "--tasks", folder, "--seed", seed).split()[1] for seed in range(6)}
    assert len(names) > 1


def test_a_task_is_generated_where_none_is_named() -> None:
    assert "\nwon after " in run("alfworld", "--expert")
    assert run("alfworld", "--seed", 1) != run("alfworld", "--seed", 2)


def test_settings_are_those_of_the_environment(folder: Path) -> None:
    said = run("corridor", "--tasks", folder, "--settings", '{"max_steps": 2}', typed="look\nlook\nlook\n")
    assert "not won after 2 steps, cut there; score 0" in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--task", "nowhere"], "'nowhere': not in"),
        (["--split", "test"], "no task of split 'test'; its splits: train, valid"),
        (["--advise"], "a policy advises a person"),
        (["--settings", '{"max_step": 2}'], "max_step: unknown setting"),
    ],
)
def test_what_cannot_be_played_is_refused(folder: Path, arguments: list[str], reason: str) -> None:
    with pytest.raises(ProgpoError, match=reason):
        run("corridor", "--tasks", folder, *arguments)


def test_choosing_without_a_folder_is_refused() -> None:
    with (
        pytest.raises(ProgpoError, match="--task and --split choose from a folder"),
        choose_task("corridor", None, None, "valid-2", 0),
    ):
        pass
