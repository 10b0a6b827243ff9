"""ALFWorld behind the Gymnasium API, on the engine of one's choice."""

import string
import warnings
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import gymnasium
from gymnasium.error import ResetNeeded

from envs.alfworld.fast import FastEpisode, Snapshot, UnsupportedGameError, load_game
from envs.alfworld.game_file import find_task_type
from envs.alfworld.textworld_engine import TextWorldEpisode
from envs.base import EnvironmentDataError

_TEXT = gymnasium.spaces.Text(min_length=0, max_length=8192, charset=string.printable)


#: The reasons for which the official engine was taken, each said once a process.
_said: set[str] = set()


class Engine(Protocol):
    """Episodes of one game, one after the other.

    Attributes:
        task_type: as the goal tells it.
        admissible_commands: of the current state, in the official engine's order.
        won: whether the goal holds in the current state.
        state_key: the digest of the current state; see `envs.alfworld.state_key`.
    """

    task_type: str
    admissible_commands: list[str]
    won: bool
    state_key: str

    def start(self) -> str:
        """Begin an episode; returns the intro."""
        ...

    def step(self, command: str) -> str:
        """Execute a command; returns the engine's answer."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...


class EnvironmentSnapshot(NamedTuple):
    """What `AlfworldEnvironment.restore` goes back to."""

    play: Snapshot
    path: str
    task_type: str
    observation: str
    steps: int
    running: bool


class AlfworldEnvironment(gymnasium.Env[str, str]):
    """One episode slot.

    Observations are the engine's texts; at reset the intro, with what the room holds and the task's sentence. The
    reward is 1 on the step that wins and 0 otherwise. `info` holds `admissible_commands` (list[str], in the official
    engine's order), `won` (bool), `score` (1.0 when won, else 0.0), `task_type` and `state_key`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - as Gymnasium declares it
    observation_space = _TEXT
    action_space = _TEXT

    def __init__(self, engine: Literal["fast", "textworld"] = "fast", max_steps: int = 50) -> None:
        """Make an episode slot; games are named at reset.

        Raises:
            EnvironmentDataError: an engine that there is not, or no step allowed.
        """
        if engine not in ("fast", "textworld"):
            raise EnvironmentDataError(f"unknown engine {engine!r}; there are: fast, textworld")
        if max_steps < 1:
            raise EnvironmentDataError(f"max_steps is {max_steps}; it must be 1 or more")
        self.engine = engine
        self.max_steps = max_steps
        self._path: str | None = None
        self._play: Engine | None = None
        self._task_type = ""
        self._observation = ""
        self._steps = 0
        self._running = False

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: has no effect: a game has no randomness.
            options: `game`, the path of a `game.tw-pddl` file (may be left out to play the last one again), and
                `task_type`, where the caller knows it; else it is taken from `traj_data.json` beside the game, the
                folder's name, or the goal, in this order.

        Raises:
            EnvironmentDataError: no game, a missing one, or a broken one.
        """
        super().reset(seed=seed)
        options = options or {}
        game = options.get("game", self._path)
        if game is None:
            raise EnvironmentDataError("no game to play: reset(options={'game': PATH}) names a game.tw-pddl file")
        path = str(game)
        self._running = False
        play = self._open(path)
        if play is not self._play:
            self._release()
            self._play = play
        self._path = path
        self._observation = self._play.start()
        self._task_type = options.get("task_type") or find_task_type(path) or self._play.task_type
        self._steps = 0
        self._running = True
        return self._observation, self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Execute a command.

        A command that is not admissible gets "Nothing happens.", and counts as a step all the same.

        Returns:
            observation, reward, terminated (the game is won), truncated (`max_steps` are used up, and it is not
            won), info.

        Raises:
            gymnasium.error.ResetNeeded: there is no running episode.
        """
        if not self._running:
            raise ResetNeeded("the episode has ended or never began: call reset(options={'game': PATH}) first")
        self._observation = self._play.step(action)
        self._steps += 1
        won = self._play.won
        truncated = not won and self._steps >= self.max_steps
        self._running = not (won or truncated)
        return self._observation, float(won), won, truncated, self._info()

    def snapshot(self) -> EnvironmentSnapshot:
        """Return the state of the episode, in a few microseconds; the fast engine alone can.

        Raises:
            TypeError: the game is played by the official engine.
            gymnasium.error.ResetNeeded: there is no episode yet.
        """
        if self._play is None:
            raise ResetNeeded("there is no episode to snapshot: call reset(options={'game': PATH}) first")
        if not isinstance(self._play, FastEpisode):
            raise TypeError("the official engine has no snapshots; use engine='fast'")
        return EnvironmentSnapshot(
            self._play.snapshot(), self._path, self._task_type, self._observation, self._steps, self._running
        )

    def restore(self, snapshot: EnvironmentSnapshot) -> tuple[str, dict[str, Any]]:
        """Go to the state of a snapshot, made by this environment or by another of the same process.

        Returns:
            observation, info: as the reset or step before the snapshot returned them.
        """
        if not isinstance(self._play, FastEpisode):
            self._release()
            self._play = FastEpisode(snapshot.play.game)
        self._play.restore(snapshot.play)
        self._path, self._task_type = snapshot.path, snapshot.task_type
        self._observation = snapshot.observation
        self._steps, self._running = snapshot.steps, snapshot.running
        return self._observation, self._info()

    def close(self) -> None:
        """Release the game; a later reset needs `options` again."""
        self._release()
        self._path = None
        self._running = False

    def _open(self, path: str) -> Engine:
        """Return the engine with a game, new or as it is."""
        if self.engine == "fast":
            try:
                return FastEpisode(load_game(path))
            except UnsupportedGameError as error:
                _say_once(str(error), path)
        if isinstance(self._play, TextWorldEpisode) and path == self._path:
            return self._play
        # Before the new one is made, since that can use what the old one leaves.
        self._release()
        return TextWorldEpisode(path)

    def _release(self) -> None:
        if self._play is not None:
            self._play.close()
            self._play = None

    def _info(self) -> dict[str, Any]:
        play = self._play
        return {
            "admissible_commands": play.admissible_commands,
            "won": play.won,
            "score": float(play.won),
            "task_type": self._task_type,
            "state_key": play.state_key,
        }


def _say_once(reason: str, path: str) -> None:
    if reason not in _said:
        _said.add(reason)
        warnings.warn(
            f"the fast engine does not play {path} ({reason}): it and its like run on the official engine, "
            "thousands of times slower",
            stacklevel=4,
        )


def make(engine: Literal["fast", "textworld"] = "fast", max_steps: int = 50) -> AlfworldEnvironment:
    """Make one episode slot; see AlfworldEnvironment."""
    return AlfworldEnvironment(engine=engine, max_steps=max_steps)
