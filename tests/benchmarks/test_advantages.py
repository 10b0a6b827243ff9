"""The benchmark of the advantages stage measures what it says."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.advantages.__main__ import growth
from benchmarks.advantages.data import make_shards
from benchmarks.advantages.peer import per_step_rescan
from progpo.advantages.partition import to_go
from progpo.trajectories.read import read_shards


def test_both_ways_give_the_same_returns() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 30, size=20)
    names = np.repeat(np.array([f"t{number}" for number in range(20)], dtype=object), lengths)
    remaining = np.concatenate([np.arange(length, 0, -1) for length in lengths])
    reward = rng.random(len(names))
    np.testing.assert_allclose(per_step_rescan(names, reward, 0.9), to_go(reward, remaining, 0.9), rtol=1e-12)


def test_the_rollouts_have_the_rows_asked_for(tmp_path: Path) -> None:
    table, _ = read_shards(make_shards(tmp_path, 4000, shards=3))
    assert table.num_rows == 4000
    assert len(set(table["group"].to_pylist())) == 10


def test_growth_is_the_exponent() -> None:
    assert growth({10: 1.0, 100: 7.0, 1000: 100.0}) == pytest.approx(1.0)
    assert growth({10: 1.0, 1000: 10_000.0}) == pytest.approx(2.0)


def test_a_measurement_prints_times_and_memory(tmp_path: Path) -> None:
    make_shards(tmp_path, 2000, shards=2)
    command = [
        sys.executable,
        "-m",
        "benchmarks.advantages.measure",
        str(tmp_path),
        '{"base": "gigpo"}',
        "--repeats",
        "1",
    ]
    root = Path(__file__).parents[2]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout)
    assert set(found) == {"stage", "read", "estimate", "peak_mib"}
    assert 0 < found["stage"][0] < 60
