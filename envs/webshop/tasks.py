"""The tasks of an experiment: goals in a catalogue made here, or in one of WebShop's files."""

import os
from collections.abc import Sequence
from pathlib import Path

from envs.base import EnvironmentDataError, Task
from envs.webshop.catalogue import find_files, load_catalogue
from envs.webshop.generate import generate
from envs.webshop.goals import Goal, Goals, make_goals
from envs.webshop.task_settings import TaskSettings

VARIABLE = "WEBSHOP_DATA"
CATALOGUE = "catalogue"
#: Of the goals, in their shuffled order, the first 500 are for tests and the next 1,000 for validation (WebShop, arXiv
#: 2207.01206); where there are fewer than 3,000 goals, the same shares of them.
TEST, VALIDATION, WHOLE = 500, 1500, 3000


def prepare(settings: TaskSettings, folder: Path) -> list[Task]:
    """Return the tasks that the settings ask for, split by split.

    A generated catalogue is written to `<folder>/catalogue`, and named in the tasks' options relative to `folder`; one
    of WebShop's stays where it is and is named by its absolute path. The options hold the whole goal.

    Raises:
        EnvironmentDataError: files are missing or broken, or a split has too few goals.
    """
    if settings.source == "generated":
        generate(folder / CATALOGUE, settings.seed, settings.difficulty)
        return _tasks(settings, folder / CATALOGUE, CATALOGUE)
    data = locate(settings)
    return _tasks(settings, data, str(data.resolve()))


def preflight(settings: TaskSettings) -> str:
    """Say what goals there are for the settings, as text, without preparing any.

    Raises:
        EnvironmentDataError: files that the settings need are missing or broken, or a split has too few goals.
    """
    if settings.source == "generated":
        asked = ", ".join(f"{split} {'all' if count is None else count}" for split, count in settings.splits.items())
        return f"WebShop goals in a catalogue to generate ({settings.difficulty.products} products): {asked}"
    data = locate(settings)
    goals = _goals(settings, data)
    lines = [f"WebShop goals in {data}: {len(goals)}"]
    for split, count in settings.splits.items():
        lines.append(f"  {split}: {len(_choose(goals, split, count))} of {len(_share(goals, split))}")
    return "\n".join(lines)


def locate(settings: TaskSettings) -> Path:
    """Return the folder of WebShop's files (or the product file, where the settings name it), after a look at it.

    Raises:
        EnvironmentDataError: no folder is named, or there is none, or it lacks files.
    """
    named = settings.data or os.environ.get(VARIABLE)
    if not named:
        raise EnvironmentDataError(
            f"WebShop's data: name its folder in `tasks.data`, or in ${VARIABLE}. `./setup.sh -d small` in WebShop's "
            "repository (github.com/princeton-nlp/WebShop) fetches 1,000 products into its folder `data`, `-d all` "
            "1.18 million; `source: generated` needs none"
        )
    files = find_files(Path(named))
    if settings.human_goals and files.instructions is None:
        raise EnvironmentDataError(
            f"{named}: no items_human_ins*.json, which `tasks.human_goals` needs; WebShop's setup.sh fetches it"
        )
    return Path(named)


def _goals(settings: TaskSettings, folder: Path) -> Goals:
    catalogue = load_catalogue(folder)
    return make_goals(catalogue, settings.compatibility, settings.human_goals, settings.seed, None)


def _tasks(settings: TaskSettings, folder: Path, name: str) -> list[Task]:
    goals = _goals(settings, folder)
    tasks = []
    for split, count in settings.splits.items():
        for place, goal in _choose(goals, split, count):
            options = {"folder": name, "goal": goal.as_mapping(), "price_seed": settings.seed}
            tasks.append(Task(f"{split}-{place:05d}-{goal.asin}", split, goal.category, options))
    return tasks


def _share(goals: Sequence[Goal], split: str) -> range:
    """Return the places of a split's goals."""
    test, validation = (bound * min(len(goals), WHOLE) // WHOLE for bound in (TEST, VALIDATION))
    return {
        "test": range(test),
        "validation": range(test, validation),
        "train": range(validation, len(goals)),
    }[split]


def _choose(goals: Sequence[Goal], split: str, count: int | None) -> list[tuple[int, Goal]]:
    """Return the first goals of a split, with their places; raises EnvironmentDataError where there are too few."""
    places = _share(goals, split)
    wanted = len(places) if count is None else count
    if not 0 < wanted <= len(places):
        raise EnvironmentDataError(
            f"tasks.splits.{split}: {wanted or 'some'} goals are asked for, and there are {len(places)} (of "
            f"{len(goals)} in all); ask for fewer, or use a larger catalogue (`tasks.difficulty.products`)"
        )
    return [(place, goals[place]) for place in places[:wanted]]
