"""One thing sliced, heated, cleaned and cooled: every answer of `examine`, as the official engine gives it."""

from pathlib import Path

import pytest

from envs.alfworld.fast import FastEpisode, load_game
from envs.alfworld.fast.game import Game
from envs.alfworld.parity import hurried
from envs.alfworld.textworld_engine import TextWorldEpisode


def _first(objects: int, game: Game) -> tuple[str, str] | None:
    """Return the first of a set of objects that lies on an open receptacle, and that receptacle."""
    for receptacle, contents in enumerate(game.contents):
        for thing in contents:
            if objects >> thing & 1 and not game.openable >> receptacle & 1 and game.place_of[receptacle] >= 0:
                return game.objects[thing], game.receptacles[receptacle]
    return None


def _script(game: Game) -> list[str] | None:
    """Return the commands that do everything to one thing, if the game has what that needs."""
    whole = game.sliceable & game.pickupable & game.heatable & game.coolable & game.cleanable
    thing, knife = _first(whole, game), _first(game.knives & game.pickupable, game)
    if not (thing and knife and game.sinks and game.microwaves and game.fridges):
        return None
    sink, microwave, fridge = (
        game.receptacles[appliances.bit_length() - 1] for appliances in (game.sinks, game.microwaves, game.fridges)
    )
    name, where = thing
    treatments = [
        (f"go to {microwave}", f"heat {name} with {microwave}"),
        (f"go to {sink}", f"clean {name} with {sink}"),
        (f"go to {fridge}", f"cool {name} with {fridge}"),
    ]
    treat = [command for pair in treatments for command in (*pair, f"examine {name}")]
    return [
        f"go to {where}", f"take {name} from {where}", f"examine {name}", *treat, *treat[:3],
        f"go to {where}", f"move {name} to {where}",
        f"go to {knife[1]}", f"take {knife[0]} from {knife[1]}", f"go to {where}", f"slice {name} with {knife[0]}",
        f"examine {name}", f"move {knife[0]} to {where}", f"take {name} from {where}", f"examine {name}", *treat,
        "inventory", "look",
    ]  # fmt: skip


def test_all_treatments(real_games: list[Path]) -> None:
    for path in real_games:
        game = load_game(path)
        script = _script(game)
        if script:
            break
    else:
        pytest.fail("no game of the sample has a thing for all treatments")
    thing = script[1].partition(" from ")[0].removeprefix("take ")
    said = []
    with hurried():
        official, fast = TextWorldEpisode(path), FastEpisode(game)
        assert fast.start() == official.start()
        for command in script:
            said.append(official.step(command))
            assert fast.step(command) == said[-1], command
            assert fast.admissible_commands == official.admissible_commands
            assert fast.state_key == official.state_key
        official.close()
    looks = {answer.removeprefix("This is a ").removesuffix(f"{thing}.").strip() for answer in said}
    assert looks >= {"hot", "hot and clean", "cool and clean", "hot and clean sliced", "cool and clean sliced"}
