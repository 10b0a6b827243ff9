"""The stage `tasks`: what its manifest covers."""

import json
from pathlib import Path

from envs.alfworld.generate import generate
from progpo.artifacts import verify
from progpo.settings.experiment import TasksStage
from progpo.stages.tasks import run


def test_a_replaced_official_game_is_noticed(tmp_path: Path) -> None:
    place = tmp_path / "games" / "json_2.1.1" / "train" / "pick_and_place_simple-Mug-None-Desk-301" / "trial_1"
    place.mkdir(parents=True)
    game = place / "game.tw-pddl"
    content = generate(0, "train", 0).content | {"solvable": True}
    game.write_text(json.dumps(content))
    settings = {"source": "official", "data": str(tmp_path / "games"), "splits": {"train": 1}}
    output = tmp_path / "made" / "tasks"
    run(TasksStage.model_validate({"tasks": settings}), output)
    assert verify(output) == ([], [])
    game.write_text(json.dumps(content | {"walkthrough": []}))
    damaged, outdated = verify(output)
    assert not damaged
    assert [str(game) in line for line in outdated] == [True]
