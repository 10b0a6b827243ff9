"""What changes in a game: the state of an episode."""

from envs.alfworld.fast.game import Game


class State:
    """The state of an episode; numbers and sets as in `Game`.

    Attributes:
        place: where the player is.
        held: the object in hand, or -1.
        opened: set of open receptacles.
        contents: for each receptacle the objects in it, in order. An object may be in several.
        lying: for each place the set of objects there (`objectAtLocation`), which follows from `contents` neither at
            the start nor later.
        taken: receptacle -> set of the objects that were taken out of it and are not back in it.
        clean, hot, cool, sliced, toggled: sets of objects.
    """

    __slots__ = ("clean", "contents", "cool", "held", "hot", "lying", "opened", "place", "sliced", "taken", "toggled")

    def __init__(self, game: Game) -> None:
        """Make the state in which a game starts."""
        self.place = game.start
        self.held = -1
        self.opened = game.opened
        self.contents = list(game.contents)
        self.lying = list(game.lying)
        self.taken: dict[int, int] = {}
        self.clean, self.hot, self.cool = game.clean, game.hot, game.cool
        self.sliced, self.toggled = game.sliced, game.toggled

    def copy(self) -> "State":
        """Return a state of its own that is the same now."""
        other = State.__new__(State)
        other.place, other.held, other.opened = self.place, self.held, self.opened
        other.contents = self.contents.copy()
        other.lying = self.lying.copy()
        other.taken = self.taken.copy()
        other.clean, other.hot, other.cool = self.clean, self.hot, self.cool
        other.sliced, other.toggled = self.sliced, self.toggled
        return other

    @property
    def statuses(self) -> tuple[int, int, int, int, int]:
        """The sets of what is clean, hot, cool, sliced and toggled, in this order."""
        return self.clean, self.hot, self.cool, self.sliced, self.toggled


def members(numbers: int, names: tuple[str, ...]) -> list[str]:
    """Return the names of a set's members, in order."""
    found = []
    while numbers:
        lowest = numbers & -numbers
        found.append(names[lowest.bit_length() - 1])
        numbers ^= lowest
    return found


def goal_holds(game: Game, state: State) -> bool:
    """Return whether the goal holds."""
    things = game.things
    if game.light:
        lit = game.lamps & state.toggled
        return (
            state.held >= 0
            and things >> state.held & 1 == 1
            and lit != 0
            and any(lit >> thing & 1 for receptacle in game.here[state.place] for thing in state.contents[receptacle])
        )
    if game.changed is not None:
        things &= {"clean": state.clean, "hot": state.hot, "cool": state.cool}[game.changed]
    least = 2 if game.two else 1
    contents = state.contents
    return any(
        len(contents[target]) >= least and sum(things >> thing & 1 for thing in contents[target]) >= least
        for target in game.targets
    )
