"""Which commands there are in a state."""

from envs.alfworld.fast.game import Game
from envs.alfworld.fast.state import State, members

#: Admissible everywhere, and neighbours in the order of strings.
ALWAYS = ("help", "inventory", "look")


def admissible(game: Game, state: State) -> list[str]:
    """Return what can be done here and now, sorted as plain strings.

    The verbs come in their order, so that only what one verb applies to is left to sort.
    """
    objects, names = game.objects, game.receptacles
    here = game.here[state.place]
    held = state.held
    shut = game.openable & ~state.opened
    within_reach = [receptacle for receptacle in here if not shut >> receptacle & 1]

    close = [f"close {names[receptacle]}" for receptacle in within_reach if game.openable >> receptacle & 1]
    examine = [f"examine {names[receptacle]}" for receptacle in here]
    use: list[str] = []
    if game.toggleable:
        lamps = {thing for receptacle in here for thing in state.contents[receptacle] if game.toggleable >> thing & 1}
        use = [f"use {objects[lamp]}" for lamp in lamps]
    open_ = [f"open {names[receptacle]}" for receptacle in here if shut >> receptacle & 1]
    if held < 0:
        take = [
            f"take {objects[thing]} from {names[receptacle]}"
            for receptacle in within_reach
            for thing in state.contents[receptacle]
            if game.pickupable >> thing & 1
        ]
        return [
            *sorted(close),
            *sorted(examine),
            *_ways(game, state.place),
            *ALWAYS,
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
        slice_ = [f"slice {thing} with {name}" for thing in members(game.sliceable & state.lying[state.place], objects)]
    return [
        *(_treat(game, state, "clean", game.sinks) if game.cleanable >> held & 1 else ()),
        *sorted(close),
        *(_treat(game, state, "cool", game.fridges) if game.coolable >> held & 1 else ()),
        *sorted(examine),
        *_ways(game, state.place),
        *(_treat(game, state, "heat", game.microwaves) if game.heatable >> held & 1 else ()),
        *ALWAYS,
        *sorted(move),
        *sorted(open_),
        *sorted(slice_),
        *sorted(use),
    ]


def _treat(game: Game, state: State, verb: str, appliances: int) -> list[str]:
    """Return the commands that treat the held thing with one of the appliances here, whether open or not."""
    held = game.objects[state.held]
    here = [number for number in game.here[state.place] if appliances >> number & 1]
    return sorted([f"{verb} {held} with {game.receptacles[number]}" for number in here])


def _ways(game: Game, place: int) -> list[str]:
    """Return the "go to" commands: to every receptacle that is not at this place."""
    ways = game.ways[place]
    if ways is None:
        ways = game.ways[place] = sorted(
            f"go to {name}"
            for name, other in zip(game.receptacles, game.place_of, strict=True)
            if other not in (-1, place)
        )
    return ways
