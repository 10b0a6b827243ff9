"""A strict reader for the PDDL problems of ALFWorld."""

import re
from dataclasses import dataclass

from envs.alfworld.fast.rules import UnsupportedGameError

#: The types of each predicate's arguments, as the domain declares them, all in lower case as PDDL reads it.
PREDICATES: dict[str, tuple[str, ...]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "isreceptacleobject": ("object",),
    "inreceptacleobject": ("object", "object"),
    "isreceptacleobjectfull": ("object",),
    "wasinreceptacle": ("object", "receptacle"),
    "checked": ("receptacle",),
    "examined": ("location",),
    "receptacletype": ("receptacle", "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": ("object", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    "holdsanyreceptacleobject": ("agent",),
    "full": ("receptacle",),
    "isclean": ("object",),
    "cleanable": ("object",),
    "ishot": ("object",),
    "heatable": ("object",),
    "iscool": ("object",),
    "coolable": ("object",),
    "pickupable": ("object",),
    "moveable": ("object",),
    "toggleable": ("object",),
    "ison": ("object",),
    "istoggled": ("object",),
    "sliceable": ("object",),
    "issliced": ("object",),
}
_TYPES = ("agent", "location", "receptacle", "object", "rtype", "otype")
_COMMENT = re.compile(r";[^\n]*")


class ProblemError(ValueError):
    """A text that is no PDDL problem of the ALFWorld domain; says what is wrong."""


@dataclass
class Problem:
    """What a problem states.

    Attributes:
        facts: for each predicate its argument tuples, without repetition, in no order.
        named: for each type the ids that some fact names; the others might as well not have been declared.
        goal: the goal's text, every run of blanks a single one, none inside the brackets.
    """

    facts: dict[str, set[tuple[str, ...]]]
    named: dict[str, set[str]]
    goal: str


def parse_problem(text: str) -> Problem:
    """Read a problem.

    Raises:
        ProblemError: it is no PDDL, or names something that was not declared.
        UnsupportedGameError: it is PDDL beyond what ALFWorld's games use.
    """
    text = text.lower()
    if ";" in text:
        text = _COMMENT.sub("", text)
    if not text.isascii():
        raise ProblemError("the PDDL problem holds a character beyond ASCII")
    parts = re.fullmatch(
        r"\s*\(\s*define\s*\(\s*problem\s+[^\s()]+\s*\)\s*\(\s*:domain\s+alfred\s*\)"
        r"\s*\(\s*:objects([^()]*)\)\s*\(\s*:init\b(.*)\)\s*\(\s*:goal\b(.*)\)\s*\)\s*",
        text,
        re.DOTALL,
    )
    if parts is None:
        _check_brackets(text)
        for section in (":domain alfred", ":objects", ":init", ":goal"):
            if section not in " ".join(text.split()):
                raise ProblemError(f"the PDDL problem has no {section}")
        raise UnsupportedGameError("a PDDL problem with other sections than the domain, objects, init and goal")
    declared = _objects(parts[1])
    facts = _facts(parts[2])
    return Problem(facts, _named(facts, declared), _canonical(parts[3]))


def _check_brackets(text: str) -> None:
    """Raise ProblemError where brackets don't match."""
    if text.count("(") != text.count(")"):
        opened, closed = text.count("("), text.count(")")
        raise ProblemError(f"the PDDL problem has {opened} opening and {closed} closing brackets")
    depth = 0
    for piece in text.split(")")[:-1]:
        depth += piece.count("(") - 1
        if depth < 0:
            raise ProblemError("the PDDL problem closes a bracket that was not opened")


def _canonical(text: str) -> str:
    text = " ".join(text.replace("(", " ( ").replace(")", " ) ").replace("?", " ?").split())
    return text.replace("( ", "(").replace(" )", ")")


def _objects(text: str) -> dict[str, str]:
    """Return id -> type from "a b - type c - type ..."."""
    tokens = text.split()
    if len(tokens) % 3 == 0 and set(tokens[1::3]) <= {"-"}:
        pairs = list(zip(tokens[::3], tokens[2::3], strict=True))
    else:
        pairs, waiting = [], []
        stream = iter(tokens)
        for token in stream:
            if token != "-":
                waiting.append(token)
                continue
            kind = next(stream, None)
            if kind is None or not waiting:
                raise ProblemError("the PDDL problem's :objects has a type without objects, or the reverse")
            pairs += [(name, kind) for name in waiting]
            waiting = []
        # Without a type PDDL takes `object`.
        pairs += [(name, "object") for name in waiting]
    declared = dict(pairs)
    if len(declared) < len(pairs):
        raise ProblemError("the PDDL problem declares an object twice")
    unknown = set(declared.values()).difference(_TYPES)
    if unknown:
        raise ProblemError(f"the PDDL problem declares an object of the unknown type {min(unknown)}")
    return declared


def _facts(text: str) -> dict[str, set[tuple[str, ...]]]:
    facts: dict[str, set[tuple[str, ...]]] = {name: set() for name in PREDICATES}
    pieces = text.split(")")
    if pieces.pop().strip():
        raise ProblemError("the PDDL problem's :init holds something that is no fact")
    # Half of the facts are repetitions, mostly to the blank: a set drops those before they are read.
    for piece in set(pieces):
        name, *arguments = piece.split() or ("",)
        if name == "(" and arguments:
            name += arguments.pop(0)
        found = facts.get(name[1:])
        if found is None or name[0] != "(" or piece.count("(") > 1:
            raise _strange(piece, text)
        found.add(tuple(arguments))
    return facts


def _strange(piece: str, text: str) -> Exception:
    fact = " ".join(piece.split())
    if re.search(r"\(\s*(not\b|=)", text):
        return UnsupportedGameError("an initial state with negations or numbers")
    return ProblemError(f"the PDDL problem's :init has the fact `{fact})`, which the domain does not know")


def _named(facts: dict[str, set[tuple[str, ...]]], declared: dict[str, str]) -> dict[str, set[str]]:
    """Check every fact's arguments against their declaration; return what they name, by type."""
    of_type: dict[str, set[str]] = {kind: set() for kind in _TYPES}
    for name, kind in declared.items():
        of_type[kind].add(name)
    named: dict[str, set[str]] = {kind: set() for kind in _TYPES}
    for predicate, found in facts.items():
        if not found:
            continue
        kinds = PREDICATES[predicate]
        if set(map(len, found)) != {len(kinds)}:
            raise ProblemError(f"the PDDL problem has a fact {predicate} whose number of arguments is not {len(kinds)}")
        for kind, column in zip(kinds, map(set, zip(*found, strict=True)), strict=True):
            strangers = column - of_type[kind]
            if strangers:
                stranger = min(strangers)
                if stranger not in declared:
                    raise ProblemError(f"the PDDL problem does not declare {stranger}, which {predicate} names")
                raise UnsupportedGameError(f"{predicate} of {stranger}, which is no {kind}")
            named[kind] |= column
    return named
