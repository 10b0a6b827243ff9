"""What an agent writes: `search[words]` or `click[label]`."""

from typing import NamedTuple


class Action(NamedTuple):
    """An action: its verb, and what stands in the brackets; without brackets the verb is all of it."""

    verb: str
    argument: str | None


def parse_action(text: str) -> Action:
    """Split an action.

    Only the first line counts. The argument goes from the last `[` that leaves it a character to the last `]`; what
    follows is ignored. That is `(.+)\\[(.+)\\]` of the original, in linear time.
    """
    line = text.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return Action(text, None) if start < 0 else Action(line[:start], line[start + 1 : end])
