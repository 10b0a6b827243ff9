from collections import Counter

import numpy as np
import pytest

from benchmarks.game_facts import read
from benchmarks.game_statistics import FLOOR, choice_weights, measure
from benchmarks.games import MEASURES, column
from envs.alfworld.generate import generate
from envs.alfworld.generate.statistics import habits
from envs.alfworld.settings import TASK_TYPES


def test_choice_weights_are_found_again_whatever_the_rooms_offer():
    rng = np.random.default_rng(0)
    weights = {"Shelf": 0.25, "Desk": 1.0, FLOOR: 0.1}
    chosen, offered = [], []
    for _ in range(400):
        there = {"Shelf": int(rng.integers(0, 20)), "Desk": int(rng.integers(0, 3)), FLOOR: 1}
        shares = np.array([weights[name] * there[name] for name in there])
        picks = rng.multinomial(30, shares / shares.sum())
        chosen.append(Counter(dict(zip(there, picks.tolist(), strict=True))))
        offered.append(Counter(there))
    assert choice_weights(chosen, offered) == pytest.approx(weights, rel=0.1)


def test_generated_games_measure_as_what_they_were_made_from(tmp_path):
    made = [read(generate(0, "train", index).write(tmp_path)) for index in range(120)]
    table, source = measure(made), habits()
    for name in ("Apple", "Fork", "Egg"):  # in every kitchen, so there are some hundreds of each
        assert table[name]["portable"]
        assert table[name]["copies"] == pytest.approx(source[name].copies, abs=0.15)
        assert table[name]["weights"].keys() <= source[name].weights.keys()
    assert not table["Window"]["portable"]


def test_a_column_has_a_cell_for_each_measure_and_type(tmp_path):
    cells = column([generate(0, "train", index).write(tmp_path) for index in range(12)], workers=1)
    assert cells[0] == "12"
    assert len(cells) == 1 + len(MEASURES) + len(TASK_TYPES) + 1
    assert cells[-1].startswith("100.0; ")
