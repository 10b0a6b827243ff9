"""The benchmark of the expert counts what was played."""

from benchmarks.expert import Played, play, table
from envs.alfworld.official import OfficialGame
from envs.alfworld.settings import TASK_TYPES, TaskSettings
from envs.alfworld.tasks import prepare


def test_plays_every_variant_of_every_game(tmp_path):
    games = [
        OfficialGame(task.id, task.split, task.task_type, tmp_path / task.options["game"])
        for task in prepare(TaskSettings(splits={"train": 6}), tmp_path)
    ]
    played = play(games, [0, 1], seed=3)
    assert [item.task_type for item in played] == [game.task_type for game in games for _ in range(2)]
    assert all(item.won or item.steps == 50 for item in played)
    assert played == play(games, [0, 1], seed=3)


def test_table():
    kind = TASK_TYPES[0]
    played = [Played(kind, True, 4, 0), Played(kind, True, 7, 1), Played(kind, False, 50, 2)]
    rows = table({"train": played}).splitlines()
    assert rows[2] == f"| {kind} | 66.7% of 3; 5.50, 7 |"
    assert rows[3] == f"| {TASK_TYPES[1]} | none |"
    assert rows[-1] == "| all | 66.7% of 3; 5.50, 7 |"
