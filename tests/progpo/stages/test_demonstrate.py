"""The demonstrations: which episodes, with what noise, kept how, whoever does the work."""

import json
from pathlib import Path

import corridor
import numpy as np
import pyarrow.parquet as pq
import pytest

from envs import EnvironmentDataError, Task
from progpo.artifacts import damage, read_manifest
from progpo.errors import ProgpoError
from progpo.seeds import stream
from progpo.settings.base import validate
from progpo.settings.experiment import DemonstrateStage
from progpo.settings.stages import DemonstrationSettings
from progpo.stages.demonstrate import Shown, demonstrate, describe, run
from progpo.tasks import save_tasks
from progpo.trajectories.read import read_shards, to_trajectories


def settings(max_steps: int = 12, **demonstrations) -> DemonstrateStage:
    data = {"environment": {"name": "corridor", "max_steps": max_steps}, "demonstrations": demonstrations}
    return validate(DemonstrateStage, data, "settings")


@pytest.fixture
def folder(tmp_path: Path, tasks: list[Task]) -> Path:
    """A folder with the corridor's task list."""
    save_tasks(tmp_path / "tasks", tasks)
    return tmp_path / "tasks"


def shown(folder: Path, name: str, stage: DemonstrateStage, workers: int = 1) -> tuple[Path, dict]:
    """Run the stage; return the demonstrations' path and the metrics."""
    output, metrics = folder.parent / name / "d.parquet", folder.parent / name / "metrics.json"
    run(stage, folder, output, metrics, workers=workers)
    return output, json.loads(metrics.read_text())


def test_keeps_what_was_won(folder: Path, tasks: list[Task]) -> None:
    output, metrics = shown(folder, "one", settings(max_steps=7, variants=3, noise=0.5))
    table, [metadata] = read_shards([output])
    episodes = to_trajectories(table)
    train = [task for task in tasks if task.split == "train"]
    assert metadata.kind == "demonstration"
    assert metadata.policy is None
    assert metrics["played"] == 3 * len(train)
    assert 0 < len(episodes) == metrics["kept"] < metrics["played"]
    for episode in episodes:
        task = train[episode.group]
        assert (episode.task, episode.task_type) == (task.id, task.task_type)
        assert 0 <= episode.trajectory < 3
        assert episode.outcome == episode.score == 1
        assert [step.terminated for step in episode.steps] == [False] * (len(episode.steps) - 1) + [True]
        for before, after in zip(episode.steps, episode.steps[1:], strict=False):
            assert (before.next_observation, before.next_state_key) == (after.observation, after.state_key)
        for step in episode.steps:
            assert step.valid == (step.action in step.admissible)
            assert step.state_key


def test_first_variant_is_clean(folder: Path) -> None:
    output, _ = shown(folder, "one", settings(variants=2, noise=0.5))
    episodes = to_trajectories(read_shards([output])[0])
    clean = [step for episode in episodes if episode.trajectory == 0 for step in episode.steps]
    noisy = [step for episode in episodes if episode.trajectory == 1 for step in episode.steps]
    assert all(step.imitate and step.valid for step in clean)
    assert 0 < sum(not step.imitate for step in noisy) < len(noisy)


def test_metrics(folder: Path) -> None:
    output, metrics = shown(folder, "one", settings(max_steps=7, variants=3, noise=0.5))
    episodes = to_trajectories(read_shards([output])[0])
    for variant, numbers in (("clean", [0]), ("noisy", [1, 2])):
        figures = metrics["variants"][variant]
        assert set(figures) == {"all", *corridor.TASK_TYPES}
        for name, figure in figures.items():
            its = [
                len(episode.steps)
                for episode in episodes
                if episode.trajectory in numbers and name in ("all", episode.task_type)
            ]
            assert figure["won"] == len(its)
            assert figure["success"] == len(its) / figure["played"]
            assert figure["mean_steps"] == pytest.approx(np.mean(its))
            assert figure["max_steps"] == max(its)
    assert set(shown(folder, "clean", settings(variants=1))[1]["variants"]) == {"clean"}


def test_share_and_kind_of_noise(tasks: list[Task]) -> None:
    def steps_with(invalid: float) -> list:
        its = DemonstrationSettings(noise=0.3, invalid=invalid)
        found = []
        for seed in range(150):
            rng = np.random.default_rng(seed)
            expert = corridor.CorridorExpert(rng)
            task = tasks[seed % len(tasks)]
            found += demonstrate(corridor.make(max_steps=30), expert, task, 0, 1, its, stream("noise", seed)).steps
        return found

    steps = steps_with(0.0)
    assert all(step.valid for step in steps)
    assert np.mean([not step.imitate for step in steps]) == pytest.approx(0.3, abs=0.05)
    noise = [step for step in steps_with(1.0) if not step.imitate]
    assert np.mean([not step.valid for step in noise]) > 0.5
    assert all(step.valid for step in steps_with(1.0) if step.imitate)


def test_time_is_lost_in_every_variant_and_imitated(tasks: list[Task]) -> None:
    def steps_with(*actions: str) -> list:
        its = DemonstrationSettings(noise=0, dither={"share": 0.6, "actions": actions})
        found = []
        for seed in range(100):
            expert = corridor.CorridorExpert(np.random.default_rng(seed))
            environment = corridor.make(max_steps=30)
            task = tasks[seed % len(tasks)]
            found += demonstrate(environment, expert, task, 0, 0, its, stream("noise", seed)).steps
        return found

    steps = steps_with("look", "no such action")
    assert all(step.imitate and step.valid for step in steps)
    assert np.mean([step.action == "look" for step in steps]) == pytest.approx(0.6, abs=0.05)
    assert not [step for step in steps_with("no such action") if step.action == "no such action"]


def test_an_action_that_is_never_admissible_loses_no_time(folder: Path) -> None:
    stage = settings(dither={"share": 0.5, "actions": ["look", "Look"]})
    with pytest.raises(ProgpoError, match=r"dither\.actions: 'Look' was admissible at no step of \d+ episodes"):
        shown(folder, "misspelt", stage)
    assert not (folder / "misspelt").exists()


def test_demonstrations_may_be_longer_than_episodes(folder: Path) -> None:
    def longest(name: str, max_steps: int | None) -> int:
        stage = settings(max_steps=7, variants=3, noise=0, dither={"share": 0.8, "actions": ["look"]})
        demonstrations = stage.demonstrations.model_copy(update={"max_steps": max_steps})
        metrics = shown(folder, name, stage.model_copy(update={"demonstrations": demonstrations}))[1]
        return metrics["variants"]["noisy"]["all"]["max_steps"]

    assert longest("as-episodes", None) <= 7 < longest("longer", 60)


@pytest.mark.parametrize(
    ("search", "told"), [("varied", ["best", "varied", "varied"]), ("plain", ["plain", "plain", "plain"])]
)
def test_the_expert_searches_as_it_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, search: str, told: list[str]
) -> None:
    seen = []

    class Noted(corridor.CorridorExpert):
        def __init__(self, rng: np.random.Generator, search: str) -> None:
            super().__init__(rng, search)
            seen.append(search)

    monkeypatch.setattr(corridor, "CorridorExpert", Noted)
    shown(folder, "noted", settings(variants=3, search=search))
    assert seen[:3] == told
    assert len(seen) % 3 == 0


def test_tells_the_expert_what_was_executed(tasks: list[Task]) -> None:
    told = []

    class Listening(corridor.CorridorExpert):
        def act(self, observation, info):
            told.append(info.get("last_action"))
            return super().act(observation, info)

    expert = Listening(np.random.default_rng(0))
    its = DemonstrationSettings(noise=0.9)
    episode = demonstrate(corridor.make(), expert, tasks[0], 0, 1, its, np.random.default_rng(1))
    assert told == [None, *(step.action for step in episode.steps[:-1])]


def test_workers_and_repetition_change_nothing(folder: Path) -> None:
    stage = settings(variants=3, noise=0.3, seed=5)
    outputs = [shown(folder, name, stage, workers)[0] for name, workers in (("a", 1), ("b", 2), ("c", 1))]
    assert len({output.read_bytes() for output in outputs}) == 1
    assert len({(output.parent / "metrics.json").read_bytes() for output in outputs}) == 1
    other = shown(folder, "other", settings(variants=3, noise=0.3, seed=6))[0]
    assert pq.read_table(other) != pq.read_table(outputs[0])


def test_variants_do_not_disturb_one_another(folder: Path) -> None:
    few = to_trajectories(read_shards([shown(folder, "few", settings(variants=2, noise=0.3))[0]])[0])
    many = to_trajectories(read_shards([shown(folder, "many", settings(variants=4, noise=0.3))[0]])[0])
    assert few == [episode for episode in many if episode.trajectory < 2]


def test_manifest(folder: Path) -> None:
    output, metrics = shown(folder, "one", settings())
    manifest = read_manifest(output)
    assert set(manifest.files) == {"d.parquet", "metrics.json"}
    assert set(manifest.inputs) == {"../tasks/tasks.jsonl"}
    assert manifest.facts == {"seed": 0, "played": metrics["played"], "kept": metrics["kept"]}
    assert damage(output) == []


def test_strict_wants_a_manifest(folder: Path) -> None:
    with pytest.raises(ProgpoError, match=r"manifest\.json: missing"):
        run(settings(), folder, folder.parent / "d.parquet", folder.parent / "m.json", strict=True)
    assert {path.name for path in folder.parent.iterdir()} == {"tasks"}


def test_nothing_won_is_an_error_and_leaves_no_file(folder: Path) -> None:
    with pytest.raises(ProgpoError, match="won none of 18 episodes"):
        run(settings(max_steps=1), folder, folder.parent / "d.parquet", folder.parent / "m.json")
    assert {path.name for path in folder.parent.iterdir()} == {"tasks"}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_game_that_cannot_be_played_is_named(tmp_path: Path, workers: int) -> None:
    save_tasks(tmp_path / "tasks", [Task("none", "train", "look_at_obj_in_light", {"game": "games/none/game.tw-pddl"})])
    stage = validate(DemonstrateStage, {}, "settings")
    with pytest.raises(EnvironmentDataError, match=r"none/game\.tw-pddl"):
        run(stage, tmp_path / "tasks", tmp_path / "d.parquet", tmp_path / "m.json", workers=workers)


def test_describe_without_success() -> None:
    figures = describe([Shown("fetch", False, False, 9, None)])["variants"]["clean"]["fetch"]
    assert figures == {"played": 1, "won": 0, "success": 0.0, "mean_steps": None, "max_steps": None}
