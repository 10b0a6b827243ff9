"""Every query of docs/data.md, run on a small experiment of which the answers are known."""

import re
from pathlib import Path
from typing import Any

import pytest

from progpo.settings.advantages import AdvantageSettings
from progpo.settings.base import validate
from progpo.stages import advantages
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
#: (heading, language, code), in the page's order.
BLOCKS = [
    (part.split("\n", 1)[0], language, code)
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")
    for language, code in re.findall(r"```(\w+)\n(.*?)```", part, re.DOTALL)
]


def block(heading: str, language: str) -> str:
    (code,) = [code for its, of, code in BLOCKS if its == heading and of == language]
    return code


def walk(group: int, trajectory: int, actions: list[str], places: list[str], won: bool) -> Trajectory:
    """Do things in places; "xyzzy" is not admissible."""
    steps = [
        Step(
            observation=places[number],
            next_observation=places[number + 1],
            action=action,
            valid=action != "xyzzy",
            reward=float(won and number == len(actions) - 1),
            terminated=won and number == len(actions) - 1,
            truncated=not won and number == len(actions) - 1,
        )
        for number, action in enumerate(actions)
    ]
    return Trajectory(group, trajectory, f"game-{group}", "walk", float(won), float(won), steps)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the artifacts of one seed: two iterations of the arms grpo and progpo.

    Game 0 is won by half of the trajectories, game 1 by none. Winners see two new things in two steps; the losers of
    game 0 nothing, those of game 1 one thing in four steps or none.
    """
    folder = tmp_path_factory.mktemp("data")
    won = (["go north", "take it"], ["start", "hall", "treasure"], True)
    lost = (["xyzzy", "look"], ["start", "start", "start"], False)
    far = (["go south", "xyzzy", "xyzzy", "look"], ["start", "cellar", "cellar", "cellar", "cellar"], False)
    walks = [walk(0, 0, *won), walk(0, 1, *lost), walk(1, 0, *far), walk(1, 1, *lost)]
    home = folder / "artifacts" / "default" / "seed-0"
    for iteration in (1, 2):
        for arm, settings in (("grpo", {"base": "grpo"}), ("progpo", {"base": "grpo", "progress": {}})):
            name = f"iteration-{iteration:03d}"
            shards = []
            for shard in range(2):
                source = "shared" if iteration == 1 else arm
                shards.append(home / source / name / f"shard-{shard:02d}.parquet")
                metadata = Metadata("rollout", shard=shard, shards=2, iteration=iteration)
                write_shard(shards[-1], [item for item in walks if item.group == shard], metadata)
            chosen = validate(AdvantageSettings, settings, "test")
            advantages.run(
                chosen, shards, home / arm / name / "advantages.parquet", home / arm / name / "advantages.json"
            )
    return folder


@pytest.fixture(autouse=True)
def _in_place(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)


def rows(code: str) -> list[tuple[Any, ...]]:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.sql(code).fetchall()


def variables(code: str) -> dict[str, Any]:
    pytest.importorskip("polars")
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_games_that_never_succeed() -> None:
    # Three rollouts (the shared one, and one of each arm) of two trajectories.
    assert rows(block("Which games never succeed", "sql")) == [("walk", "game-1", 6)]
    assert variables(block("Which games never succeed", "python"))["never"].rows() == [("walk", "game-1", 6)]


def test_wasted_actions() -> None:
    # Of a rollout's ten steps: four look at what is there already, or say xyzzy; three more go or take.
    assert rows(block("Which actions are wasted", "sql")) == [
        ("xyzzy", 12, 100.0, 0.0),
        ("look", 9, 0.0, 100.0),
        ("go", 6, 0.0, 0.0),
        ("take", 3, 0.0, 0.0),
    ]
    assert variables(block("Which actions are wasted", "python"))["wasted"].rows() == [("xyzzy", 12, 2)]


def test_coverage_and_success() -> None:
    # Of each arm four trajectories an iteration: progress 0 (twice), 1/4 and 1 (the winner).
    assert rows(block("How coverage relates to success", "sql")) == [
        (arm, fifth, trajectories, success)
        for arm in ("grpo", "progpo")
        for fifth, trajectories, success in ((0, 4, 0.0), (1, 2, 0.0), (4, 2, 100.0))
    ]
    found = variables(block("How coverage relates to success", "python"))["coverage"]
    assert found.columns == ["success", "first_visit", "steps", "trajectories"]
    assert found.rows() == [(False, pytest.approx(1 / 3), pytest.approx(8 / 3), 3), (True, 2.0, 2.0, 1)]


def test_branches() -> None:
    assert rows(block("What decided, iteration by iteration", "sql")) == [
        *(("grpo", iteration, "outcome", 2) for iteration in (1, 2)),
        *(("progpo", iteration, branch, 1) for iteration in (1, 2) for branch in ("outcome", "progress")),
    ]


def test_datasets() -> None:
    pytest.importorskip("datasets")
    found = variables(block("With `datasets`", "python"))
    assert len(found["steps"]) == 30
    assert found["successes"]["task"][:] == ["game-0"] * 3


def test_no_query_is_left_out() -> None:
    """Each block of the page is run by one of the tests above."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert all(f'block("{heading}", "{language}")' in source for heading, language, _ in BLOCKS)
    assert len(BLOCKS) == 8
