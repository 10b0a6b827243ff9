"""The rollout stage: shards, progress, refusals."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from progpo import artifacts
from progpo.curriculum import replacements
from progpo.errors import ProgpoError
from progpo.policy import play as playing
from progpo.settings.base import validate
from progpo.settings.experiment import RolloutStage
from progpo.stages import rollout
from progpo.tasks import load_tasks, tasks_of_iteration
from progpo.trajectories.read import read_shards, to_trajectories

SAMPLING = {"tasks": 4, "group_size": 2, "shards": 2, "batch": 8}


def settings(**sampling) -> RolloutStage:
    data = {"environment": {"name": "corridor", "max_steps": 3}, "rollout": {**SAMPLING, **sampling}}
    return validate(RolloutStage, data, "test")


def run(made: Path, output: Path, shard: int = 0, seed: int = 5, iteration: int = 1, strict=True, **sampling) -> Path:
    rollout.run(settings(**sampling), made / "tasks", made / "policy", seed, iteration, shard, output, strict=strict)
    return output


@pytest.fixture(scope="module")
def shards(made, tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("shards")
    return [run(made, folder / f"shard-{number}.parquet", number) for number in range(2)]


def test_shards_hold_the_iteration_s_groups(made, shards):
    table, metadata = read_shards(shards, strict=True)
    trajectories = to_trajectories(table)
    assert [(item.group, item.trajectory) for item in trajectories] == [(g, t) for g in range(4) for t in range(2)]
    chosen = tasks_of_iteration(load_tasks(made / "tasks", "train"), 5, 1, 4)
    assert [item.task for item in trajectories[::2]] == [task.id for task in chosen]
    assert [item.kind for item in metadata] == ["rollout"] * 2
    assert metadata[0].policy == artifacts.read_manifest(shards[0]).facts["fingerprint"]
    assert metadata[0].temperature == 1.0
    assert all(step.response_logprobs for item in trajectories for step in item.steps)


def test_a_second_run_writes_the_same_bytes(made, shards, tmp_path):
    again = run(made, tmp_path / "shard-0.parquet")
    assert again.read_bytes() == shards[0].read_bytes()
    names = [path.with_name(f"{path.name}.manifest.json") for path in (again, shards[0])]
    contents = [artifacts.read_manifest(name) for name in names]
    assert contents[0].facts == contents[1].facts
    assert contents[0].files == contents[1].files


def test_the_number_of_shards_changes_no_token(made, shards, tmp_path):
    whole = [run(made, tmp_path / "shard-0.parquet", shards=1)]
    tables = [read_shards(paths)[0] for paths in (whole, shards)]
    for name in ("group", "trajectory", "step", "task", "action", "context_tokens", "response_tokens"):
        assert tables[0][name].to_pylist() == tables[1][name].to_pylist()


def test_seed_and_iteration_change_the_draws(made, shards, tmp_path):
    tokens = [pq.read_table(shards[0])["response_tokens"].to_pylist()]
    for number, key in enumerate([{"seed": 6}, {"iteration": 2}]):
        tokens.append(pq.read_table(run(made, tmp_path / f"{number}.parquet", **key))["response_tokens"].to_pylist())
    assert tokens[0] != tokens[1]
    assert tokens[0] != tokens[2]


def test_saved_progress_is_taken_up_to_the_same_bytes(made, tmp_path, monkeypatch):
    options = {"shards": 1, "save_groups": 1}
    whole = run(made, tmp_path / "whole.parquet", **options)
    assert not (tmp_path / "whole.parquet.progress").exists()

    played = []
    usual = playing.play_with

    def dying(backend, episodes, *args, **kwargs):
        if len(played) == 2:
            raise KeyboardInterrupt
        played.append({episode.group for episode in episodes})
        return usual(backend, episodes, *args, **kwargs)

    monkeypatch.setattr(playing, "play_with", dying)
    output = tmp_path / "resumed.parquet"
    with pytest.raises(KeyboardInterrupt):
        run(made, output, **options)
    assert not output.exists()
    (tmp_path / "resumed.parquet.123.partial").write_bytes(b"half")
    monkeypatch.setattr(
        playing, "play_with", lambda backend, episodes, *a, **k: played.append(0) or usual(backend, episodes, *a, **k)
    )
    run(made, output, **options)
    assert len(played) == 4
    assert output.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.glob("resumed*")) == [
        "resumed.parquet",
        "resumed.parquet.manifest.json",
    ]


def test_progress_of_another_making_is_not_taken(made, tmp_path, capsys):
    output = tmp_path / "shard.parquet"
    place = tmp_path / "shard.parquet.progress"
    place.mkdir()
    (place / "made-from.json").write_text("{}")
    (place / "groups-00000-00000.parquet").write_bytes(b"of something else")
    run(made, output, save_groups=1)
    assert "starting anew" in capsys.readouterr().err
    assert output.exists()


def outcomes(monkeypatch, scores: dict[str, tuple[float, float]]) -> list[list]:
    """Let the two trajectories of a group end as their task says, else alike in failure; return what was played."""
    played = []
    usual = playing.play_with

    def judged(backend, episodes, *args, **kwargs):
        played.append(episodes)
        found = usual(backend, episodes, *args, **kwargs)
        for item in found:
            item.outcome = item.score = scores.get(item.task, (0.0, 0.0))[item.trajectory]
        return found

    monkeypatch.setattr(playing, "play_with", judged)
    return played


def test_groups_without_signal_are_replaced(made, tmp_path, monkeypatch):
    every = load_tasks(made / "tasks", "train")
    chosen = tasks_of_iteration(every, 5, 1, 2)
    spare = [task.id for task in replacements(every, chosen, "uniform", [], 5, 1)]
    mixed, solved = (1.0, 0.0), (1.0, 1.0)
    # The first of the chosen failed whole, the second was solved; the first one's first replacement failed whole too.
    scores = {chosen[1].id: solved, spare[1]: mixed, spare[2]: mixed}
    played = outcomes(monkeypatch, scores)
    output = run(made, tmp_path / "flat.parquet", tasks=2, shards=1, dynamic={"drop": "flat"})
    table, (metadata,) = read_shards([output], strict=True)
    trajectories = to_trajectories(table)
    assert [(item.group, item.trajectory) for item in trajectories] == [(g, t) for g in range(2) for t in range(2)]
    assert [item.task for item in trajectories[::2]] == [spare[2], spare[1]]
    assert len(played) == 3
    assert [(name, count, won) for name, _, count, won in metadata.dropped] == [
        (chosen[0].id, 2, 0),
        (chosen[1].id, 2, 2),
        (spare[0], 2, 0),
    ]
    assert artifacts.read_manifest(output).facts["dropped_groups"] == 3
    keys = [(episode.group, episode.trajectory) for episodes in played for episode in episodes]
    assert len(set(keys)) == len(keys), "a replacement draws its own random numbers"

    played.clear()
    output = run(made, tmp_path / "solved.parquet", tasks=2, shards=1, dynamic={"rounds": 1, "drop": "solved"})
    (metadata,) = read_shards([output])[1]
    assert [item[0] for item in metadata.dropped] == [chosen[1].id]
    assert len(played) == 2


def test_where_no_task_is_left_a_group_stays(made, tmp_path, monkeypatch, capsys):
    played = outcomes(monkeypatch, {})
    output = run(made, tmp_path / "shard.parquet", tasks=4, shards=1, dynamic={"drop": "flat"})
    assert (
        "beside the iteration's 4 tasks there are 2; to replace every group 2 times takes 8" in capsys.readouterr().err
    )
    table, (metadata,) = read_shards([output], strict=True)
    tasks = [episode.task.id for episodes in played for episode in episodes[::2]]
    assert len(set(tasks)) == len(tasks) == 6
    assert len(metadata.dropped) == 2
    assert len(set(table["task"].to_pylist())) == 4


def test_dynamic_sampling_is_the_same_over_shards_and_progress(made, tmp_path, monkeypatch):
    scores = {f"train-{number}": (1.0, 0.0) for number in (0, 3)}
    outcomes(monkeypatch, scores)
    options = {"dynamic": {"drop": "flat", "rounds": 2}}
    whole = run(made, tmp_path / "whole.parquet", shards=1, **options)
    parts = [run(made, tmp_path / f"part-{n}.parquet", n, **options, save_groups=1) for n in range(2)]
    (one, (metadata,)), (other, several) = read_shards([whole]), read_shards(parts)
    for name in ("group", "trajectory", "task", "action", "response_tokens"):
        assert one[name].to_pylist() == other[name].to_pylist()
    assert sorted(metadata.dropped) == sorted(item for part in several for item in part.dropped)
    assert metadata.dropped


def metrics(folder: Path, iteration: int, **rates: float) -> Path:
    """An iteration's metrics: success by task, over 100 episodes."""
    path = folder / f"iteration-{iteration}" / "advantages.json"
    tasks = {
        name.replace("_", "-"): {"task_type": "fetch", "episodes": 100, "successes": int(100 * rate)}
        for name, rate in rates.items()
    }
    artifacts.write_json(path, {"iteration": iteration, "tasks_by_id": tasks})
    artifacts.write_manifest(path.with_name("advantages.parquet"), "advantages", {}, [path])
    return path


def test_tasks_are_drawn_by_what_was_seen_of_them(made, tmp_path):
    every = [f"train_{number}" for number in range(6)]
    history = [metrics(tmp_path, 1, **dict.fromkeys(every, 1.0) | {"train_4": 0.0, "train_5": 0.5})]
    drawn = []
    for seed in range(8):
        output = tmp_path / f"{seed}.parquet"
        rollout.run(
            settings(tasks=1, shards=1, sampling="hard"),
            *(made / "tasks", made / "policy", seed, 2, 0, output),
            strict=True,
            history=history,
        )
        drawn.append(read_shards([output])[0]["task"][0].as_py())
    assert drawn.count("train-4") > 3
    assert "iteration-1/advantages.json" in artifacts.read_manifest(output).inputs


def test_the_history_must_be_whole(made, tmp_path):
    history = [metrics(tmp_path, 1, train_0=0.5)]

    def refused(match: str, iteration: int, given: list[Path], sampling: str = "hard") -> None:
        arguments = (made / "tasks", made / "policy", 0, iteration, 0, tmp_path / "shard.parquet")
        with pytest.raises(ProgpoError, match=match):
            rollout.run(settings(sampling=sampling), *arguments, strict=True, history=given)
        assert not (tmp_path / "shard.parquet").exists()

    refused("--history: iteration 3 .* reads 2 files, .*; 1 were given", 3, history)
    refused("--history: iteration 2 .* reads 0 files", 2, history, "uniform")
    refused("iteration 2 for 2", 2, [metrics(tmp_path, 2, train_0=0.5)])
    history[0].write_text("{}")
    refused(r"advantages\.json: changed since", 2, history)


def test_bad_input_is_refused_and_nothing_written(made, tmp_path):
    output = tmp_path / "shard.parquet"
    copy = tmp_path / "made"

    def refused(match: str, **changes) -> None:
        with pytest.raises(ProgpoError, match=match):
            run(copy, output, **changes)
        assert not output.exists()

    shutil.copytree(made, copy)
    refused("--shard 2: there are 2", shard=2)
    refused("--iteration 0", iteration=0)
    (copy / "policy" / "model.safetensors").write_bytes(b"other")
    refused(r"model.safetensors: changed")
    shutil.rmtree(copy / "policy")
    refused("policy: no such policy folder")
    (copy / "tasks" / "tasks.jsonl").unlink()
    refused(r"tasks.jsonl: missing")


def test_without_manifests_only_strict_refuses(made, tmp_path):
    copy = tmp_path / "made"
    shutil.copytree(made, copy)
    for folder in ("tasks", "policy"):
        (copy / folder / "manifest.json").unlink()
    with pytest.raises(ProgpoError, match=r"manifest\.json: missing"):
        run(copy, tmp_path / "shard.parquet")
    run(copy, tmp_path / "shard.parquet", strict=False)
    inputs = artifacts.read_manifest(tmp_path / "shard.parquet").inputs
    assert sorted(inputs) == ["made/policy/progpo.json", "made/tasks/tasks.jsonl"]
