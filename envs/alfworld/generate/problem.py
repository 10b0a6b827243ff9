"""A generated game as PDDL, in the form of the released games."""

from collections.abc import Iterable

from envs.alfworld.generate.furnish import Game
from envs.alfworld.generate.goals import Goal, contains
from envs.alfworld.generate.names import mangle
from envs.alfworld.generate.rooms import Location
from envs.alfworld.generate.shipped import constants
from envs.alfworld.generate.shipped import goal as shipped_goal
from envs.alfworld.generate.statistics import habits

_INDENT = "\n        "
_COOLER = "Fridge"


def _name(location: Location) -> str:
    return mangle("|".join(map(str, ("loc", *location))))


def _types() -> tuple[list[str], list[str]]:
    """Return all object and receptacle types that a problem declares."""
    tables = constants()
    receptacles = tables.RECEPTACLES - tables.MOVABLE_RECEPTACLES_SET
    return sorted(tables.OBJECTS_SET - receptacles), sorted(receptacles)


def _declarations(game: Game) -> Iterable[str]:
    object_types, receptacle_types = _types()
    yield "agent1 - agent"
    yield from (f"{kind} - object" for kind in object_types)
    yield from (f"{kind}Type - otype" for kind in object_types)
    yield from (f"{kind}Type - rtype" for kind in receptacle_types)
    yield from sorted(f"{mangle(thing.id)} - object" for thing in game.things)
    yield from sorted(f"{mangle(receptacle.id)} - receptacle" for receptacle in game.receptacles)
    places = {thing.location for thing in game.things} | {place.location for place in game.receptacles}
    yield from (f"{_name(location)} - location" for location in sorted(places | {game.start}))


def _facts(game: Game) -> Iterable[tuple[str, ...]]:
    """Yield the initial facts, in the order of the released games."""
    tables = constants()
    receptacles = [(mangle(place.id), place) for place in game.receptacles]
    # A few types (faucets, shower heads, ...) have no type in PDDL; the released games have such objects too.
    things = [(mangle(thing.id), thing) for thing in game.things]
    typed = [(name, thing) for name, thing in things if thing.kind in tables.OBJECTS_SET]
    yield from (("receptacleType", name, f"{place.kind}Type") for name, place in receptacles)
    yield from (("objectType", name, f"{thing.kind}Type") for name, thing in typed)
    kinds = sorted({thing.kind for thing in game.things})
    for kind in sorted({place.kind for place in game.receptacles}):
        yield from (("canContain", f"{kind}Type", f"{thing}Type") for thing in kinds if contains(kind, thing))
    yield from (("pickupable", name) for name, thing in typed if habits()[thing.kind].portable)
    yield from (("isReceptacleObject", name) for name, thing in typed if thing.kind in tables.MOVABLE_RECEPTACLES_SET)
    yield from (("openable", name) for name, place in receptacles if place.openable)
    yield ("atLocation", "agent1", _name(game.start))
    for predicate in ("cleanable", "heatable", "coolable"):
        able = tables.VAL_ACTION_OBJECTS[predicate.capitalize()]
        yield from ((predicate, name) for name, thing in typed if thing.kind in able)
    # As released games have it: of what starts in the fridge only the goal's objects are cool.
    for name, thing in typed:
        if thing.kind == game.goal.thing and thing.place is not None and thing.place.kind == _COOLER:
            yield ("isCool", name)
    for predicate in ("toggleable", "sliceable"):
        able = tables.VAL_ACTION_OBJECTS[predicate.capitalize()]
        yield from ((predicate, name) for name, thing in typed if thing.kind in able)
    for name, thing in things:
        if thing.place is not None:
            yield ("inReceptacle", name, mangle(thing.place.id))
    for name, thing in things:
        if thing.holder is not None:
            yield ("inReceptacleObject", name, mangle(thing.holder))
    yield from (("receptacleAtLocation", name, _name(place.location)) for name, place in receptacles)
    yield from (("objectAtLocation", name, _name(thing.location)) for name, thing in things)


def goal_text(goal: Goal) -> str:
    """Return the goal in PDDL, with the brackets that close the problem."""
    text, _ = shipped_goal(goal.task_type)
    return text.format(obj=goal.thing, recep=goal.target, toggle=goal.target)


def problem(game: Game, name: str) -> str:
    """Return the PDDL problem of a game; `name`: of the plan, letters, digits and underscores."""
    declarations = _INDENT.join(_declarations(game))
    facts = _INDENT.join(f"({' '.join(fact)})" for fact in _facts(game))
    return (
        f"\n(define (problem plan_{name})\n(:domain alfred)\n(:objects\n{declarations}\n        )\n"
        f"\n(:init{_INDENT}{facts}\n        )\n{goal_text(game.goal)}"
    )


def sentence(goal: Goal, choice: int) -> str:
    """Return a task sentence, e.g. "put two mug in desk"; `choice`: which of the type's two templates."""
    _, templates = shipped_goal(goal.task_type)
    return templates[choice % len(templates)].format(
        obj=goal.thing.lower(), recep=goal.target.lower(), toggle=goal.target.lower()
    )
