"""The tasks of an experiment: games made here, or chosen among the released ones."""

from pathlib import Path

from envs.alfworld import official
from envs.alfworld.fast import FastEpisode, Game, UnsupportedGameError, load_game
from envs.alfworld.generate import GeneratedGame, generate
from envs.alfworld.horizon import divide
from envs.alfworld.official import OfficialGame, choose, locate
from envs.alfworld.settings import VALIDATION, TaskSettings
from envs.alfworld.textworld_engine import TextWorldEpisode
from envs.base import EnvironmentDataError, Task


def prepare(settings: TaskSettings, folder: Path) -> list[Task]:
    """Return the tasks that the settings ask for, split by split.

    Generated games are written to `<folder>/games/<split>/<id>/game.tw-pddl`, and named in the tasks' options
    relative to `folder`; released ones stay where they are and are named by absolute paths.

    Raises:
        EnvironmentDataError: released games are missing, too few or broken, or no engine plays one; the rooms allow
            no game of a type; a generated game cannot be won by its walkthrough.
    """
    if settings.horizon is not None:
        return _by_length(settings, folder)
    if settings.source == "official":
        return _official(settings)
    return _generated(settings, folder)


def _by_length(settings: TaskSettings, folder: Path) -> list[Task]:
    """Return the tasks, those of the train games divided by length; validation's are among them."""
    splits = {split: count for split, count in settings.splits.items() if split != VALIDATION}
    made = prepare(settings.model_copy(update={"splits": splits, "horizon": None}), folder)
    train = [task for task in made if task.split == "train"]
    validation = settings.splits.get(VALIDATION) or 0
    divided = divide(train, settings.horizon, validation, settings.seed, folder)
    return [*divided, *(task for task in made if task.split != "train")]


def preflight(settings: TaskSettings) -> str:
    """Say what games there are for the settings, as text, without preparing any.

    Raises:
        EnvironmentDataError: there is no folder of released games, or a split that the settings name lacks games or
            holds a broken one.
    """
    if settings.source == "generated":
        return f"games to generate: {', '.join(f'{split} {count}' for split, count in settings.splits.items())}"
    found = official.preflight(settings.data)
    for split in settings.splits:
        if split in found.counts and not any(found.counts[split].values()):
            raise EnvironmentDataError(f"{found.render()}\n`tasks.splits` names {split}, which has no game")
    for split in settings.splits:
        try:
            _chosen(found.folder, split, settings)
        except EnvironmentDataError as error:
            raise EnvironmentDataError(f"{found.render()}\n{error}") from None
    return found.render()


def _official(settings: TaskSettings) -> list[Task]:
    data = locate(settings.data)
    tasks = []
    tried: set[str] = set()
    for split in settings.splits:
        for game in _chosen(data, split, settings):
            try:
                load_game(game.path)
            except UnsupportedGameError as error:
                # The official engine takes a second to begin a game: one game answers for all refused alike.
                if str(error) not in tried:
                    tried.add(str(error))
                    _begin(game.path)
            tasks.append(Task(game.name, split, game.task_type, {"game": str(game.path)}))
    return tasks


def _chosen(data: Path, split: str, settings: TaskSettings) -> list[OfficialGame]:
    """Return the released games of a split; train's are those that are not set aside for validation."""
    aside = settings.splits.get(VALIDATION, 0) if split == "train" else 0
    return choose(data, split, settings.splits[split], settings.types, settings.seed, aside)


def _begin(path: Path) -> None:
    """Begin a game on the official engine; raises EnvironmentDataError where it can't."""
    play = TextWorldEpisode(path)
    try:
        play.start()
    finally:
        play.close()


def _generated(settings: TaskSettings, folder: Path) -> list[Task]:
    tasks = []
    for split, count in settings.splits.items():
        for index in range(count):
            game = generate(settings.seed, split, index, settings.types, settings.difficulty)
            _prove(game)
            path = game.write(folder / "games" / split)
            tasks.append(Task(game.name, split, game.goal.task_type, {"game": path.relative_to(folder).as_posix()}))
    return tasks


def _prove(game: GeneratedGame) -> None:
    """Play a game's walkthrough; raises EnvironmentDataError unless its last command, and no other, wins."""
    content = game.content
    play = FastEpisode(Game(content["pddl_domain"], content["grammar"], content["pddl_problem"]))
    play.start()
    for command in content["walkthrough"]:
        if play.won or command not in play.admissible_commands:
            raise EnvironmentDataError(
                f"{game.name}: {command!r} of its walkthrough is not to be played; this is a fault of the generator: "
                "report it, and choose another `tasks.seed`"
            )
        play.step(command)
    if not play.won:
        raise EnvironmentDataError(
            f"{game.name}: its walkthrough does not win; this is a fault of the generator: report it, and choose "
            "another `tasks.seed`"
        )
