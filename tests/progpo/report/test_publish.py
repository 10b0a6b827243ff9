"""What is published: measurements that can be read back, figures that the page refers to, settings that run again."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from progpo.artifacts import damage
from progpo.errors import ProgpoError
from progpo.report import figures
from progpo.report.publish import publish
from progpo.results import WARMUP
from progpo.settings.experiment import load_experiment
from progpo.status import record
from tests.progpo.stages.test_report import evaluation, iteration, update


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "artifacts" / "exp"
    evaluation(root, 0, WARMUP, 1)
    evaluation(root, 0, "progpo/iteration-001", 4)
    iteration(root, 0, "progpo", 1, 0.25)
    update(root, 0, "progpo", 1, 0.5, [])
    evaluation(root, 0, "grpo/iteration-001", 2)
    iteration(root, 0, "grpo", 1, 0.125)
    update(root, 0, "grpo", 1, 0.5, [])
    return root


def test_published(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "CAPTIONS", ("success",))
    experiment = load_experiment(
        {
            "experiment": "exp",
            "iterations": 1,
            "arms": {"progpo": {"base": "gigpo", "progress": {"weight": 0.3}}, "grpo": {"base": "grpo"}},
        }
    )
    record(root, experiment)
    folder = tmp_path / "docs" / "results"
    written = publish(root, folder)
    assert {path.relative_to(folder).as_posix() for path in written} == {
        "README.md",
        "compare.csv",
        "compare.md",
        "compare.parquet",
        "config.yaml",
        "curves.parquet",
        "evaluations.parquet",
        "figures/success.svg",
        "figures/success.png",
    }
    assert not damage(folder)
    assert load_experiment(folder / "config.yaml") == experiment
    curves = pq.read_table(folder / "curves.parquet").to_pylist()
    # The arms in the config's order.
    assert [(row["arm"], row["seed"], row["iteration"], row["success"]) for row in curves] == [
        ("progpo", 0, 1, 0.25),
        ("grpo", 0, 1, 0.125),
    ]
    page = (folder / "README.md").read_text()
    assert "| progpo | 1 | 10 | 40.0 [16.8, 68.7] |" in page
    shown = re.findall(r"!\[[^]]*\]\((.*?)\)", page)
    assert shown[0] == "figures/success.svg"
    assert "figures/time.svg" not in shown  # nothing was measured
    # 4 of 10 tasks and 2 of 10, the one's within the other's.
    assert "| grpo - progpo | 1 | 1 | -20.0 " in (folder / "compare.md").read_text()
    # Again, over its own output.
    publish(root, folder)


def test_without_settings_it_says_what_to_do(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match="--configfile"):
        publish(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()
