"""Two processes on the processor against one: the same losses, weights and optimiser states."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from ports import free_ports
from two_processes import SCENARIOS, compute

from progpo.policy.sequences import divide, passes

HELPER = Path(__file__).resolve().parents[2] / "two_processes.py"


def start_two(script: Path, *arguments: str) -> list[subprocess.Popen]:
    """Start a script in two processes that find each other as under a launcher."""
    (port,) = free_ports(1)
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    # The script lies beside a folder `progpo`, that of these tests.
    common["PYTHONPATH"] = str(HELPER.parents[1])
    return [
        subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env={**os.environ, **common, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in ("0", "1")
    ]


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what two processes computed."""
    folder = tmp_path_factory.mktemp("two")
    processes = start_two(HELPER, str(folder), *SCENARIOS)
    for process in processes:
        told, _ = process.communicate(timeout=900)
        assert process.returncode == 0, told
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_two_processes_compute_what_one_does(name: str, computed: Path) -> None:
    ours, theirs = compute(name), torch.load(computed / f"{name}.pt")
    assert ours["metrics"].keys() == theirs["metrics"].keys()
    for key, value in ours["metrics"].items():
        expected = None if value is None else pytest.approx(value, rel=2e-4, abs=1e-6)
        assert theirs["metrics"][key] == expected, key
    # Adam divides by the root of the second moment, which magnifies rounding where gradients are next to nothing.
    for kind, tolerance in (("weights", 5e-5), ("moments", 2e-6)):
        assert ours[kind].keys() == theirs[kind].keys()
        for key, tensor in ours[kind].items():
            torch.testing.assert_close(theirs[kind][key], tensor, rtol=1e-3, atol=tolerance, msg=f"{kind} {key}")
    assert ours["metrics"]["gradient_norm"] > 0.01


def test_sequences_are_divided_evenly_and_wholly() -> None:
    lengths = [5, 30, 7, 22, 9, 11]
    homes = divide(lengths, 2)
    assert sorted(set(homes)) == [0, 1]
    loads = [sum(length for length, home in zip(lengths, homes, strict=True) if home == part) for part in (0, 1)]
    assert abs(loads[0] - loads[1]) <= 5
    every = [passes(lengths, homes, here, 20, together=False) for here in (0, 1)]
    assert sorted(number for own in every for part in own for number in part) == list(range(6))
    assert divide([], 3) == []


def test_processes_that_work_together_make_as_many_passes() -> None:
    lengths, homes = [10, 10, 10], [1, 1, 1]
    assert passes(lengths, homes, 0, 10, together=True) == [[], [], []]
    assert passes(lengths, homes, 0, 10, together=False) == []
    assert passes(lengths, homes, 2, 10, together=True) == [[], [], []]
    assert passes(lengths, homes, 1, 10, together=True) == [[0], [1], [2]]
