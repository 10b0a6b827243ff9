"""How the engine's texts write lists."""

from collections.abc import Sequence


def listing(items: Sequence[str]) -> str:
    """Return "nothing", "a", "a, and b", "a, b, and c"."""
    if len(items) > 1:
        return f"{', '.join(items[:-1])}, and {items[-1]}"
    return items[0] if items else "nothing"


def things(names: Sequence[str]) -> str:
    """Return the listing of names, each with the article, which is always "a"."""
    if len(names) > 1:
        return f"a {', a '.join(names[:-1])}, and a {names[-1]}"
    return f"a {names[0]}" if names else "nothing"
