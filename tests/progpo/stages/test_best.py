"""The best iteration by validation."""

import json
from pathlib import Path

import pytest

from progpo.artifacts import read_manifest, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.stages.best import run


def validation(root: Path, policy: str, successes: int, episodes: int = 10, split: str = "validation") -> Path:
    path = root / f"seed-3/{policy}/validation/summary.json"
    part = {"episodes": episodes, "successes": successes, "success": successes / episodes, "steps": 5.0}
    write_json(path, {"splits": {split: {**part, "types": {}, "tasks_by_id": {}}}})
    trajectories = path.with_name("trajectories.parquet")
    trajectories.write_text("")
    write_manifest(trajectories, "evaluate", {}, [trajectories, path])
    return path


def test_the_earliest_of_the_highest_is_the_best(tmp_path: Path) -> None:
    given = [validation(tmp_path, f"grpo/iteration-{n:03d}", k) for n, k in [(2, 4), (4, 7), (6, 7), (7, 5)]]
    output = tmp_path / "seed-3/grpo/best.json"
    run(given[::-1], output, strict=True)
    best = json.loads(output.read_text())
    assert (best["arm"], best["seed"], best["iteration"], best["success"]) == ("grpo", 3, 4, 0.7)
    assert best["policy"] == "iteration-004/policy"
    assert [(item["iteration"], item["success"]) for item in best["candidates"]] == [
        (2, 0.4),
        (4, 0.7),
        (6, 0.7),
        (7, 0.5),
    ]
    assert len(read_manifest(output).inputs) == 4
    first = output.read_bytes()
    run(given, output, strict=True)
    assert output.read_bytes() == first


def test_refusals(tmp_path: Path) -> None:
    output = tmp_path / "best.json"
    one = validation(tmp_path, "grpo/iteration-002", 4)
    for other in ("gigpo/iteration-002", "warmup"):
        with pytest.raises(ProgpoError, match="one arm and seed"):
            run([one, validation(tmp_path, other, 4)], output)
    with pytest.raises(ProgpoError, match="one arm and seed"):
        run([validation(tmp_path, "warmup", 4)], output)
    with pytest.raises(ProgpoError, match="iteration 4 of grpo, seed 3, was validated on 12 episodes"):
        run([one, validation(tmp_path, "grpo/iteration-004", 4, episodes=12)], output)
    one.write_text(one.read_text().replace("4", "5"))
    with pytest.raises(ProgpoError, match=r"summary\.json: changed since `progpo evaluate`"):
        run([one], output)
    assert not output.exists()
