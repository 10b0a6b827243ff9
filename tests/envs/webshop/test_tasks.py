"""The tasks: splits, what an experiment is given, and what it is told where data is missing."""

import shutil
from pathlib import Path

import pytest

import envs
from envs import EnvironmentDataError, Task
from envs.webshop import reward
from envs.webshop.catalogue import load_catalogue
from envs.webshop.goals import Goal, make_goals
from envs.webshop.task_settings import Difficulty, TaskSettings
from envs.webshop.tasks import VARIABLE, preflight, prepare

SMALL = Difficulty(products=80)
SPLITS = {"train": 40, "validation": 12, "test": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="module")
def tasks(folder: Path) -> list[Task]:
    return prepare(TaskSettings(difficulty=SMALL, splits=SPLITS), folder)


def test_tasks_are_named_and_split(tasks: list[Task]) -> None:
    assert [task.split for task in tasks] == ["train"] * 40 + ["validation"] * 12 + ["test"] * 8
    assert len({task.id for task in tasks}) == 60
    assert {task.task_type for task in tasks} == {"beauty", "electronics", "fashion", "garden", "grocery"}
    assert {task.options["folder"] for task in tasks} == {"catalogue"}
    assert all(task.id.startswith(f"{task.split}-") for task in tasks)
    assert len({str(task.options["goal"]) for task in tasks}) == 60


def test_every_generated_goal_is_met_by_its_own_product(folder: Path, tasks: list[Task]) -> None:
    """In either arithmetic; and one attribute, one option or the price off is not enough."""
    catalogue = load_catalogue(folder / "catalogue")
    for human in (False, True):
        goals = make_goals(catalogue, "original", human, seed=5)
        assert len(goals) >= 80
        for goal in goals:
            product = catalogue.by_asin[goal.asin]
            nouns = catalogue.nouns.of(product.asin, product.title)
            wanted = goal.goal_options
            values = wanted if isinstance(wanted, tuple) else wanted.values()
            chosen = {name: value for name, of in product.options.items() for value in of if value in values}
            arguments = product.as_mapping(), goal.as_mapping(), chosen
            own = {"purchased": nouns, "goal": nouns}
            assert reward(*arguments, goals.prices[goal.asin], own)[0] == 1.0
            assert reward(*arguments, 1e5, own)[0] < 1.0
            if chosen:
                assert reward(*arguments[:2], {}, goals.prices[goal.asin], own)[0] < 1.0
    assert make_goals(catalogue, "fixed", False, 5).left_out == 0


def test_goals_do_not_depend_on_how_many_are_asked_for(folder: Path, tasks: list[Task], tmp_path: Path) -> None:
    fewer = prepare(TaskSettings(difficulty=SMALL, splits={"test": 4, "train": 5}), tmp_path)
    assert fewer == [*tasks[52:56], *tasks[:5]]


def test_all_of_a_split(folder: Path, tmp_path: Path) -> None:
    every = {"train": None, "validation": None, "test": None}
    found = prepare(TaskSettings(difficulty=SMALL, splits=every), tmp_path)
    goals = make_goals(load_catalogue(tmp_path / "catalogue"), "fixed", False, 0)
    assert sorted(task.options["goal"]["instruction_text"] for task in found) == sorted(
        goal.instruction_text for goal in goals
    )
    sizes = {split: sum(task.split == split for task in found) for split in every}
    assert sizes["test"] == len(goals) // 6
    assert sizes["test"] + sizes["validation"] == len(goals) // 2


def test_too_few_goals(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentDataError, match=r"tasks\.splits\.test: 9999 goals.*there are"):
        prepare(TaskSettings(difficulty=SMALL, splits={"train": 1, "test": 9999}), tmp_path)


def test_a_generated_catalogue_read_as_official(folder: Path, tasks: list[Task], tmp_path: Path, monkeypatch) -> None:
    data = tmp_path / "data"
    shutil.copytree(folder / "catalogue", data)
    monkeypatch.setenv(VARIABLE, str(data))
    settings = TaskSettings(source="official", splits=SPLITS)
    found = prepare(settings, tmp_path / "out")
    assert [task.options["goal"] for task in found] == [task.options["goal"] for task in tasks]
    assert {task.options["folder"] for task in found} == {str(data)}
    assert not (tmp_path / "out").exists()
    assert "test: 8 of" in preflight(settings)
    human = prepare(TaskSettings(source="official", splits={"train": 5}, human_goals=True), tmp_path)
    assert all(isinstance(Goal.from_mapping(task.options["goal"]).goal_options, tuple) for task in human)


def test_missing_data_is_named_with_the_remedy(folder: Path, tasks: list[Task], tmp_path: Path, monkeypatch) -> None:
    official = TaskSettings(source="official")
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(EnvironmentDataError, match=r"tasks\.data.*WEBSHOP_DATA.*setup\.sh"):
        preflight(official)
    with pytest.raises(EnvironmentDataError, match="nowhere: no such folder"):
        preflight(TaskSettings(source="official", data=tmp_path / "nowhere"))
    data = tmp_path / "data"
    shutil.copytree(folder / "catalogue", data)
    (data / "items_human_ins.json").unlink()
    with pytest.raises(EnvironmentDataError, match=r"items_human_ins.*human_goals"):
        prepare(TaskSettings(source="official", data=data, human_goals=True), tmp_path)
    (data / "items_ins_v2.json").unlink()
    with pytest.raises(EnvironmentDataError, match="items_ins_v2"):
        preflight(TaskSettings(source="official", data=data))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": "somewhere"}, "data: only with `source: official`"),
        ({"source": "official", "difficulty": {"hidden": 0.5}}, "difficulty: only with `source: generated`"),
        ({"splits": {"test": 3}}, "splits: `train` is missing"),
        ({"splits": {"train": 3, "valid_seen": 3}}, "valid_seen"),
    ],
)
def test_bad_settings_are_refused(settings: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TaskSettings.model_validate(settings)


def test_the_public_thousand_products(shared: Path) -> None:
    """All of the original's splits, less the goals that no purchase satisfies: 458 of 6,910."""
    data = shared / "webshop"
    settings = TaskSettings(source="official", data=data, splits={"train": 20, "validation": 1000, "test": 500})
    assert "6452" in preflight(settings)
    original = TaskSettings(source="official", data=data, compatibility="original", splits={"train": None})
    assert "train: 5410 of 5410" in preflight(original)


def test_prices_of_a_task_hold_in_an_environment_of_another_seed(webshop: Path, tmp_path: Path) -> None:
    """The price bound of a goal is above the price that the environment asks, drawn from the same range."""
    settings = TaskSettings(source="official", data=webshop, splits={"train": 40}, seed=11)
    goals = make_goals(load_catalogue(webshop), "fixed", False, seed=11)
    environment = envs.make("webshop", seed=0)
    ranged = 0
    for task in prepare(settings, tmp_path):
        environment.reset(options=task.options)
        goal = Goal.from_mapping(task.options["goal"])
        price = environment.price(goal.asin)
        assert price == goals.prices[goal.asin]
        assert price < goal.price_upper
        ranged += len(load_catalogue(webshop).by_asin[goal.asin].prices) > 1
    assert ranged > 5
