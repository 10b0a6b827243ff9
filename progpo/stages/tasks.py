"""Stage `tasks`: the games or goals of an experiment."""

import sys
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

import envs
from progpo.artifacts import atomic_folder, clean_partial, folder_of, write_manifest
from progpo.settings.experiment import TasksStage
from progpo.tasks import foreign_files, save_tasks


def run(settings: TasksStage, output: Path) -> None:
    """Prepare the tasks into a folder: the task list, the files that the tasks need, a manifest.

    Args:
        settings: which tasks.
        output: the folder, or the manifest in it.

    Raises:
        EnvironmentDataError: data missing or broken.
    """
    folder = folder_of(output)
    clean_partial(folder)
    with atomic_folder(folder) as place:
        tasks = envs.entry(settings.environment).load("prepare")(settings.tasks, place)
        save_tasks(place, tasks)
        counts = Counter((task.split, task.task_type) for task in tasks)
        write_manifest(
            place,
            "tasks",
            settings.model_dump(mode="json"),
            files=[file for file in place.rglob("*") if file.is_file()],
            # Games and catalogues that stay where they are.
            inputs=foreign_files(tasks),
            facts={"tasks": {f"{split}/{kind}": count for (split, kind), count in sorted(counts.items())}},
            at=folder,
        )
    for split in dict.fromkeys(task.split for task in tasks):
        total = sum(count for (its, _), count in counts.items() if its == split)
        print(f"tasks: {split}: {total}", file=sys.stderr)


def preflight(environment: str, settings: BaseModel) -> str:
    """Look at the data that a config needs, without preparing anything; return what was found, as text."""
    look = envs.entry(environment).load("preflight")
    return look(settings) if look else f"{environment}: nothing to check"
