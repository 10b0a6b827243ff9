from collections import Counter, defaultdict

import pytest
from pydantic import ValidationError

from envs.alfworld.horizon import expert_steps
from envs.alfworld.settings import Horizon, TaskSettings
from envs.alfworld.tasks import prepare

SPLITS = {"train": 48, "validation": 7, "valid_seen": 3}


def test_short_games_are_shown_and_long_ones_trained_on(tmp_path):
    settings = TaskSettings(splits=SPLITS, horizon=Horizon(demonstration=0.5, train=0.375))
    made = prepare(settings, tmp_path)
    assert len({task.id for task in made}) == len(made)
    # 8 games a family: 4 are shown, 3 are long.
    assert Counter(task.split for task in made) == {"demonstration": 24, "train": 11, "validation": 7, "valid_seen": 3}
    steps = expert_steps(made, tmp_path)
    by: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for task in made:
        if task.split != "valid_seen":
            by[task.task_type]["shown" if task.split == "demonstration" else "long"].append(steps[task.id])
    for of_family in by.values():
        assert max(of_family["shown"]) <= min(of_family["long"])
    assert sum(max(of_family["shown"]) < max(of_family["long"]) for of_family in by.values()) >= 4


def test_every_family_keeps_a_game_to_train_on(tmp_path):
    splits = {"train": 12, "validation": 12}
    made = prepare(TaskSettings(splits=splits, horizon=Horizon(demonstration=0.1, train=0.9)), tmp_path)
    assert Counter(task.split for task in made) == {"demonstration": 6, "train": 6}
    assert len({task.task_type for task in made if task.split == "train"}) == 6


def test_the_division_is_the_same_each_time(tmp_path):
    settings = TaskSettings(splits=SPLITS, seed=3, horizon=Horizon())
    assert prepare(settings, tmp_path / "a") == prepare(settings, tmp_path / "b")


def test_shares_that_overlap_are_refused():
    with pytest.raises(ValidationError, match="more than 1 together"):
        Horizon(demonstration=0.7, train=0.5)
