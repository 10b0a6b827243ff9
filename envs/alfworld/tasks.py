"""The tasks of an experiment: games made here, or chosen among the released ones."""

from pathlib import Path

from envs.alfworld.generate import generate
from envs.alfworld.official import choose, locate
from envs.alfworld.settings import TaskSettings
from envs.base import Task


def prepare(settings: TaskSettings, folder: Path) -> list[Task]:
    """Return the tasks that the settings ask for, split by split.

    Generated games are written to `<folder>/games/<split>/<id>/game.tw-pddl`, and named in the tasks' options
    relative to `folder`; released ones stay where they are and are named by absolute paths.

    Raises:
        EnvironmentDataError: released games are missing, too few or broken; the rooms allow no game of a type; a
            generated game cannot be won by its walkthrough.
    """
    if settings.source == "official":
        return _official(settings)
    return _generated(settings, folder)


def _official(settings: TaskSettings) -> list[Task]:
    data = locate(settings.data)
    return [
        Task(game.name, split, game.task_type, {"game": str(game.path)})
        for split, count in settings.splits.items()
        for game in choose(data, split, count, settings.types, settings.seed)
    ]


def _generated(settings: TaskSettings, folder: Path) -> list[Task]:
    tasks = []
    for split, count in settings.splits.items():
        for index in range(count):
            game = generate(settings.seed, split, index, settings.types, settings.difficulty)
            path = game.write(folder / "games" / split)
            tasks.append(Task(game.name, split, game.goal.task_type, {"game": path.relative_to(folder).as_posix()}))
    return tasks
