"""Play: what each command does and says."""

from typing import NamedTuple

from envs.alfworld.fast.commands import admissible
from envs.alfworld.fast.game import Game
from envs.alfworld.fast.looks import inspect, look_around, look_into
from envs.alfworld.fast.rules import HELP
from envs.alfworld.fast.state import State, goal_holds, members
from envs.alfworld.state_key import state_key


class Snapshot(NamedTuple):
    """A state to go back to, any number of times, in any episode of the same process."""

    game: Game
    state: State
    won: bool
    commands: list[str]


class FastEpisode:
    """Episodes of one game, one after the other; the game is shared, the state is this object's own.

    Attributes:
        game: the compiled game.
        task_type: as the goal tells it.
        won: whether the goal holds in the current state.
    """

    __slots__ = ("_commands", "_key", "_state", "game", "task_type", "won")

    def __init__(self, game: Game) -> None:
        """Make an episode slot; `start` or `restore` gives it a state."""
        self.game = game
        self.task_type = game.task_type

    def start(self) -> str:
        """Begin an episode; returns the intro."""
        self._state = State(self.game)
        self._changed()
        return self.game.intro

    def step(self, command: str) -> str:
        """Execute a command; returns the engine's answer."""
        command = command.strip()
        if command not in self._commands:
            return "Nothing happens."
        verb, _, rest = command.partition(" ")
        return _ACTIONS[verb](self, rest)

    @property
    def admissible_commands(self) -> list[str]:
        """The commands of the current state, sorted; a new list each time."""
        return self._commands.copy()

    @property
    def state_key(self) -> str:
        """The digest of the current state; see `envs.alfworld.state_key`."""
        if self._key is None:
            game, state = self.game, self._state
            self._key = state_key(
                (game.places[state.place],),
                () if state.held < 0 else (game.objects[state.held],),
                [game.receptacles[number] for number in game.here[state.place] if state.opened >> number & 1],
                *[members(status, game.objects) for status in state.statuses],
            )
        return self._key

    def snapshot(self) -> Snapshot:
        """Return the current state."""
        return Snapshot(self.game, self._state.copy(), self.won, self._commands)

    def restore(self, snapshot: Snapshot) -> None:
        """Go to the state of a snapshot, of this object or of another, and to its game."""
        self.game = snapshot.game
        self.task_type = snapshot.game.task_type
        self._state = snapshot.state.copy()
        self.won = snapshot.won
        self._commands = snapshot.commands
        self._key = None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _changed(self) -> None:
        """Bring up to date what follows from the state."""
        self._key: str | None = None
        self.won = goal_holds(self.game, self._state)
        self._commands = admissible(self.game, self._state)

    def _go(self, rest: str) -> str:
        name = rest.removeprefix("to ")
        receptacle = self.game.receptacle_number[name]
        self._state.place = self.game.place_of[receptacle]
        self._changed()
        return f"You arrive at {name}. {look_into(self.game, self._state, receptacle)}"

    def _open(self, name: str) -> str:
        receptacle = self.game.receptacle_number[name]
        self._state.opened |= 1 << receptacle
        self._changed()
        return f"You open the {name}. {look_into(self.game, self._state, receptacle)}"

    def _close(self, name: str) -> str:
        self._state.opened &= ~(1 << self.game.receptacle_number[name])
        self._changed()
        return f"You close the {name}."

    def _take(self, rest: str) -> str:
        game, state = self.game, self._state
        name, _, source = rest.partition(" from ")
        thing, receptacle = game.object_number[name], game.receptacle_number[source]
        bit = 1 << thing
        state.contents[receptacle] = tuple([other for other in state.contents[receptacle] if other != thing])
        state.taken[receptacle] = state.taken.get(receptacle, 0) | bit
        state.lying[state.place] &= ~bit
        state.held = thing
        self._changed()
        return f"You pick up the {name} from the {source}."

    def _move(self, rest: str) -> str:
        state = self._state
        name, _, target = rest.partition(" to ")
        receptacle = self.game.receptacle_number[target]
        bit = 1 << state.held
        # A set, since it may be there already: some things lie in several receptacles at once.
        state.contents[receptacle] = tuple(sorted({*state.contents[receptacle], state.held}))
        if receptacle in state.taken:
            state.taken[receptacle] &= ~bit
        state.lying[state.place] |= bit
        state.held = -1
        self._changed()
        return f"You move the {name} to the {target}."

    def _clean(self, rest: str) -> str:
        self._state.clean |= 1 << self._state.held
        self._changed()
        return "You clean the {} using the {}.".format(*rest.split(" with "))

    def _heat(self, rest: str) -> str:
        self._state.hot |= 1 << self._state.held
        self._state.cool &= ~(1 << self._state.held)
        self._changed()
        return "You heat the {} using the {}.".format(*rest.split(" with "))

    def _cool(self, rest: str) -> str:
        self._state.cool |= 1 << self._state.held
        self._state.hot &= ~(1 << self._state.held)
        self._changed()
        return "You cool the {} using the {}.".format(*rest.split(" with "))

    def _slice(self, rest: str) -> str:
        name, _, knife = rest.partition(" with ")
        self._state.sliced |= 1 << self.game.object_number[name]
        self._changed()
        return f"You sliced the {name} with the {knife}."

    def _use(self, name: str) -> str:
        # Nothing in the rules takes "toggled" back, so the answer never is that it was turned off.
        self._state.toggled |= 1 << self.game.object_number[name]
        self._changed()
        return f"You turn on the {name}."

    def _examine(self, name: str) -> str:
        receptacle = self.game.receptacle_number.get(name)
        if receptacle is None:
            return inspect(self.game, self._state, name)
        return look_into(self.game, self._state, receptacle)

    def _look(self, _rest: str) -> str:
        return look_around(self.game, self._state)

    def _inventory(self, _rest: str) -> str:
        if self._state.held < 0:
            return "You are not carrying anything."
        return f"You are carrying: a {self.game.objects[self._state.held]}."

    def _help(self, _rest: str) -> str:
        return HELP


_ACTIONS = {
    "clean": FastEpisode._clean,
    "close": FastEpisode._close,
    "cool": FastEpisode._cool,
    "examine": FastEpisode._examine,
    "go": FastEpisode._go,
    "heat": FastEpisode._heat,
    "help": FastEpisode._help,
    "inventory": FastEpisode._inventory,
    "look": FastEpisode._look,
    "move": FastEpisode._move,
    "open": FastEpisode._open,
    "slice": FastEpisode._slice,
    "take": FastEpisode._take,
    "use": FastEpisode._use,
}
