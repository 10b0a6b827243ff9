import json
import re
from collections import Counter

import pytest

from benchmarks.game_facts import GameFacts, kind, read
from envs import EnvironmentDataError
from envs.alfworld.fast import FastEpisode, Game
from envs.alfworld.generate import domain, generate, goals, grammar, rooms, shipped
from envs.alfworld.generate.names import mangle, text_names
from envs.alfworld.generate.problem import goal_text, sentence
from envs.alfworld.settings import SPLITS, TASK_TYPES, Difficulty
from envs.alfworld.textworld_engine import TextWorldEpisode

GAMES = 60  # ten of each type
HARDEST = Difficulty(receptacles=0.01, distractors=(0, 0), closed=1.0, rooms="small")


def facts_of(tmp_path, split="train", count=GAMES, **difficulty) -> list[GameFacts]:
    made = [generate(3, split, index, TASK_TYPES, Difficulty(**difficulty)) for index in range(count)]
    return [read(game.write(tmp_path)) for game in made]


def hidden(game: GameFacts) -> list[bool]:
    """Whether each object of the goal's type that is in a receptacle starts behind a door."""
    doors = game.only("openable")
    return [doors >= set(places) for thing, places in game.places.items() if kind(thing) == game.goal_object]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def play(game) -> FastEpisode:
    content = game.content
    episode = FastEpisode(Game(content["pddl_domain"], content["grammar"], content["pddl_problem"]))
    episode.start()
    for command in content["walkthrough"]:
        assert not episode.won
        assert command in episode.admissible_commands
        episode.step(command)
    return episode


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("difficulty", [Difficulty(), HARDEST, Difficulty(rooms="large", closed=0.0)])
def test_each_walkthrough_wins_with_its_last_command(split, difficulty):
    for index in range(GAMES):
        assert play(generate(1, split, index, TASK_TYPES, difficulty)).won


@pytest.mark.parametrize("index", [0, 1, 3])
def test_official_engine_accepts_the_walkthrough(tmp_path, index):
    game = generate(0, "train", index)
    episode = TextWorldEpisode(game.write(tmp_path))
    episode.start()
    for command in game.content["walkthrough"]:
        assert command in episode.admissible_commands
        episode.step(command)
    assert episode.won
    episode.close()


def test_a_game_depends_on_seed_split_and_index_alone():
    later = generate(5, "train", 7)
    assert [generate(5, "train", index) for index in range(8)][7] == later
    others = [generate(6, "train", 7), generate(5, "valid_seen", 7), generate(5, "train", 8)]
    assert len({later.content["pddl_problem"], *(game.content["pddl_problem"] for game in others)}) == 4


def test_types_targets_and_objects_are_spread():
    made = [generate(0, "train", index).goal for index in range(600)]
    assert Counter(goal.task_type for goal in made) == dict.fromkeys(TASK_TYPES, 100)
    for task_type in TASK_TYPES:
        targets = Counter(goal.target for goal in made if goal.task_type == task_type)
        assert max(targets.values()) - min(targets.values()) <= 1
    assert len(set(made)) > 250


def test_only_the_types_asked_for():
    types = ("look_at_obj_in_light", "pick_two_obj_and_place")
    assert {generate(0, "train", index, types).goal.task_type for index in range(20)} == set(types)


def test_unseen_rooms_are_apart_and_of_each_kind():
    played = {split: {generate(0, split, index).room for index in range(200)} for split in SPLITS}
    assert played["valid_unseen"] == set(rooms.UNSEEN)
    assert not (played["train"] | played["valid_seen"]) & set(rooms.UNSEEN)
    assert Counter(rooms.room(number).kind for number in rooms.UNSEEN) == {
        "kitchen": 3,
        "living room": 3,
        "bedroom": 3,
        "bathroom": 3,
    }


def test_no_released_game_of_the_train_rooms_plays_in_an_unseen_room(real_games):
    numbers = {int(path.parent.parent.name.rpartition("-")[2]) for path in real_games}
    assert len(numbers) > 50
    assert not numbers & set(rooms.UNSEEN)


@pytest.mark.parametrize("size", ["small", "large", "all"])
@pytest.mark.parametrize("split", SPLITS)
def test_every_choice_of_rooms_allows_all_types(split, size):
    made = [generate(0, split, index, TASK_TYPES, Difficulty(rooms=size)) for index in range(12)]
    assert {game.goal.task_type for game in made} == set(TASK_TYPES)


def test_a_type_without_a_room_is_refused(monkeypatch):
    monkeypatch.setattr(goals, "_catalogue", lambda *_: {})
    with pytest.raises(EnvironmentDataError, match=r"no room of train allows \w+ .*choose other rooms"):
        generate(0, "train", 0)


def test_distractors(tmp_path):
    for least, most in ((0, 0), (3, 9)):
        for game in facts_of(tmp_path, distractors=(least, most)):
            needed = 2 if len(re.findall("move", " ".join(game.walkthrough))) == 2 else 1
            assert least <= len(game.only("pickupable")) - needed <= most


def test_receptacles(tmp_path):
    full, half, few = (facts_of(tmp_path, receptacles=share) for share in (1.0, 0.5, 0.01))
    for whole, part in zip(full, half, strict=True):
        assert part.receptacles < whole.receptacles
        assert abs(len(part.receptacles) - len(whole.receptacles) / 2) <= 2
    assert max(len(game.receptacles) for game in few) <= 4


def test_closed(tmp_path):
    nowhere, everywhere, usual = (facts_of(tmp_path, closed=share) for share in (0.0, 1.0, None))
    assert mean(mean(hidden(game)) for game in nowhere) < 0.05  # some objects of some rooms lie behind doors alone
    assert 0.05 < mean(mean(hidden(game)) for game in usual) < 0.25
    assert mean(len(game.walkthrough) for game in everywhere) > mean(len(game.walkthrough) for game in nowhere)


def test_closed_hides_all_objects_of_the_goals_type_where_there_is_a_door_for_them(tmp_path):
    hides = []
    for index in range(GAMES):
        game = generate(3, "train", index, TASK_TYPES, Difficulty(closed=1.0))
        can_hide = any(place.openable and game.goal.may_start_in(place) for place in rooms.room(game.room).receptacles)
        assert set(hidden(read(game.write(tmp_path)))) == {can_hide}
        hides.append(can_hide)
    assert mean(hides) > 0.6


def test_rooms(tmp_path):
    small, large = (facts_of(tmp_path, rooms=size) for size in ("small", "large"))
    assert 1.3 * mean(len(game.receptacles) for game in small) < mean(len(game.receptacles) for game in large)


def test_what_is_behind_a_door_is_not_seen_before_it_is_opened():
    seen = 0
    for index in range(GAMES):
        game = generate(2, "train", index, TASK_TYPES, Difficulty(closed=1.0))
        content = game.content
        episode = FastEpisode(Game(content["pddl_domain"], content["grammar"], content["pddl_problem"]))
        thing = re.compile(rf"\b{game.goal.thing.lower()} \d")
        texts, opened = [episode.start()], False
        for command in content["walkthrough"]:
            if opened := command.startswith("open"):
                break
            if command.startswith("take"):
                break
            texts.append(episode.step(command))
        if opened:
            seen += 1
            assert not thing.search(" ".join(texts))
            assert thing.search(episode.step(command))
    assert seen > GAMES / 2


def test_nothing_but_receptacles_shows_at_the_start():
    for index in range(GAMES):
        content = generate(0, "train", index).content
        episode = FastEpisode(Game(content["pddl_domain"], content["grammar"], content["pddl_problem"]))
        intro = episode.start()
        assert "You are in the middle of a room." in intro
        assert all(
            command.startswith(("go to", "look", "inventory", "help")) for command in episode.admissible_commands
        )


def test_released_games_have_these_texts(real_games):
    for path in real_games[::10]:
        content = json.loads(path.read_text(encoding="utf-8"))
        task = re.search(r"Your task is to: (.*)\.\"", content["grammar"])[1]
        assert content["pddl_domain"] == domain()
        assert content["grammar"] == grammar(task)


def test_goals_read_as_in_released_games(real_games):
    """Same goal and same sentence, whitespace aside, for the same parameters."""
    for path in real_games[::3]:
        task_type, thing, _, target, _ = path.parent.parent.name.split("-")
        goal = goals.Goal(task_type, thing, target)
        content = json.loads(path.read_text(encoding="utf-8"))
        theirs = content["pddl_problem"].partition("(:goal")[2].split()
        assert goal_text(goal).partition("(:goal")[2].split() == theirs
        assert any(f"Your task is to: {sentence(goal, choice)}." in content["grammar"] for choice in (0, 1))


def test_receptacles_are_those_of_released_games(real_games):
    """Ids and doors of the listed receptacles are the released games' own."""
    ours, theirs = set(), set()
    for path in real_games[::5]:
        room = rooms.room(int(path.parent.parent.name.rpartition("-")[2]))
        game = read(path)
        listed = {mangle(name) for name in shipped.floor_plan(room.number)[1]}
        made = {mangle(place.id): place.openable for place in room.receptacles if mangle(place.id) in listed}
        for name in made.keys() & game.receptacles:
            ours.add((room.number, name, made[name]))
            theirs.add((room.number, name, name in game.only("openable")))
    assert len(ours) > 200
    assert ours == theirs


def test_names_count_down_and_basins_have_their_own():
    ids = [
        "Sink|+00.10|+00.00|+00.00",
        "Sink|+00.10|+00.00|+00.00|SinkBasin",
        "Mug|-01.00|+00.00|+00.00",
        "Mug|+01.00|+00.00|+00.00",
    ]
    assert text_names(ids) == dict(zip(ids, ["sink 1", "sinkbasin 1", "mug 2", "mug 1"], strict=True))


def test_files_are_what_the_official_loader_looks_for(tmp_path):
    game = generate(0, "train", 0)
    path = game.write(tmp_path)
    assert set(json.loads(path.read_text(encoding="utf-8"))) == {
        "pddl_domain",
        "grammar",
        "pddl_problem",
        "solvable",
        "walkthrough",
    }
    trajectory = json.loads((path.parent / "traj_data.json").read_text(encoding="utf-8"))
    assert trajectory["task_type"] == game.goal.task_type
    assert trajectory["pddl_params"]["object_target"] == game.goal.thing


def test_another_alfworld_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped, "package", lambda: tmp_path)
    with pytest.raises(EnvironmentDataError, match="reinstall alfworld"):
        shipped._read("data", "alfred.pddl")
