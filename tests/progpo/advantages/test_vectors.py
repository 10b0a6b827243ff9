"""The reference vectors: every case, every arm."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from progpo.advantages import estimate
from progpo.settings.advantages import AdvantageSettings
from progpo.trajectories.read import read_shards

CASES = ("all-failed", "flat-progress", "mixed", "one-success", "scores", "single-trajectory", "three-kinds")


@pytest.mark.filterwarnings("ignore:no metadata")
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_reference(shared: Path, case: str) -> None:
    vectors = shared / "vectors" / "advantages"
    arms = json.loads((vectors / "arms.json").read_text())
    summary = json.loads((vectors / case / "expected" / "summary.json").read_text())
    rollouts, _ = read_shards(sorted((vectors / case).glob("shard_*.parquet")), encoded=True)
    assert len(arms) == 19
    for name, arm in arms.items():
        found = estimate(rollouts, AdvantageSettings.model_validate(arm))
        expected = pq.read_table(vectors / case / "expected" / f"{name}.parquet")
        expected = expected.sort_by([(key, "ascending") for key in ("group", "trajectory", "step")])
        for column in ("group", "trajectory", "step", "first_visit", "branch"):
            assert found.table[column].to_pylist() == expected[column].to_pylist(), (name, column)
        for column in ("progress", "trajectory_advantage", "step_advantage", "advantage"):
            np.testing.assert_allclose(
                found.table[column].to_numpy(),
                expected[column].to_numpy(),
                rtol=0,
                atol=1e-12,
                err_msg=f"{name} {column}",
            )
        assert {key: found.metrics[key] for key in summary[name]} == pytest.approx(summary[name]), name


def test_every_case_is_tested(shared: Path) -> None:
    assert sorted(path.name for path in (shared / "vectors" / "advantages").iterdir() if path.is_dir()) == [*CASES]
