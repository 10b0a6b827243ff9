"""Regular expressions over symbols, matched by derivatives (Brzozowski 1964): the longest match, no backtracking.

An expression is a nested tuple. `re` can't stand in: of two alternatives it takes the first that fits, a scanner
that a generator like JFlex made the longest.
"""

from collections.abc import Hashable, Sequence

Expression = tuple

NOTHING: Expression = ("or", frozenset())
EMPTY: Expression = ("empty",)


def one_of(*symbols: Hashable) -> Expression:
    """Return the expression that matches any one of the symbols."""
    return ("one", frozenset(symbols))


def either(*choices: Expression) -> Expression:
    """Return the expression that matches what any of the choices does."""
    flat: set[Expression] = set()
    for choice in choices:
        flat |= choice[1] if choice[0] == "or" else {choice}
    return next(iter(flat)) if len(flat) == 1 else ("or", frozenset(flat))


def sequence(*parts: Expression) -> Expression:
    """Return the expression that matches its parts one after the other."""
    made = EMPTY
    for part in reversed(parts):
        made = _pair(part, made)
    return made


def many(part: Expression) -> Expression:
    """Return the expression that matches any number of times, none included."""
    return ("many", part)


def some(part: Expression) -> Expression:
    """Return the expression that matches one time or more."""
    return sequence(part, many(part))


def maybe(part: Expression) -> Expression:
    """Return the expression that matches a part or nothing."""
    return either(part, EMPTY)


def _pair(first: Expression, second: Expression) -> Expression:
    if NOTHING in (first, second):
        return NOTHING
    if first == EMPTY:
        return second
    if second == EMPTY:
        return first
    if first[0] == "then":  # to the right always, so that equal languages are equal tuples more often
        return ("then", first[1], _pair(first[2], second))
    return ("then", first, second)


def _accepts_nothing_more(expression: Expression) -> bool:
    match expression:
        case ("empty",) | ("many", _):
            return True
        case ("or", choices):
            return any(map(_accepts_nothing_more, choices))
        case ("then", first, second):
            return _accepts_nothing_more(first) and _accepts_nothing_more(second)
    return False


def _derive(expression: Expression, symbol: Hashable) -> Expression:
    match expression:
        case ("one", symbols):
            return EMPTY if symbol in symbols else NOTHING
        case ("or", choices):
            return either(NOTHING, *(_derive(choice, symbol) for choice in choices))
        case ("many", part):
            return _pair(_derive(part, symbol), expression)
        case ("then", first, second):
            after = _pair(_derive(first, symbol), second)
            return either(after, _derive(second, symbol)) if _accepts_nothing_more(first) else after
    return NOTHING


class Automaton:
    """The deterministic automaton of an expression, its states made when they are first reached."""

    def __init__(self, expression: Expression) -> None:
        """Start from an expression."""
        self._numbers: dict[Expression, int] = {NOTHING: 0}
        self._states: list[Expression] = [NOTHING]
        self._accepting: list[bool] = [False]
        self._steps: dict[tuple[int, Hashable], int] = {}
        self._start = self._number(expression)

    def longest(self, symbols: Sequence[Hashable], start: int, stop: int) -> int:
        """Return where the longest match from `start` on ends, at most at `stop`; `start` where nothing matches."""
        state, end = self._start, start
        for position in range(start, stop):
            key = state, symbols[position]
            state = self._steps.get(key, -1)
            if state < 0:
                state = self._steps[key] = self._number(_derive(self._states[key[0]], key[1]))
            if state == 0:
                break
            if self._accepting[state]:
                end = position + 1
        return end

    def _number(self, expression: Expression) -> int:
        if expression not in self._numbers:
            self._numbers[expression] = len(self._states)
            self._states.append(expression)
            self._accepting.append(_accepts_nothing_more(expression))
        return self._numbers[expression]
