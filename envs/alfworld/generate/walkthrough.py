"""A shortest way to win a generated game, by one who knows where everything is."""

from collections.abc import Iterator
from itertools import permutations, product

from envs.alfworld.generate.furnish import Game, Thing
from envs.alfworld.generate.goals import APPLIANCES, LAMP, LIGHT
from envs.alfworld.generate.names import text_names
from envs.alfworld.generate.rooms import Receptacle


class _Plan:
    """Commands, written as the agent would move."""

    def __init__(self, game: Game, names: dict[str, str]) -> None:
        self.commands: list[str] = []
        self._names = names
        self._at = game.start
        self._opened: set[str] = set()

    def visit(self, place: Receptacle, look_inside: bool) -> None:
        """Go to a receptacle, unless the agent stands there, and open it if needed."""
        name = self._names[place.id]
        if self._at != place.location:
            self.commands.append(f"go to {name}")
            self._at = place.location
        if look_inside and place.openable and place.id not in self._opened:
            self.commands.append(f"open {name}")
            self._opened.add(place.id)

    def take(self, thing: Thing) -> None:
        self.visit(thing.place, look_inside=True)
        self.commands.append(f"take {self._names[thing.id]} from {self._names[thing.place.id]}")

    def move(self, thing: Thing, place: Receptacle) -> None:
        self.visit(place, look_inside=True)
        self.commands.append(f"move {self._names[thing.id]} to {self._names[place.id]}")

    def change(self, verb: str, thing: Thing, place: Receptacle) -> None:
        self.visit(place, look_inside=False)
        self.commands.append(f"{verb} {self._names[thing.id]} with {self._names[place.id]}")

    def use(self, lamp: Thing) -> None:
        self.visit(lamp.place, look_inside=False)
        self.commands.append(f"use {self._names[lamp.id]}")


def walkthrough(game: Game) -> list[str]:
    """Return the commands of a shortest plan; the first of them in the order of the ids, where there are several."""
    names = text_names([thing.id for thing in game.things] + [receptacle.id for receptacle in game.receptacles])
    return min(_plans(game, names), key=len)


def _plans(game: Game, names: dict[str, str]) -> Iterator[list[str]]:
    goal = game.goal
    things = [thing for thing in game.things if thing.kind == goal.thing and thing.place is not None]
    targets = [receptacle for receptacle in game.receptacles if receptacle.kind == goal.target]
    if goal.task_type == LIGHT:
        lamps = [thing for thing in game.things if thing.kind == LAMP]
        for thing, lamp in product(things, lamps):
            plan = _Plan(game, names)
            plan.take(thing)
            plan.use(lamp)
            yield plan.commands
    elif goal.appliance:
        appliances = [receptacle for receptacle in game.receptacles if receptacle.kind == goal.appliance]
        for thing, appliance, target in product(things, appliances, targets):
            plan = _Plan(game, names)
            plan.take(thing)
            plan.change(APPLIANCES[goal.task_type][2], thing, appliance)
            plan.move(thing, target)
            yield plan.commands
    else:
        for chosen, target in product(permutations(things, goal.needed), targets):
            plan = _Plan(game, names)
            for thing in chosen:
                plan.take(thing)
                plan.move(thing, target)
            yield plan.commands
