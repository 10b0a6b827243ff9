"""The task sentence of a game, read."""

import re
from dataclasses import dataclass
from typing import Literal

from envs.base import EnvironmentDataError

Change = Literal["clean", "heat", "cool"]

#: The adjective that a sentence uses for the outcome of a change.
_ADJECTIVES: dict[str, Change] = {"clean": "clean", "hot": "heat", "cool": "cool"}

_TASK = re.compile(r"Your task is to: (.+?)\.?\s*$", re.MULTILINE)

#: All twelve templates of the six task families.
_SENTENCES = tuple(
    re.compile(sentence)
    for sentence in (
        r"put (?P<article>a|some|two) (?:(?P<adjective>clean|hot|cool) )?(?P<thing>\w+) (?:in|on) (?P<place>\w+)",
        r"(?P<verb>clean|heat|cool) some (?P<thing>\w+) and put it in (?P<place>\w+)",
        r"find (?P<article>two) (?P<thing>\w+) and put them in (?P<place>\w+)",
        r"look at (?P<thing>\w+) under the (?P<lamp>\w+)",
        r"examine the (?P<thing>\w+) with the (?P<lamp>\w+)",
    )
)


@dataclass(frozen=True)
class Goal:
    """What is to be done.

    Attributes:
        thing: the kind of object, e.g. "mug".
        place: the kind of receptacle it goes to; None for the light tasks.
        count: how many of them, all into one and the same receptacle.
        change: what is to be done with it before, if anything.
        lamp: the kind of lamp to switch on while holding the thing (light tasks only).
    """

    thing: str
    place: str | None = None
    count: int = 1
    change: Change | None = None
    lamp: str | None = None


def read_goal(observation: str) -> Goal:
    """Read the goal from the first observation, which holds "Your task is to: ...".

    Raises:
        EnvironmentDataError: no task in the text, or a sentence of another form.
    """
    task = _TASK.search(observation)
    if not task:
        raise EnvironmentDataError(f"no task in the first observation: {observation[-200:]!r}")
    for sentence in _SENTENCES:
        match = sentence.fullmatch(task[1].lower())
        if match:
            found = match.groupdict()
            return Goal(
                thing=found["thing"],
                place=found.get("place"),
                count=2 if found.get("article") == "two" else 1,
                change=found.get("verb") or _ADJECTIVES.get(found.get("adjective") or ""),
                lamp=found.get("lamp"),
            )
    raise EnvironmentDataError(
        f"the task {task[1]!r} is of none of the six ALFWorld families, which the expert can play"
    )
