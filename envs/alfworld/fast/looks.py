"""What can be seen in a state."""

from envs.alfworld.fast.game import Game
from envs.alfworld.fast.state import State
from envs.alfworld.fast.texts import listing, things


def look_into(game: Game, state: State, receptacle: int) -> str:
    """Return what a receptacle looks like, on arrival, on opening it, or when it is examined."""
    name = game.receptacles[receptacle]
    if game.openable >> receptacle & 1 and not state.opened >> receptacle & 1:
        return f"The {name} is closed."
    objects = game.objects
    seen = things([objects[thing] for thing in state.contents[receptacle]])
    if game.openable >> receptacle & 1:
        return f"The {name} is open. In it, you see {seen}."
    return f"On the {name}, you see {seen}."


def inspect(game: Game, state: State, name: str) -> str:
    """Return what the held thing looks like."""
    thing = state.held
    inner = game.inner.get(thing)
    if inner is not None:
        return f"This is a normal {name}. In it, you see {things([game.objects[other] for other in inner])}."
    clean, hot, cool, sliced, toggled = (status >> thing & 1 for status in state.statuses)
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


def look_around(game: Game, state: State) -> str:
    """Return what `look` says."""
    here = game.here[state.place]
    if not here:
        return "You are in the middle of a room. Looking quickly around you, you see nothing."
    # Things that lie here, once for each receptacle here that they were taken from and are not back in.
    lying = state.lying[state.place]
    moved = sorted(
        (thing, name)
        for receptacle in here
        if (gone := state.taken.get(receptacle, 0) & lying)
        for thing, name in enumerate(game.objects)
        if gone >> thing & 1
    )
    facing = listing([game.receptacles[receptacle] for receptacle in here])
    return f"You are facing the {facing}. Next to it, you see {things([name for _, name in moved])}."
