"""The Gymnasium side: what ends an episode, what info holds, snapshots, and games that are not as they should be."""

import json
import shutil
import sys
import warnings
from pathlib import Path

import pytest
from gymnasium.error import ResetNeeded

import envs
from envs.alfworld import environment as module
from envs.alfworld.environment import AlfworldEnvironment
from envs.alfworld.fast import load_game
from envs.alfworld.generate import generate
from envs.base import EnvironmentDataError

CLEAN = "pick_clean_then_place_in_recep"


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(3, "train", 0, (CLEAN,)).write(tmp_path_factory.mktemp("game"))


@pytest.fixture(scope="module")
def walkthrough(game: Path) -> list[str]:
    return json.loads(game.read_text())["walkthrough"]


@pytest.fixture
def environment(game: Path) -> AlfworldEnvironment:
    made = envs.make("alfworld")
    made.reset(options={"game": game})
    return made


def test_reset_returns_the_intro(game: Path) -> None:
    observation, info = envs.make("alfworld", engine="fast", max_steps=50).reset(seed=1, options={"game": str(game)})
    assert observation.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room.")
    assert "\n\nYour task is to: " in observation
    assert set(info) == {"admissible_commands", "won", "score", "task_type", "state_key"}
    assert info["admissible_commands"] == sorted(info["admissible_commands"])
    assert (info["won"], info["score"], info["task_type"]) == (False, 0.0, CLEAN)
    assert len(info["state_key"]) == 16


def test_texts_are_in_the_spaces(environment: AlfworldEnvironment, walkthrough: list[str]) -> None:
    for command in walkthrough:
        assert environment.action_space.contains(command)
        assert environment.observation_space.contains(environment.step(command)[0])


def test_a_win_terminates_and_pays_once(environment: AlfworldEnvironment, walkthrough: list[str]) -> None:
    for command in walkthrough[:-1]:
        assert environment.step(command)[1:4] == (0.0, False, False)
    _, reward, terminated, truncated, info = environment.step(walkthrough[-1])
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert (info["won"], info["score"]) == (True, 1.0)
    with pytest.raises(ResetNeeded):
        environment.step("look")


def test_steps_run_out(game: Path) -> None:
    environment = envs.make("alfworld", max_steps=3)
    for _ in range(2):
        environment.reset(options={"game": game})
        # Commands that do nothing are steps, too.
        assert environment.step("nonsense")[3] is False
        assert environment.step("look")[3] is False
        assert environment.step("look")[1:4] == (0.0, False, True)
        with pytest.raises(ResetNeeded):
            environment.step("look")


def test_a_win_on_the_last_step_is_no_truncation(game: Path, walkthrough: list[str]) -> None:
    environment = envs.make("alfworld", max_steps=len(walkthrough))
    environment.reset(options={"game": game})
    for command in walkthrough:
        ending = environment.step(command)[1:4]
    assert ending == (1.0, True, False)


def test_step_before_reset() -> None:
    with pytest.raises(ResetNeeded):
        envs.make("alfworld").step("look")


def test_commands_are_stripped_and_otherwise_exact(environment: AlfworldEnvironment, walkthrough: list[str]) -> None:
    before = environment.step("help")[4]
    for wrong in (walkthrough[0].upper(), walkthrough[0] + "1", "", "put it down", walkthrough[0].replace(" ", "  ")):
        observation, *_, info = environment.step(wrong)
        assert observation == "Nothing happens."
        assert info == before
    observation, *_, info = environment.step(f" \t{walkthrough[0]}\n")
    assert observation.startswith("You arrive at ")
    assert info["state_key"] != before["state_key"]


def test_info_is_the_callers_own(environment: AlfworldEnvironment) -> None:
    first = environment.step("look")[4]["admissible_commands"]
    kept = list(first)
    first.clear()
    assert environment.step("look")[4]["admissible_commands"] == kept


def test_slots_share_the_game_but_no_state(game: Path, walkthrough: list[str]) -> None:
    one, other = envs.make("alfworld"), envs.make("alfworld")
    start = one.reset(options={"game": game})
    assert other.reset(options={"game": str(game)}) == start
    assert one._play.game is other._play.game
    for command in walkthrough:
        one.step(command)
    assert one.reset() == start
    assert other.step("inventory")[0] == "You are not carrying anything."
    assert other.reset() == start


def test_a_game_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = generate(3, "train", 1, (CLEAN,)).write(tmp_path)
    environment = envs.make("alfworld")
    before, _ = environment.reset(options={"game": path})
    shutil.copy(generate(3, "train", 2, ("look_at_obj_in_light",)).write(tmp_path / "other"), path)
    after, _ = environment.reset(options={"game": path})
    assert after != before


def test_state_key_tells_what_was_done(environment: AlfworldEnvironment, walkthrough: list[str]) -> None:
    keys = [environment.step("look")[4]["state_key"]]
    assert environment.step("examine nothing")[4]["state_key"] == keys[0]
    keys += [environment.step(command)[4]["state_key"] for command in walkthrough]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("done", [0, 1, 4])
def test_snapshot_and_restore(game: Path, walkthrough: list[str], done: int) -> None:
    environment = envs.make("alfworld", max_steps=len(walkthrough) + 1)
    latest = environment.reset(options={"game": game})
    for command in walkthrough[:done]:
        observation, *_, info = environment.step(command)
        latest = observation, info
    snapshot = environment.snapshot()
    rest = [environment.step(command) for command in walkthrough[done:]]
    assert rest[-1][2]

    elsewhere = envs.make("alfworld", max_steps=len(walkthrough) + 1)
    for slot in (environment, elsewhere, environment):
        assert slot.restore(snapshot) == latest
        assert [slot.step(command) for command in walkthrough[done:]] == rest
    # What is played after the restore leaves the snapshot as it was, and steps were counted from it.
    assert elsewhere.restore(snapshot) == latest
    spare = len(walkthrough) + 1 - done
    assert [elsewhere.step("look")[3] for _ in range(spare)] == [False] * (spare - 1) + [True]


def test_snapshot_of_the_end(environment: AlfworldEnvironment, walkthrough: list[str]) -> None:
    for command in walkthrough:
        environment.step(command)
    snapshot = environment.snapshot()
    environment.reset()
    assert environment.restore(snapshot)[1]["won"]
    with pytest.raises(ResetNeeded):
        environment.step("look")


def test_no_snapshot_before_reset() -> None:
    with pytest.raises(ResetNeeded):
        envs.make("alfworld").snapshot()


def test_task_type_comes_from_where_it_is_told(game: Path, tmp_path: Path) -> None:
    def told(path: Path, **options: str) -> str:
        return envs.make("alfworld").reset(options={"game": path, **options})[1]["task_type"]

    assert told(game, task_type="given") == "given"
    (tmp_path / "trial").mkdir()
    bare = Path(shutil.copy(game, tmp_path / "trial" / "game.tw-pddl"))
    assert told(bare) == CLEAN, "the goal tells it where nothing else does"
    named = tmp_path / "pick_two_obj_and_place-Mug-None-Desk-301" / "trial_T2019"
    named.mkdir(parents=True)
    path = Path(shutil.copy(game, named))
    assert told(path) == "pick_two_obj_and_place"
    other = Path(shutil.copytree(named, tmp_path / "pick_two_obj_and_place-Mug-None-Desk-302" / "trial")) / path.name
    (other.parent / "traj_data.json").write_text('{"task_type": "look_at_obj_in_light"}')
    assert told(other) == "look_at_obj_in_light"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"engine": "thor"}, "unknown engine 'thor'; there are: fast, textworld"), ({"max_steps": 0}, "max_steps is 0")],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(EnvironmentDataError, match=message):
        envs.make("alfworld", **options)


def test_no_game_named() -> None:
    with pytest.raises(EnvironmentDataError, match="no game to play"):
        envs.make("alfworld").reset()


def test_closing_forgets_the_game(environment: AlfworldEnvironment) -> None:
    environment.close()
    with pytest.raises(ResetNeeded):
        environment.step("look")
    with pytest.raises(EnvironmentDataError, match="no game to play"):
        environment.reset()


def test_a_failed_reset_leaves_no_episode(environment: AlfworldEnvironment, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentDataError, match="nowhere"):
        environment.reset(options={"game": tmp_path / "nowhere"})
    with pytest.raises(ResetNeeded):
        environment.step("look")


def test_the_official_engine(game: Path, walkthrough: list[str]) -> None:
    arguments = list(sys.argv)
    environment = envs.make("alfworld", engine="textworld", max_steps=len(walkthrough))
    start = environment.reset(options={"game": game})
    assert start == envs.make("alfworld").reset(options={"game": game})
    assert environment.step(walkthrough[0])[1:4] == (0.0, False, False)
    with pytest.raises(TypeError, match="no snapshots"):
        environment.snapshot()
    assert environment.reset() == start
    for command in walkthrough:
        ending = environment.step(command)[1:4]
    assert ending == (1.0, True, False)
    assert sys.argv == arguments
    environment.close()


def test_another_domain_falls_back_with_one_notice(
    game: Path, walkthrough: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_said", set())
    content = json.loads(game.read_text())
    # The cost of an action changes no behaviour, but makes it another domain.
    content["pddl_domain"] = content["pddl_domain"].replace("(total-cost) 5", "(total-cost) 4")
    path = tmp_path / "game.tw-pddl"
    path.write_text(json.dumps(content))
    environment = envs.make("alfworld", engine="fast")
    with pytest.warns(UserWarning, match=r"game\.tw-pddl \(another PDDL domain\).*official engine"):
        start = environment.reset(options={"game": path, "task_type": CLEAN})
    assert start == envs.make("alfworld").reset(options={"game": game})
    assert environment.step(walkthrough[0])[0].startswith("You arrive at ")
    environment.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        environment.reset(options={"game": path})
    environment.close()


def test_games_are_loaded_once(game: Path) -> None:
    assert load_game(game) is load_game(str(game))
