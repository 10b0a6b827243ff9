"""The task list, and the choice of an iteration's tasks."""

import json
from collections import Counter
from pathlib import Path

import pytest

from envs import Task
from progpo.errors import ProgpoError
from progpo.tasks import foreign_files, load_shown, load_tasks, save_tasks, tasks_of_iteration

TASKS = [Task(f"task-{index}", "train", "kind", {"game": f"games/{index}.tw-pddl"}) for index in range(10)]


def test_round_trip_resolves_paths(tmp_path: Path) -> None:
    save_tasks(tmp_path, [*TASKS, Task("other", "valid_seen", "kind", {"game": "/official/game"})])
    assert [task.id for task in load_tasks(tmp_path, "train")] == [task.id for task in TASKS]
    assert load_tasks(tmp_path, "train")[3].options["game"] == str(tmp_path / "games/3.tw-pddl")
    assert load_tasks(tmp_path / "manifest.json", "valid_seen")[0].options["game"] == "/official/game"
    assert len(load_tasks(tmp_path)) == 11


def test_the_expert_shows_the_demonstration_split_or_else_train(tmp_path: Path) -> None:
    save_tasks(tmp_path, TASKS)
    assert load_shown(tmp_path) == load_tasks(tmp_path, "train")
    save_tasks(tmp_path, [*TASKS, Task("shown", "demonstration", "kind", {"game": "/game"})])
    assert [task.id for task in load_shown(tmp_path)] == ["shown"]


def test_paths_of_files_and_folders_are_resolved_and_recorded(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "b.json").touch()
    (shop / "a.json").touch()
    (shop / "below").mkdir()
    tasks = [
        Task("near", "train", "kind", {"folder": "catalogue", "goal": {"folder": "as it is"}}),
        Task("far", "train", "kind", {"folder": str(shop), "goal": 3}),
        Task("none", "train", "kind"),
    ]
    save_tasks(tmp_path, tasks)
    near, far, none = load_tasks(tmp_path)
    assert near.options == {"folder": str(tmp_path / "catalogue"), "goal": {"folder": "as it is"}}
    assert far.options == {"folder": str(shop), "goal": 3}
    assert none.options == {}
    assert foreign_files(tasks) == [shop / "a.json", shop / "b.json"]


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match="progpo tasks"):
        load_tasks(tmp_path)
    path = save_tasks(tmp_path, TASKS)
    with pytest.raises(ProgpoError, match="no task of split 'valid_unseen'; its splits: train"):
        load_tasks(tmp_path, "valid_unseen")
    path.write_text(path.read_text()[:-20])
    with pytest.raises(ProgpoError, match="not a readable task list"):
        load_tasks(tmp_path)


def test_the_list_itself_stands_for_its_folder(tmp_path: Path) -> None:
    assert load_tasks(save_tasks(tmp_path, TASKS)) == load_tasks(tmp_path)
    with pytest.raises(ProgpoError, match=r"nowhere/tasks\.jsonl: missing"):
        load_tasks(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"options": None}, "`options` of task-0 is None"),
        ({"options": {"game": 5}}, "`game` of task-0 is 5"),
        ({"options": {"folder": None}}, "`folder` of task-0 is None"),
        ({"id": 7}, "`id` is 7"),
        ({"id": "task-1"}, "'task-1' stands there twice"),
    ],
)
def test_a_line_of_wrong_types_is_refused(tmp_path: Path, change: dict, words: str) -> None:
    path = save_tasks(tmp_path, TASKS)
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | change), *rest]))
    with pytest.raises(ProgpoError, match=words) as refusal:
        load_tasks(tmp_path)
    assert str(path) in str(refusal.value)


def test_each_task_once_before_one_comes_again() -> None:
    chosen = [task.id for iteration in range(1, 6) for task in tasks_of_iteration(TASKS, 0, iteration, 4)]
    assert set(Counter(chosen[:10]).values()) == {1}
    assert set(Counter(chosen[10:]).values()) == {1}
    assert chosen[:10] != chosen[10:]


def test_choice_depends_on_seed_and_iteration_alone() -> None:
    assert tasks_of_iteration(TASKS, 0, 2, 4) == tasks_of_iteration(TASKS, 0, 2, 4)
    assert tasks_of_iteration(TASKS, 0, 1, 10) != tasks_of_iteration(TASKS, 1, 1, 10)


def test_more_groups_than_tasks() -> None:
    assert len(tasks_of_iteration(TASKS[:3], 0, 1, 8)) == 8
