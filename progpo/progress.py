"""Progress of a long stage on stderr: a bar with rate and remaining time in a terminal, plain lines elsewhere.

In a terminal the bar is redrawn in place and leaves one line when it ends. In a log file, which `progpo status`
reads from elsewhere, there is a line every so often. Of several processes the first alone says it.
"""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from progpo.processes import place

#: Seconds between lines.
REPORT_EVERY = 10.0
#: Seconds between two redrawings of a bar.
REDRAW_EVERY = 0.2


class Progress:
    """A context in which something is counted.

    Args:
        label: what is under way, as "rollout" or "update: iteration 3".
        total: how much there is to count.
        unit: of what is counted, in the plural.
        before: how much of it was done before; it enters no rate.
    """

    def __init__(self, label: str, total: int, unit: str, before: int = 0) -> None:
        self._label, self._total, self._unit, self._before = label, total, unit, before
        self._bar: Any = None
        self._started = self._reported = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and place().main:
            self._bar = _bar(self._label, self._total, self._before)
            self._bar.start()
        self._started = self._reported = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(
        self,
        done: int,
        note: Callable[[float], str] | None = None,
        tokens: int | None = None,
        now: bool = False,
    ) -> None:
        """Say how much is done; cheap to call often, since most calls print nothing.

        Args:
            done: so much, of the total.
            note: makes the rest of a plain line from the seconds gone; None: the rate of `done`.
            tokens: that were computed so far, where they are not what is counted.
            now: print in any case.
        """
        moment = time.monotonic()
        if moment - self._reported < (REPORT_EVERY if self._bar is None else REDRAW_EVERY) and not now:
            return
        if not place().main:
            return
        self._reported = moment
        seconds = max(moment - self._started, 1e-9)
        rate = (done - self._before) / seconds
        if self._bar is None:
            rest = f", {rate:.0f} a second" if note is None else note(seconds)
            print(f"{self._label}: {done} of {self._total} {self._unit}{rest}", file=sys.stderr, flush=True)
            return
        rates = f"{rate:,.{1 if rate < 10 else 0}f} {self._unit}/s"
        if tokens is not None:
            rates += f", {tokens / seconds:,.0f} tokens/s"
        self._bar.update(self._bar.task_ids[0], completed=done, rates=rates)


def _bar(label: str, total: int, before: int) -> Any:
    """Return rich's bar. It is imported here: jobs, which write to logs, need none."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rates]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        expand=True,
    )
    bars.add_task(label, total=total, completed=before, rates="")
    return bars
