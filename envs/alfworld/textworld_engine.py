"""The official engine: TextWorld's PDDL environment with alfworld's names, unshuffled."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envs.alfworld.game_file import broken, read_game, task_type_of_goal
from envs.alfworld.state_key import state_key

_idle: list[Any] = []
_STATUSES = ("isclean", "ishot", "iscool", "issliced", "istoggled")


class TextWorldEpisode:
    """Episodes of one game, one after the other, on the official engine.

    Loading takes half a second, and so does each start; a step takes 40 ms. Nothing is shared between open objects:
    each has a copy of the planner's library, which holds the state. A closed object's copy serves the next one, for
    the library can't be unloaded safely.

    Attributes:
        admissible_commands: of the current state, sorted.
        won: whether the goal holds in the current state.
    """

    def __init__(self, path: str | Path) -> None:
        """Load a game; raises EnvironmentDataError where it is missing or broken."""
        self.admissible_commands: list[str] = []
        self.won = False
        game = read_game(path)
        self.task_type = task_type_of_goal(game["pddl_problem"])
        self._path = path
        self._state: Any = None
        with _argv_kept():
            self._environment = _idle.pop() if _idle else _environment()
            try:
                self._environment.load(game)
            # What the engine's parsers raise on a bad text is of many kinds, SystemExit among them.
            except (Exception, SystemExit) as error:
                self.close()
                raise broken(path, f"the official engine cannot load it ({_short(error)})") from error

    def start(self) -> str:
        """Begin an episode; returns the intro.

        Raises:
            EnvironmentDataError: the game is none of alfworld's, as one of another PDDL domain.
        """
        with _argv_kept():
            try:
                return self._take(self._environment.reset())
            # As when loading: what the wrappers miss in a foreign game, they raise as it comes.
            except (Exception, SystemExit) as error:
                raise broken(self._path, f"the official engine cannot begin it ({_short(error)})") from error

    def step(self, command: str) -> str:
        """Execute a command; returns the engine's answer."""
        return self._take(self._environment.step(command)[0])

    def _take(self, state: Any) -> str:
        self._state = state
        self.admissible_commands = list(state["admissible_commands"])
        self.won = bool(state["won"])
        return state["feedback"]

    @property
    def state_key(self) -> str:
        """The digest of the current state; see `envs.alfworld.state_key`."""
        named: dict[str, set[str]] = defaultdict(set)
        at = set()
        names = {entity: info.name for entity, info in self._state["_entity_infos"].items()}
        for fact in self._state["_facts"]:
            if fact.name == "receptacleatlocation":
                at.add(tuple(names[argument.name] for argument in fact.arguments))
            elif fact.arguments:
                named[fact.name].add(names[fact.arguments[-1].name])
        place = named["atlocation"]
        open_here = {receptacle for receptacle, location in at if location in place} & named["opened"]
        return state_key(place, named["holds"], open_here, *(named[name] for name in _STATUSES))

    def close(self) -> None:
        """Leave the planner's library to the next object; this one can't be used any more."""
        if self._environment is not None:
            _idle.append(self._environment)
            self._environment = None


def _environment() -> Any:
    """Return alfworld's stack of wrappers around TextWorld's PDDL environment; imports both."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    from textworld.envs.pddl import PddlEnv

    wanted = textworld.EnvInfos(won=True, admissible_commands=True)
    return AlfredInfos(AlfredDemangler(PddlEnv(wanted), shuffle=False))


@contextmanager
def _argv_kept() -> Iterator[None]:
    """Restore `sys.argv`, which the planner's translator overwrites to set its options."""
    kept = sys.argv
    try:
        yield
    finally:
        sys.argv = kept


def _short(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"
