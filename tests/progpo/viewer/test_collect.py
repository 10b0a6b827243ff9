"""What the page is told of trajectories."""

import shutil
from pathlib import Path

import pytest

from progpo.errors import ProgpoError
from progpo.viewer.collect import FIRST_VISIT, VALID, collect, find_shards, name_of


def test_an_arm_s_first_iteration_is_that_of_the_shared_shards(run: Path) -> None:
    shards, advantages = find_shards(run / "progpo" / "iteration-001")
    assert shards == [run / "shared" / "iteration-001" / f"shard-0{number}.parquet" for number in range(2)]
    assert advantages == run / "progpo" / "iteration-001" / "advantages.parquet"
    assert find_shards(run / "shared" / "iteration-001") == (shards, None)


def test_groups_have_outcome_branch_progress_and_steps(run: Path) -> None:
    data = collect([run / "progpo" / "iteration-001"])
    (source,) = data["sources"]
    assert source["label"] == "progpo, seed 0, iteration 1"
    assert source["facts"]["policy"] == "abcd"
    assert source["facts"]["progress weight"] == "0.5"
    assert [group["branch"] for group in source["groups"]] == ["outcome", "progress", "outcome", "none"]
    failed = source["groups"][1]
    assert (failed["task"], failed["type"]) == ("game-1", "seek")
    # Two of three steps led to something new; none of two. In a pair the one is a deviation above, the other below.
    assert [one["progress"] for one in failed["trajectories"]] == [0.6667, 0.0]
    assert [one["advantage"] for one in failed["trajectories"]] == [0.5, -0.5]
    texts = data["texts"]
    steps = failed["trajectories"][0]["steps"]
    assert texts[failed["trajectories"][0]["start"]] == "start"
    assert [texts[step[0]] for step in steps][::2] == ["go to cellar", "go to cellar"]
    assert [step[2] for step in steps] == [VALID | FIRST_VISIT, VALID | FIRST_VISIT, VALID]
    assert [step[3] for step in steps] == [0.5] * 3
    assert [step[2] for step in failed["trajectories"][1]["steps"]] == [0, 0]
    assert [one["end"] for one in source["groups"][0]["trajectories"]] == ["ended", "cut"]
    assert len(texts) == len(set(texts))


def test_without_advantages_first_visits_are_counted_and_nothing_else_is_claimed(run: Path) -> None:
    (source,) = collect([run / "shared" / "iteration-001"])["sources"]
    assert [group["branch"] for group in source["groups"]] == [None] * 4
    assert [one["progress"] for one in source["groups"][1]["trajectories"]] == [0.6667, 0.0]
    assert {step[3] for group in source["groups"] for one in group["trajectories"] for step in one["steps"]} == {None}


def test_an_evaluation_and_a_file_can_be_shown(run: Path) -> None:
    folder = run / "warmup" / "evaluation"
    evaluation, file = collect([folder, folder / "trajectories.parquet"])["sources"]
    assert evaluation["label"] == file["label"] == "warmup, seed 0, evaluation"
    assert evaluation["groups"] == file["groups"]
    assert [one["success"] for group in file["groups"] for one in group["trajectories"]] == [False, True]


def test_what_was_observed_instead_is_told(run: Path, tmp_path: Path) -> None:
    from progpo.trajectories.records import Step, Trajectory
    from progpo.trajectories.schema import Metadata
    from progpo.trajectories.write import write_shard

    steps = [Step(place, "b", "go", True, 0.0, False, False) for place in ("a", "elsewhere")]
    write_shard(tmp_path / "x.parquet", [Trajectory(0, 0, "t", "k", steps=steps)], Metadata("rollout"))
    data = collect([tmp_path / "x.parquet"])
    (one,) = data["sources"][0]["groups"][0]["trajectories"]
    assert [len(step) for step in one["steps"]] == [5, 6]
    assert data["texts"][one["steps"][1][5]] == "elsewhere"
    assert one["end"] == "unfinished"


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("progpo", "holds no trajectories; name the folder of an iteration"),
        ("nowhere", "no such folder or file"),
    ],
)
def test_a_place_without_trajectories_is_refused(run: Path, place: str, reason: str) -> None:
    with pytest.raises(ProgpoError, match=reason):
        collect([run / place])


def test_advantages_of_other_trajectories_are_refused(run: Path) -> None:
    folder = run / "progpo" / "iteration-001"
    shutil.copy(run / "warmup" / "evaluation" / "trajectories.parquet", folder / "shard-00.parquet")
    with pytest.raises(ProgpoError, match="not of the trajectories"):
        collect([folder])
    (folder / "shard-00.parquet").unlink()
    (run / "shared" / "iteration-001" / "shard-01.parquet").unlink()
    with pytest.raises(ProgpoError, match=r"its shards are missing: .*shard-01\.parquet"):
        collect([folder])


def test_places_are_named(tmp_path: Path) -> None:
    names = {
        "seed-1/grpo/iteration-012": "grpo, seed 1, iteration 12",
        "seed-0/x.y/best/evaluation": "x.y, seed 0, best iteration, evaluation",
        "seed-0/warmup/validation": "warmup, seed 0, validation",
    }
    assert {place: name_of(tmp_path / place) for place in names} == names
    assert name_of(Path("elsewhere")) == "elsewhere"
