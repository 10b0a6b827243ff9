"""The task list: `tasks.jsonl`, one task a line, in the folder that `progpo tasks` makes."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from envs import PATH_OPTIONS, Task
from progpo.artifacts import FOLDER_MANIFEST, write_text
from progpo.errors import ProgpoError
from progpo.seeds import stream

TASK_LIST = "tasks.jsonl"


def save_tasks(folder: Path, tasks: Sequence[Task]) -> Path:
    """Write the task list into a folder and return its path."""
    path = folder / TASK_LIST
    write_text(path, "".join(json.dumps(asdict(task), sort_keys=True) + "\n" for task in tasks))
    return path


def load_tasks(folder: Path, split: str | None = None) -> list[Task]:
    """Read the tasks of a folder (or of its manifest, or of the list itself), of one split or all, in their order.

    Relative paths in a task's options (`envs.base.PATH_OPTIONS`) are resolved against the folder.

    Raises:
        ProgpoError: no or a broken list, an id that stands there twice, or no task of that split.
    """
    folder = folder.parent if folder.name in (FOLDER_MANIFEST, TASK_LIST) else folder
    path = folder / TASK_LIST
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        tasks = [_task(line) for line in lines]
    except FileNotFoundError:
        raise ProgpoError(f"{path}: missing; make it with `progpo tasks`") from None
    except (OSError, ValueError, TypeError) as error:
        raise ProgpoError(f"{path}: not a readable task list ({error}); make it anew with `progpo tasks`") from None
    doubled = [name for name, count in Counter(task.id for task in tasks).items() if count > 1]
    if doubled:
        raise ProgpoError(f"{path}: the id {doubled[0]!r} stands there twice; make it anew with `progpo tasks`")
    resolved = [_resolved(task, folder) for task in tasks if split is None or task.split == split]
    if not resolved:
        there = ", ".join(sorted({task.split for task in tasks})) or "none"
        raise ProgpoError(f"{path}: no task of split {split!r}; its splits: {there}")
    return resolved


def load_shown(folder: Path) -> list[Task]:
    """Read the tasks that the expert shows: the split "demonstration", or where there is none, "train".

    Raises:
        ProgpoError: as `load_tasks`.
    """
    shown = [task for task in load_tasks(folder) if task.split == "demonstration"]
    return shown or load_tasks(folder, "train")


def _task(line: str) -> Task:
    """Return the task of a line; raises ValueError or TypeError where it is none."""
    task = Task(**json.loads(line))
    for name in ("id", "split", "task_type"):
        if not isinstance(getattr(task, name), str):
            raise TypeError(f"`{name}` is {getattr(task, name)!r}, no text")
    if not isinstance(task.options, dict):
        raise TypeError(f"`options` of {task.id} is {task.options!r}, no mapping")
    for name in PATH_OPTIONS:
        if not isinstance(task.options.get(name, ""), str):
            raise TypeError(f"`{name}` of {task.id} is {task.options[name]!r}, no path")
    return task


def _resolved(task: Task, folder: Path) -> Task:
    """Return a task with its relative paths resolved against the folder of its list."""
    paths = {name: str(folder / task.options[name]) for name in PATH_OPTIONS if name in task.options}
    return replace(task, options={**task.options, **paths})


def foreign_files(tasks: Iterable[Task]) -> list[Path]:
    """Return the files that tasks name by absolute paths (those of a folder: what lies in it), sorted."""
    named = {
        path for task in tasks for name in PATH_OPTIONS if (path := Path(task.options.get(name, ""))).is_absolute()
    }
    return sorted(file for path in named for file in (path.iterdir() if path.is_dir() else [path]) if file.is_file())


def tasks_of_iteration(tasks: Sequence[Task], seed: int, iteration: int, count: int) -> list[Task]:
    """Return the tasks whose groups an iteration samples.

    The list is gone through in a fresh random order at each pass, so that every task comes once before one comes
    again. The choice depends on (seed, iteration) alone: all arms of a seed see the same tasks.

    Args:
        tasks: the train tasks, in the list's order.
        iteration: from 1.
        count: groups an iteration.
    """
    first = (iteration - 1) * count
    chosen = []
    order: list[int] = []
    current = -1
    for position in range(first, first + count):
        epoch, place = divmod(position, len(tasks))
        if epoch != current:
            current = epoch
            order = stream("tasks", seed, epoch).permutation(len(tasks)).tolist()
        chosen.append(tasks[order[place]])
    return chosen
