import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from envs import EnvironmentDataError
from envs.alfworld.official import choose, locate, preflight, survey
from envs.alfworld.settings import SPLITS, TASK_TYPES

CONTENT = {"pddl_domain": "", "grammar": "", "pddl_problem": "", "solvable": True, "walkthrough": []}


def put(folder: Path, split: str, name: str, trial: str = "trial_1", traj: dict | None = None, **content) -> Path:
    """Make a game's folder below `<folder>/json_2.1.1`; `game=None`: without a game file."""
    place = folder / "json_2.1.1" / split / name / trial
    place.mkdir(parents=True)
    if traj is not None:
        (place / "traj_data.json").write_text(json.dumps(traj))
    if content.get("game", "") is not None:
        (place / "game.tw-pddl").write_text(json.dumps(CONTENT | content))
    return place / "game.tw-pddl"


@pytest.fixture
def tree(tmp_path) -> Path:
    """Four train games of each type, two of them with a type told by traj_data.json alone, and one unseen."""
    for task_type in TASK_TYPES:
        for number in range(2):
            put(tmp_path, "train", f"{task_type}-Mug-None-Desk-30{number}")
        for number in range(2):
            put(tmp_path, "train", f"{task_type}-Mug-None-Desk-31{number}", traj={"task_type": task_type})
    put(tmp_path, "valid_unseen", "pick_and_place_simple-Mug-None-Desk-308")
    return tmp_path


@pytest.fixture
def no_home(monkeypatch, tmp_path) -> Path:
    """No ALFWORLD_DATA, and a home where nothing was downloaded."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    return home


def test_released_games_are_counted_by_split_and_type(real_games):
    folder = real_games[0].parents[3]
    told = Counter((path.parents[2].name, path.parents[1].name.partition("-")[0]) for path in real_games)
    found = preflight(folder)
    assert {(split, name): count for split in SPLITS for name, count in found.counts[split].items() if count} == told
    assert all(re.search("valid_unseen.*alfworld-download", problem) for problem in found.problems)
    assert found.problems
    text = found.render()
    assert re.search(rf"pick_two_obj_and_place +{told['train', 'pick_two_obj_and_place']} ", text)
    assert preflight(folder.parent) == found


def test_folder_is_found_by_setting_variable_or_default(tree, no_home, monkeypatch):
    assert locate(tree) == locate(tree / "json_2.1.1") == tree / "json_2.1.1"
    monkeypatch.setenv("ALFWORLD_DATA", str(tree))
    assert locate() == tree / "json_2.1.1"
    monkeypatch.delenv("ALFWORLD_DATA")
    put(no_home / ".cache" / "alfworld", "train", "pick_and_place_simple-Mug-None-Desk-1")
    assert locate() == no_home / ".cache" / "alfworld" / "json_2.1.1"


def test_missing_folders_are_named_with_the_remedy(tmp_path, no_home, monkeypatch):
    with pytest.raises(EnvironmentDataError, match=r"ALFWORLD_DATA is not set.*alfworld-download"):
        locate()
    with pytest.raises(EnvironmentDataError, match=r"nowhere: no such folder.*alfworld-download"):
        locate(tmp_path / "nowhere")
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(EnvironmentDataError, match=r"neither json_2.1.1 nor a split"):
        locate()


def test_type_is_from_the_trajectory_else_from_the_folder(tmp_path):
    put(tmp_path, "train", "some-name", traj={"task_type": "look_at_obj_in_light"})
    put(tmp_path, "train", "pick_two_obj_and_place-Mug-None-Desk-301")
    found = survey(locate(tmp_path), "train")
    assert [game.task_type for game in found.games] == ["pick_two_obj_and_place", "look_at_obj_in_light"]
    assert found.games[0].name == "pick_two_obj_and_place-Mug-None-Desk-301-trial_1"


def test_what_the_official_loader_drops_is_dropped(tree):
    put(
        tree,
        "train",
        "pick_and_place_with_movable_recep-Egg-Bowl-Desk-1",
        traj={"task_type": "pick_and_place_with_movable_recep"},
    )
    put(tree, "train", "pick_and_place_simple-AppleSliced-None-Desk-1")
    put(tree, "train", "stack_all-Egg-None-Desk-1", traj={"task_type": "stack_all"})
    put(tree, "train", "pick_and_place_simple-Egg-None-Desk-1", solvable=False)
    unknown = put(tree, "train", "pick_and_place_simple-Egg-None-Desk-2")
    unknown.write_text(json.dumps({key: CONTENT[key] for key in CONTENT if key != "solvable"}))
    put(tree, "train", "pick_and_place_simple-Egg-None-Desk-3", traj={"task_type": "pick_and_place_simple"}, game=None)
    found = survey(locate(tree), "train")
    assert len(found.games) == 24
    assert found.skipped == {
        "movable or sliced": 2,
        "another task type": 1,
        "not known to be solvable": 2,
        "no game file": 1,
    }
    assert "1 folders without game.tw-pddl" in "\n".join(preflight(tree).problems)
    assert re.search(r"left out: movable or sliced +2 +0 +0", preflight(tree).render())


def test_a_choice_is_even_seeded_and_grows(tree):
    folder = locate(tree)
    few, more = (choose(folder, "train", count, TASK_TYPES, seed=1) for count in (12, 18))
    assert Counter(game.task_type for game in few) == dict.fromkeys(TASK_TYPES, 2)
    assert more[:12] == few
    assert choose(folder, "train", 12, TASK_TYPES, seed=2) != few
    assert len({game.name for game in choose(folder, "train", None, TASK_TYPES, seed=1)}) == 24


def test_games_set_aside_are_no_train_games(tree):
    folder = locate(tree)
    aside = choose(folder, "validation", 8, TASK_TYPES, seed=1)
    assert {game.split for game in aside} == {"validation"}
    assert set(Counter(game.task_type for game in aside).values()) == {1, 2}
    names = {game.name for game in aside}
    rest = {game.name for game in choose(folder, "train", None, TASK_TYPES, seed=1, aside=8)}
    every = {game.name for game in choose(folder, "train", None, TASK_TYPES, seed=1)}
    assert (len(names), len(rest)) == (8, 16)
    assert names | rest == every
    some = choose(folder, "train", 16, TASK_TYPES, seed=1, aside=8)
    assert {game.name for game in some} == rest
    with pytest.raises(EnvironmentDataError, match=r"17 games asked for, 16 are there beside 8 set aside"):
        choose(folder, "train", 17, TASK_TYPES, 1, aside=8)
    with pytest.raises(EnvironmentDataError, match=r"train: 25 games asked for.*lower `tasks.splits.validation`$"):
        choose(folder, "validation", 25, TASK_TYPES, 1)
    with pytest.raises(EnvironmentDataError, match=r"no game of .*24 set aside for validation"):
        choose(folder, "train", None, TASK_TYPES, 1, aside=24)


def test_a_scarce_type_leaves_its_share_to_the_others(tree):
    for place in sorted((tree / "json_2.1.1" / "train").glob("look_at*"))[1:]:
        shutil.rmtree(place)
    chosen = Counter(game.task_type for game in choose(locate(tree), "train", 16, TASK_TYPES, seed=0))
    assert chosen.pop("look_at_obj_in_light") == 1
    assert set(chosen.values()) == {3}


def test_too_few_or_no_games_are_refused(tree):
    folder = locate(tree)
    with pytest.raises(EnvironmentDataError, match=r"25 games asked for, 24 are there; lower `tasks.splits.train`"):
        choose(folder, "train", 25, TASK_TYPES, 0)
    with pytest.raises(EnvironmentDataError, match=r"valid_seen: no game of .*alfworld-download"):
        choose(folder, "valid_seen", None, TASK_TYPES, 0)
    with pytest.raises(EnvironmentDataError, match=r"valid_unseen: no game of look_at_obj_in_light"):
        choose(folder, "valid_unseen", 1, ("look_at_obj_in_light",), 0)


@pytest.mark.parametrize("text", ["", '{"pddl_domain": "(define', "[1, 2]", '{"pddl_domain": "", "grammar": ""}'])
def test_a_broken_game_is_named(tree, text):
    path = tree / "json_2.1.1" / "train" / "pick_and_place_simple-Mug-None-Desk-300" / "trial_1" / "game.tw-pddl"
    path.write_text(text)
    with pytest.raises(EnvironmentDataError, match=rf"{re.escape(str(path))}.*alfworld-download"):
        choose(locate(tree), "train", 6, TASK_TYPES, 0)
    assert any(str(path) in problem for problem in preflight(tree).problems)
