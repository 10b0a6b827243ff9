"""The environments by name. Entries are import paths, so that naming one imports nothing."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from envs.base import EnvironmentDataError


@dataclass(frozen=True)
class Entry:
    """One environment family; every field but the name is "module:attribute".

    Attributes:
        name: the name in `environment.name`.
        make: `make(**options) -> gymnasium.Env`, options as in `settings`.
        settings: pydantic model of how a task is played (the `environment` section of a config, less `name`).
        task_settings: pydantic model of which tasks there are (the `tasks` section).
        prepare: `prepare(task_settings, folder) -> list[Task]`: checks or writes the data that tasks need, below
            `folder` alone; raises EnvironmentDataError.
        expert: `expert(rng: numpy.random.Generator, search: envs.Search) -> Expert`.
        preflight: `preflight(task_settings) -> str`: what data there is, as text, or None where none is needed;
            raises EnvironmentDataError that says what is missing and how to get it.
        augment: `augment(texts: list[str], rng) -> list[str]`: the texts of one trajectory under a random renaming
            that keeps it true to the environment, or None where there is none.
        exercises: `exercises(episodes: Iterable[Sequence[str]]) -> Callable[[rng], Exercise]`: from the observations of
            each demonstration, what draws exercises in recall; raises EnvironmentDataError where they show too little.
            None where there are none.
        free_text: whether there are actions besides the admissible commands, such as what one may search for.
    """

    name: str
    make: str
    settings: str
    task_settings: str
    prepare: str
    expert: str
    preflight: str | None = None
    augment: str | None = None
    exercises: str | None = None
    free_text: bool = False

    def load(self, attribute: str) -> Any:
        """Import and return what the field `attribute` names; None where the field is None."""
        target = getattr(self, attribute)
        if target is None:
            return None
        module, _, name = target.partition(":")
        return getattr(import_module(module), name)


_entries: dict[str, Entry] = {}


def register(entry: Entry) -> None:
    """Add an environment family; a second entry of the same name replaces the first."""
    _entries[entry.name] = entry


def entry(name: str) -> Entry:
    """Return the entry of that name; raises EnvironmentDataError naming those there are."""
    if name not in _entries:
        raise EnvironmentDataError(f"unknown environment {name!r}; there are: {', '.join(sorted(_entries))}")
    return _entries[name]


def make(name: str, **options: Any) -> Any:
    """Make one environment (one object per episode slot), e.g. `make("alfworld", engine="fast", max_steps=50)`."""
    return entry(name).load("make")(**options)


register(
    Entry(
        name="alfworld",
        make="envs.alfworld.environment:make",
        settings="envs.alfworld.settings:EnvironmentSettings",
        task_settings="envs.alfworld.settings:TaskSettings",
        prepare="envs.alfworld.tasks:prepare",
        expert="envs.alfworld.expert:SearchingExpert",
        preflight="envs.alfworld.tasks:preflight",
        augment="envs.alfworld.augment:renumber",
        exercises="envs.alfworld.exercises:Glances",
    )
)

register(
    Entry(
        name="webshop",
        make="envs.webshop.environment:make",
        settings="envs.webshop.settings:EnvironmentSettings",
        task_settings="envs.webshop.task_settings:TaskSettings",
        prepare="envs.webshop.tasks:prepare",
        expert="envs.webshop.expert:ShoppingExpert",
        preflight="envs.webshop.tasks:preflight",
        augment="envs.webshop.augment:rename",
        free_text=True,
    )
)
