import json
import re
from pathlib import Path

import pytest

from envs import EnvironmentDataError, entry
from envs.alfworld import tasks
from envs.alfworld.environment import make
from envs.alfworld.generate import domain, generate, grammar
from envs.alfworld.settings import TASK_TYPES, TaskSettings
from envs.alfworld.tasks import preflight, prepare

SPLIT_SIZES = {"train": 12, "validation": 3, "valid_seen": 6, "valid_unseen": 6}


def test_generated_games_are_written_where_the_tasks_say(tmp_path):
    made = prepare(TaskSettings(splits=SPLIT_SIZES), tmp_path)
    assert [task.split for task in made] == [split for split, size in SPLIT_SIZES.items() for _ in range(size)]
    assert len({task.id for task in made}) == len(made)
    environment = make()
    for task in made:
        assert re.fullmatch(r"[\w-]+", task.id)
        assert task.options["game"] == f"games/{task.split}/{task.id}/game.tw-pddl"
        _, info = environment.reset(options={"game": tmp_path / task.options["game"]})
        assert info["task_type"] == task.task_type


def test_preparing_again_gives_the_same_files(tmp_path):
    settings = TaskSettings(splits={"train": 4}, seed=8)
    first, second = (prepare(settings, tmp_path / name) for name in ("a", "b"))
    assert first == second
    for task in first:
        one, other = (tmp_path / name / task.options["game"] for name in ("a", "b"))
        assert one.read_bytes() == other.read_bytes()


def test_official_games_stay_where_they_are(tmp_path, real_games):
    settings = TaskSettings(source="official", data=real_games[0].parents[4], splits={"train": 12, "valid_seen": None})
    chosen = prepare(settings, tmp_path)
    assert not list(tmp_path.iterdir())
    assert {task.options["game"] for task in chosen} <= set(map(str, real_games))
    assert [task.split for task in chosen] == ["train"] * 12 + ["valid_seen"] * (len(chosen) - 12)
    assert {task.task_type for task in chosen} == set(TASK_TYPES)
    assert all(task.id.startswith(task.task_type) and "-trial_" in task.id for task in chosen)


def test_validation_games_are_train_games_set_aside(tmp_path, real_games):
    splits = {"train": None, "validation": 6}
    data = real_games[0].parents[4]
    made = prepare(TaskSettings(source="official", data=data, splits=splits), tmp_path)
    aside = [task for task in made if task.split == "validation"]
    assert {task.task_type for task in aside} == set(TASK_TYPES)
    assert all("/train/" in task.options["game"] for task in made)
    assert len({task.options["game"] for task in made}) == len(made)
    alone = prepare(TaskSettings(source="official", data=data, splits={"train": None}), tmp_path)
    assert {task.options["game"] for task in made} == {task.options["game"] for task in alone}
    assert "train" in preflight(TaskSettings(source="official", data=data, splits=splits))


def test_an_official_game_with_broken_pddl_is_named(tmp_path):
    content = {"pddl_domain": "", "grammar": "", "solvable": True}
    place = tmp_path / "json_2.1.1" / "train" / "pick_and_place_simple-Mug-None-Desk-301" / "trial_1"
    place.mkdir(parents=True)
    problem = generate(0, "train", 0).content["pddl_problem"]
    content |= {"pddl_domain": domain(), "grammar": grammar("put a mug in desk"), "pddl_problem": problem[:9000]}
    (place / "game.tw-pddl").write_text(json.dumps(content))
    with pytest.raises(EnvironmentDataError, match=f"{place}.*alfworld-download"):
        prepare(TaskSettings(source="official", data=tmp_path, splits={"train": 1}), tmp_path)


DOMAIN = """(define (domain blocks) (:requirements :strips :typing) (:types block)
 (:predicates (on ?x - block ?y - block) (clear ?x - block))
 (:action move :parameters (?x - block ?y - block) :precondition (clear ?y) :effect (on ?x ?y)))"""
PROBLEM = "(define (problem b) (:domain blocks) (:objects a b - block) (:init (clear a) (clear b)) (:goal (on a b)))"


@pytest.mark.filterwarnings("ignore:the fast engine does not play")
def test_an_official_game_that_no_engine_plays_is_named(tmp_path):
    place = tmp_path / "json_2.1.1" / "train" / "pick_and_place_simple-Mug-None-Desk-301" / "trial_1"
    place.mkdir(parents=True)
    content = {"pddl_domain": DOMAIN, "grammar": grammar("stack the blocks"), "pddl_problem": PROBLEM, "solvable": True}
    (place / "game.tw-pddl").write_text(json.dumps(content))
    with pytest.raises(EnvironmentDataError, match=f"{place}.*official engine"):
        prepare(TaskSettings(source="official", data=tmp_path, splits={"train": 1}), tmp_path)
    with pytest.raises(EnvironmentDataError, match=f"{place}.*official engine"):
        make().reset(options={"game": place / "game.tw-pddl"})


def test_preflight_refuses_a_broken_game_of_a_wanted_split(tmp_path):
    for split in ("train", "valid_seen"):
        for number in (1, 2):
            place = tmp_path / "json_2.1.1" / split / "pick_and_place_simple-Mug-None-Desk-301" / f"trial_{number}"
            place.mkdir(parents=True)
            (place / "game.tw-pddl").write_text(json.dumps(generate(0, split, 0).content | {"solvable": True}))
    (place / "game.tw-pddl").write_text("{")
    assert "valid_seen" in preflight(TaskSettings(source="official", data=tmp_path, splits={"train": 1}))
    with pytest.raises(EnvironmentDataError, match=rf"broken game file {place}/game.tw-pddl"):
        preflight(TaskSettings(source="official", data=tmp_path, splits={"train": 1, "valid_seen": 1}))


def test_a_game_that_cannot_be_won_is_not_written(tmp_path, monkeypatch):
    made = tasks.generate

    def broken(*arguments):
        game = made(*arguments)
        game.content["walkthrough"].pop()
        return game

    monkeypatch.setattr(tasks, "generate", broken)
    with pytest.raises(EnvironmentDataError, match=r"train-0000-.*does not win"):
        prepare(TaskSettings(splits={"train": 1}), tmp_path)
    assert not list(tmp_path.rglob("game.tw-pddl"))


def test_settings_survive_json():
    settings = TaskSettings(difficulty={"distractors": (3, 9), "closed": 0.5})
    for original in (settings, TaskSettings()):
        assert TaskSettings.model_validate(json.loads(original.model_dump_json())) == original


def test_the_registry_knows_prepare():
    assert entry("alfworld").load("prepare") is prepare


def test_preflight_says_what_there_is(tmp_path: Path) -> None:
    assert preflight(TaskSettings(splits={"train": 3})) == "games to generate: train 3"
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    with pytest.raises(EnvironmentDataError, match=r"names train, which has no game"):
        preflight(TaskSettings(source="official", data=tmp_path, splits={"train": None}))
