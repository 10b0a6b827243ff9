"""The benchmark for GPUs, at a small size on whatever there is."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import gpu
from progpo.memory import Shape


@pytest.mark.slow
def test_all_cases_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "matrix_rate", lambda device, size: 1e9)
    sizes = ["--prompt", "20", "--response", "4", "--batch-tokens", "60", "--passes", "2", "--rows", "2", "3"]
    monkeypatch.setattr(sys, "argv", ["gpu", "--shape", "tiny", *sizes, "--json", str(tmp_path / "figures.json")])
    gpu.main()
    cases = json.loads((tmp_path / "figures.json").read_text())["cases"]
    names = ["update", "update, checkpointing", "rollout, 2 at once", "rollout, 3 at once"]
    assert [case["case"] for case in cases] == names
    for case in cases:
        assert case["matrix_share"] == pytest.approx(case["operations"] / case["seconds"] / 1e9)
    # Two sequences of 24 tokens a pass, two passes; three episodes.
    assert cases[0]["tokens_a_second"] * cases[0]["seconds"] == pytest.approx(96)
    assert cases[3]["tokens_a_second"] * cases[3]["seconds"] == pytest.approx(72)
    assert "rollout, 3 at once" in capsys.readouterr().out


def test_products_are_those_of_the_layers_and_of_attention() -> None:
    """Two layers: four maps of 4 x 4 and three of 4 x 6 each; 10 positions by 4 numbers, for scores and for values."""
    assert gpu.products_of(Shape(4, 2, 2, 2, 2, 6, 9, True), 10) == 2 * (4 * 16 + 3 * 24 + 10 * 4)


def test_too_little_memory_is_said() -> None:
    import torch

    def measure() -> dict:
        raise torch.OutOfMemoryError

    assert gpu.attempt(measure, torch.device("cpu")) == {"error": "out of memory"}
