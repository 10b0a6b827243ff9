"""Play: the state of one episode, what each command says and does, and which commands there are."""

from typing import NamedTuple

from envs.alfworld.fast.game import Game
from envs.alfworld.fast.rules import HELP
from envs.alfworld.fast.texts import listing, things
from envs.alfworld.state_key import state_key


class Snapshot(NamedTuple):
    """The state of an episode; immutable, and good for every episode of the same process."""

    game: Game
    place: int
    held: int
    opened: int
    contents: tuple[tuple[int, ...], ...]
    lying: tuple[int, ...]
    taken: tuple[tuple[int, int], ...]
    statuses: tuple[int, int, int, int, int]
    won: bool
    commands: tuple[str, ...]


class FastEpisode:
    """Episodes of one game, one after the other; the game is shared, the state is this object's own.

    Attributes:
        game: the compiled game.
        task_type: as the goal tells it.
        won: whether the goal holds in the current state.
    """

    __slots__ = (
        "_clean", "_commands", "_contents", "_cool", "_held", "_hot", "_key", "_lying", "_opened", "_place",
        "_sliced", "_taken", "_toggled", "game", "task_type", "won",
    )  # fmt: skip

    def __init__(self, game: Game) -> None:
        """Make an episode slot; `start` or `restore` gives it a state."""
        self.game = game
        self.task_type = game.task_type

    def start(self) -> str:
        """Begin an episode; returns the intro."""
        game = self.game
        self._place = game.start
        self._held = -1
        self._opened = game.opened
        self._contents = list(game.contents)
        self._lying = list(game.lying)
        # What was taken out of a receptacle and is not back in it: receptacle -> set of objects.
        self._taken: dict[int, int] = {}
        self._clean, self._hot, self._cool = game.clean, game.hot, game.cool
        self._sliced, self._toggled = game.sliced, game.toggled
        self._changed()
        return game.intro

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
            game = self.game
            names = game.receptacles
            self._key = state_key(
                (game.places[self._place],),
                () if self._held < 0 else (game.objects[self._held],),
                [names[receptacle] for receptacle in game.here[self._place] if self._opened >> receptacle & 1],
                *(_members(status, game.objects) for status in self._statuses()),
            )
        return self._key

    def snapshot(self) -> Snapshot:
        """Return the current state."""
        return Snapshot(
            self.game,
            self._place,
            self._held,
            self._opened,
            tuple(self._contents),
            tuple(self._lying),
            tuple(self._taken.items()),
            self._statuses(),
            self.won,
            tuple(self._commands),
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go to the state of a snapshot, of this object or of another, and to its game."""
        self.game = snapshot.game
        self.task_type = snapshot.game.task_type
        self._place, self._held, self._opened = snapshot.place, snapshot.held, snapshot.opened
        self._contents = list(snapshot.contents)
        self._lying = list(snapshot.lying)
        self._taken = dict(snapshot.taken)
        self._clean, self._hot, self._cool, self._sliced, self._toggled = snapshot.statuses
        self.won = snapshot.won
        self._commands = list(snapshot.commands)
        self._key: str | None = None

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _statuses(self) -> tuple[int, int, int, int, int]:
        return self._clean, self._hot, self._cool, self._sliced, self._toggled

    def _changed(self) -> None:
        """Bring up to date what follows from the state."""
        self._key = None
        self.won = self._goal_holds()
        self._commands = self._list_commands()

    def _goal_holds(self) -> bool:
        game = self.game
        things = game.things
        if game.light:
            lit = game.lamps & self._toggled
            return (
                self._held >= 0
                and things >> self._held & 1 == 1
                and lit != 0
                and any(lit >> thing & 1 for place in game.here[self._place] for thing in self._contents[place])
            )
        if game.changed is not None:
            things &= {"clean": self._clean, "hot": self._hot, "cool": self._cool}[game.changed]
        least = 2 if game.two else 1
        contents = self._contents
        return any(
            len(contents[target]) >= least and sum(things >> thing & 1 for thing in contents[target]) >= least
            for target in game.targets
        )

    def _list_commands(self) -> list[str]:
        """Return what can be done here and now, sorted as plain strings.

        The verbs come in their order, so that only what one verb applies to is left to sort.
        """
        game = self.game
        objects, names = game.objects, game.receptacles
        here = game.here[self._place]
        held = self._held
        shut = game.openable & ~self._opened
        within_reach = [receptacle for receptacle in here if not shut >> receptacle & 1]

        close = [f"close {names[receptacle]}" for receptacle in within_reach if game.openable >> receptacle & 1]
        examine = [f"examine {names[receptacle]}" for receptacle in here]
        use: list[str] = []
        if game.toggleable:
            lamps = {
                thing for receptacle in here for thing in self._contents[receptacle] if game.toggleable >> thing & 1
            }
            use = [f"use {objects[lamp]}" for lamp in lamps]
        open_ = [f"open {names[receptacle]}" for receptacle in here if shut >> receptacle & 1]
        if held < 0:
            take = [
                f"take {objects[thing]} from {names[receptacle]}"
                for receptacle in within_reach
                for thing in self._contents[receptacle]
                if game.pickupable >> thing & 1
            ]
            return [
                *sorted(close),
                *sorted(examine),
                *self._ways(),
                *_ALWAYS,
                *sorted(open_),
                *sorted(take),
                *sorted(use),
            ]

        name = objects[held]
        examine.append(f"examine {name}")
        move = [
            f"move {name} to {names[receptacle]}" for receptacle in within_reach if game.accepts[receptacle] >> held & 1
        ]
        slice_ = []
        if game.knives >> held & 1:
            slice_ = [
                f"slice {thing} with {name}" for thing in _members(game.sliceable & self._lying[self._place], objects)
            ]
        return [
            *(self._treat("clean", game.sinks) if game.cleanable >> held & 1 else ()),
            *sorted(close),
            *(self._treat("cool", game.fridges) if game.coolable >> held & 1 else ()),
            *sorted(examine),
            *self._ways(),
            *(self._treat("heat", game.microwaves) if game.heatable >> held & 1 else ()),
            *_ALWAYS,
            *sorted(move),
            *sorted(open_),
            *sorted(slice_),
            *sorted(use),
        ]

    def _treat(self, verb: str, appliances: int) -> list[str]:
        """Return the commands that treat the held thing with one of the appliances here, whether open or not."""
        game = self.game
        held = game.objects[self._held]
        here = game.here[self._place]
        return sorted([f"{verb} {held} with {game.receptacles[place]}" for place in here if appliances >> place & 1])

    def _ways(self) -> list[str]:
        """Return the "go to" commands: to every receptacle that is not at this place."""
        game = self.game
        ways = game.ways[self._place]
        if ways is None:
            ways = game.ways[self._place] = sorted(
                f"go to {name}"
                for name, place in zip(game.receptacles, game.place_of, strict=True)
                if place not in (-1, self._place)
            )
        return ways

    def _go(self, rest: str) -> str:
        name = rest.removeprefix("to ")
        receptacle = self.game.receptacle_number[name]
        self._place = self.game.place_of[receptacle]
        self._changed()
        return f"You arrive at {name}. {self._look_into(receptacle)}"

    def _open(self, name: str) -> str:
        receptacle = self.game.receptacle_number[name]
        self._opened |= 1 << receptacle
        self._changed()
        return f"You open the {name}. {self._look_into(receptacle)}"

    def _close(self, name: str) -> str:
        self._opened &= ~(1 << self.game.receptacle_number[name])
        self._changed()
        return f"You close the {name}."

    def _examine(self, name: str) -> str:
        receptacle = self.game.receptacle_number.get(name)
        return self._inspect(name) if receptacle is None else self._look_into(receptacle)

    def _look_into(self, receptacle: int) -> str:
        game = self.game
        name = game.receptacles[receptacle]
        if game.openable >> receptacle & 1 and not self._opened >> receptacle & 1:
            return f"The {name} is closed."
        objects = game.objects
        seen = things([objects[thing] for thing in self._contents[receptacle]])
        if game.openable >> receptacle & 1:
            return f"The {name} is open. In it, you see {seen}."
        return f"On the {name}, you see {seen}."

    def _inspect(self, name: str) -> str:
        """Return what the held thing looks like."""
        game = self.game
        thing = self._held
        inner = game.inner.get(thing)
        if inner is not None:
            return f"This is a normal {name}. In it, you see {things([game.objects[other] for other in inner])}."
        clean, hot, cool, sliced, toggled = (status >> thing & 1 for status in self._statuses())
        if sliced and (clean or hot or cool):
            heat = "hot" if hot else "cool" if cool else ""
            words = " and ".join(filter(None, (heat, "clean" if clean else "")))
            return f"This is a {words} sliced {name}."
        if clean and (hot or cool):
            return f"This is a {'hot' if hot else 'cool'} and clean {name}."
        if hot or clean or cool:
            return f"This is a {'hot' if hot else 'clean' if clean else 'cold'} {name}."
        if toggled and game.toggleable >> thing & 1:
            return f"This {name} is on."
        if sliced and game.sliceable >> thing & 1:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."

    def _take(self, rest: str) -> str:
        game = self.game
        name, _, source = rest.partition(" from ")
        thing, receptacle = game.object_number[name], game.receptacle_number[source]
        bit = 1 << thing
        self._contents[receptacle] = tuple([other for other in self._contents[receptacle] if other != thing])
        self._taken[receptacle] = self._taken.get(receptacle, 0) | bit
        self._lying[self._place] &= ~bit
        self._held = thing
        self._changed()
        return f"You pick up the {name} from the {source}."

    def _move(self, rest: str) -> str:
        name, _, target = rest.partition(" to ")
        receptacle = self.game.receptacle_number[target]
        thing = self._held
        bit = 1 << thing
        self._contents[receptacle] = tuple(sorted({*self._contents[receptacle], thing}))
        if receptacle in self._taken:
            self._taken[receptacle] &= ~bit
        self._lying[self._place] |= bit
        self._held = -1
        self._changed()
        return f"You move the {name} to the {target}."

    def _clean_with(self, rest: str) -> str:
        name, _, sink = rest.partition(" with ")
        self._clean |= 1 << self._held
        self._changed()
        return f"You clean the {name} using the {sink}."

    def _heat_with(self, rest: str) -> str:
        name, _, microwave = rest.partition(" with ")
        self._hot |= 1 << self._held
        self._cool &= ~(1 << self._held)
        self._changed()
        return f"You heat the {name} using the {microwave}."

    def _cool_with(self, rest: str) -> str:
        name, _, fridge = rest.partition(" with ")
        self._cool |= 1 << self._held
        self._hot &= ~(1 << self._held)
        self._changed()
        return f"You cool the {name} using the {fridge}."

    def _slice_with(self, rest: str) -> str:
        name, _, knife = rest.partition(" with ")
        self._sliced |= 1 << self.game.object_number[name]
        self._changed()
        return f"You sliced the {name} with the {knife}."

    def _use(self, name: str) -> str:
        # Nothing in the rules takes "toggled" back, so the answer never is that it was turned off.
        self._toggled |= 1 << self.game.object_number[name]
        self._changed()
        return f"You turn on the {name}."

    def _look(self, _rest: str) -> str:
        game = self.game
        here = game.here[self._place]
        if not here:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        # Things that lie here, once for each receptacle here that they were taken from and are not back in.
        lying = self._lying[self._place]
        moved = [
            (thing, name)
            for receptacle in here
            for thing, name in enumerate(game.objects)
            if (self._taken.get(receptacle, 0) & lying) >> thing & 1
        ]
        facing = listing([game.receptacles[receptacle] for receptacle in here])
        return f"You are facing the {facing}. Next to it, you see {things([name for _, name in sorted(moved)])}."

    def _inventory(self, _rest: str) -> str:
        if self._held < 0:
            return "You are not carrying anything."
        return f"You are carrying: a {self.game.objects[self._held]}."

    def _help(self, _rest: str) -> str:
        return HELP


def _members(numbers: int, names: tuple[str, ...]) -> list[str]:
    """Return the names of a set's members."""
    members = []
    while numbers:
        lowest = numbers & -numbers
        members.append(names[lowest.bit_length() - 1])
        numbers ^= lowest
    return members


#: Always admissible, and neighbours in the order of strings.
_ALWAYS = ("help", "inventory", "look")

_ACTIONS = {
    "clean": FastEpisode._clean_with,
    "close": FastEpisode._close,
    "cool": FastEpisode._cool_with,
    "examine": FastEpisode._examine,
    "go": FastEpisode._go,
    "heat": FastEpisode._heat_with,
    "help": FastEpisode._help,
    "inventory": FastEpisode._inventory,
    "look": FastEpisode._look,
    "move": FastEpisode._move,
    "open": FastEpisode._open,
    "slice": FastEpisode._slice_with,
    "take": FastEpisode._take,
    "use": FastEpisode._use,
}
