"""Progress is plain lines in a log, and a bar with rates in a terminal."""

import io
import re
import sys

import pytest

from progpo import progress
from progpo.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that is set by hand."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_log_gets_a_line_every_so_often(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("stage", 500, "episodes", before=100) as found:
        for done in range(100, 150, 2):
            clock[0] += 1
            found.update(done + 2)
        found.update(150, lambda seconds: f", in {seconds:.0f} s", now=True)
    assert capsys.readouterr().err.splitlines() == [
        "stage: 120 of 500 episodes, 2 a second",
        "stage: 140 of 500 episodes, 2 a second",
        "stage: 150 of 500 episodes, in 25 s",
    ]


def test_nothing_is_said_of_what_is_done_at_once(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("stage", 5, "episodes") as found:
        found.update(5)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar_with_rates(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with Progress("sta[b]ge", 1000, "episodes") as found:
        clock[0] += 20
        found.update(250, tokens=40_000)
        print("a message", file=sys.stderr)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert "sta[b]ge" in shown
    assert "250/1000" in shown
    assert "12 episodes/s, 2,000 tokens/s" in shown
    assert "a message" in shown
    assert not re.search("250 of 1000", shown)


def test_an_error_ends_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(ValueError, match="x"), Progress("stage", 10, "tokens"):
        raise ValueError("x")
    assert sys.stderr is screen
