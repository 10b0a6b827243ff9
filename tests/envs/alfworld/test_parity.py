"""The fast engine against the official one, side by side."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from envs.alfworld import parity
from envs.alfworld.fast import FastEpisode
from envs.alfworld.generate import generate
from envs.alfworld.generate.shipped import package
from envs.alfworld.parity import Prober, compare, compare_all, hurried
from envs.alfworld.settings import TASK_TYPES
from envs.alfworld.textworld_engine import TextWorldEpisode


def _type_and_split(path: Path) -> tuple[str, str]:
    split, name = path.parts[-4:-2]
    return name.partition("-")[0], split


@pytest.fixture(scope="module")
def sample(real_games: list[Path]) -> list[Path]:
    """Ten released games of each type, half of them or what there is of each split."""
    taken: Counter[tuple[str, str]] = Counter()
    chosen = []
    for path in real_games:
        key = _type_and_split(path)
        if taken[key] < (7 if key[1] == "train" else 3):
            taken[key] += 1
            chosen.append(path)
    return chosen


@pytest.mark.slow
def test_released_games(sample: list[Path]) -> None:
    kinds = Counter(map(_type_and_split, sample))
    assert len(sample) >= 60
    assert set(kinds) == {(task_type, split) for task_type in TASK_TYPES for split in ("train", "valid_seen")}

    differences = [text for text in compare_all(map(str, sample), steps=40, processes=2) if text is not None]

    assert not differences, "\n".join(differences)


@pytest.mark.slow
def test_generated_games(tmp_path: Path) -> None:
    splits = ("train", "valid_seen", "valid_unseen")
    paths = [
        str(generate(11, splits[number % 3], number, (task_type,)).write(tmp_path))
        for number, task_type in enumerate(TASK_TYPES)
    ]

    differences = [text for text in compare_all(paths, steps=40, processes=2) if text is not None]

    assert not differences, "\n".join(differences)


@pytest.fixture
def game(tmp_path: Path) -> Path:
    return generate(5, "train", 0, ("pick_heat_then_place_in_recep",)).write(tmp_path)


def test_game_with_the_texts_that_alfworld_ships(game: Path) -> None:
    """Domain and grammar as the package has them differ from the released games' in the help text's form."""
    content = json.loads(game.read_text())
    content["pddl_domain"] = (package() / "data" / "alfred.pddl").read_text()
    content["grammar"] = (package() / "data" / "alfred.twl2").read_text()
    game.write_text(json.dumps(content))
    with hurried():
        official = TextWorldEpisode(game)
        fast = FastEpisode(parity.load_game(game))

        assert fast.start() == official.start()
        assert "UNKNOWN GOAL" in fast.start()
        for command in ("help", *content["walkthrough"], "help"):
            assert fast.step(command) == official.step(command)
            assert fast.admissible_commands == official.admissible_commands
        assert fast.won
        assert official.won
        official.close()


def test_a_difference_is_found(game: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(FastEpisode):
        def step(self, command: str) -> str:
            return super().step(command).replace("You arrive", "You walk")

    monkeypatch.setattr(parity, "FastEpisode", Wrong)
    with hurried():
        difference = compare(game, steps=40)

    assert difference is not None
    assert difference.field == "observation"
    assert difference.commands[-1].startswith("go to ")
    assert difference.fast == difference.official.replace("You arrive", "You walk")


def test_hurry_changes_nothing(game: Path) -> None:
    def play() -> list[object]:
        episode = TextWorldEpisode(game)
        prober = Prober(json.loads(game.read_text())["walkthrough"], np.random.default_rng(3))
        seen: list[object] = [episode.start(), episode.admissible_commands]
        for _ in range(12):
            seen += [episode.step(prober.choose(episode.admissible_commands)), episode.admissible_commands]
        episode.close()
        return seen

    plain = play()
    with hurried():
        assert play() == plain
        assert play() == plain
