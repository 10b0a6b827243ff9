"""The evaluate stage: which episodes are played, and how they are summed up."""

import json
from pathlib import Path

import pytest

from progpo import artifacts
from progpo.errors import ProgpoError
from progpo.settings.base import validate
from progpo.settings.experiment import EvaluateStage
from progpo.stages import evaluate
from progpo.statistics import wilson
from progpo.tasks import load_tasks
from progpo.trajectories.read import read_shards, to_trajectories
from progpo.trajectories.records import Step, Trajectory


def settings(**changes) -> EvaluateStage:
    evaluation = {"splits": ["valid", "train"], "seeds": [3, 7], "temperature": 1.0, **changes}
    data = {"environment": {"name": "corridor", "max_steps": 2}, "evaluation": evaluation}
    return validate(EvaluateStage, data, "test")


def run(made: Path, folder: Path, **changes) -> tuple[list[Trajectory], dict]:
    folder.mkdir(exist_ok=True)
    output, summary = folder / "trajectories.parquet", folder / "summary.json"
    evaluate.run(settings(**changes), made / "tasks", made / "policy/manifest.json", output, summary, strict=True)
    table, metadata = read_shards([output], strict=True)
    assert metadata[0].kind == "evaluation"
    return to_trajectories(table), json.loads(summary.read_text())


def test_each_task_is_played_once_a_seed(made, tmp_path):
    trajectories, summary = run(made, tmp_path / "both")
    assert [(item.group, item.trajectory) for item in trajectories] == [(g, s) for g in range(10) for s in range(2)]
    listed = [task.id for split in ("valid", "train") for task in load_tasks(made / "tasks", split)]
    assert [item.task for item in trajectories[::2]] == listed
    assert summary["splits"]["valid"]["episodes"] == 8
    assert summary["splits"]["train"]["seeds"]["7"]["tasks"] == 6
    manifest = artifacts.read_manifest(tmp_path / "both/trajectories.parquet")
    assert sorted(manifest.files) == ["summary.json", "trajectories.parquet"]


def test_fewer_tasks_are_taken_evenly(made, tmp_path):
    trajectories, summary = run(made, tmp_path / "few", tasks=2, seeds=[3])
    listed = [task.id for split in ("valid", "train") for task in load_tasks(made / "tasks", split)]
    assert [item.task for item in trajectories] == [listed[0], listed[2], listed[4], listed[7]]
    assert summary["splits"]["train"]["tasks"] == 2


def test_a_second_run_writes_the_same(made, tmp_path):
    for name in ("one", "two"):
        run(made, tmp_path / name)
    for name in ("trajectories.parquet", "summary.json", "trajectories.parquet.manifest.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_best_policy_is_found_through_its_file(made, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    run(made, one)
    best = made / "best.json"
    artifacts.write_json(best, {"iteration": 3, "policy": "policy"})
    artifacts.write_manifest(best, "best", {}, [best])
    two.mkdir()
    output, summary = two / "trajectories.parquet", two / "summary.json"
    evaluate.run(settings(), made / "tasks", best, output, summary, strict=True)
    assert output.read_bytes() == (one / "trajectories.parquet").read_bytes()
    manifests = [artifacts.read_manifest(folder / "trajectories.parquet") for folder in (one, two)]
    assert manifests[0].inputs == manifests[1].inputs
    best.write_text('{"policy": "tasks"}')
    with pytest.raises(ProgpoError, match=r"best\.json: changed"):
        evaluate.run(settings(), made / "tasks", best, output, summary, strict=True)


def test_a_split_that_is_not_there_is_refused(made, tmp_path):
    with pytest.raises(ProgpoError, match="no task of split 'test'; its splits: train, valid"):
        run(made, tmp_path / "none", splits=["test"])
    assert not (tmp_path / "none/trajectories.parquet").exists()


def episode(group: int, number: int, kind: str, score: float, valid: list[bool]) -> Trajectory:
    steps = [Step("before", "after", "act", ok, 0.0, False, False) for ok in valid]
    return Trajectory(group, number, f"task-{group}", kind, outcome=score, score=score, steps=steps)


def test_figures_are_those_of_the_episodes(made):
    tasks = load_tasks(made / "tasks", "valid")[:2]
    episodes = [
        episode(0, 0, "fetch", 1.0, [True, True]),
        episode(0, 1, "fetch", 0.0, [True, False, False, False]),
        episode(1, 0, "deliver", 1.0, [True]),
        episode(1, 1, "deliver", 0.5, [False]),
    ]
    found = evaluate.summarise(tasks, episodes, seeds=[3, 7], confidence=0.9)["splits"]["valid"]
    assert (found["tasks"], found["episodes"], found["successes"], found["success"]) == (2, 4, 2, 0.5)
    assert (found["low"], found["high"]) == wilson(2, 4, 0.9)
    assert (found["score"], found["steps"], found["valid_rate"]) == (0.625, 2.0, 0.5)
    assert found["types"]["fetch"]["successes"] == 1
    assert found["types"]["deliver"]["score"] == 0.75
    assert found["seeds"]["3"]["success"] == 1.0
    assert found["seeds"]["7"]["success"] == 0.0
    assert found["tasks_by_id"] == {
        "task-0": {"task_type": "fetch", "episodes": 2, "successes": 1},
        "task-1": {"task_type": "deliver", "episodes": 2, "successes": 1},
    }
