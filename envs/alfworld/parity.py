"""Both engines side by side: the fast one must equal the official one to the byte.

`python -m envs.alfworld.parity FOLDER` plays every game below a folder on both, and names each difference. The
official engine sets the pace: a game takes it a second, and each step 40 ms. Most of that is work done over and over
again, so here it is spared that (see `hurried`), unless it is run with `--plain`.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from envs.alfworld.fast import FastEpisode, UnsupportedGameError, load_game
from envs.alfworld.textworld_engine import TextWorldEpisode
from envs.base import EnvironmentDataError

#: Never admissible, each for another reason.
_GARBAGE = (
    "",
    "   ",
    "go",
    "go to",
    "take",
    "close",
    "dance",
    "go to narnia 1",
    "examine",
    "help me",
    "LOOK",
    "look around",
    "inventory 1",
    "put mug 1 in/on desk 1",
    "take loc 1 from loc 2",
    "use agent1",
    "Nothing happens.",
    "look\tlook",
    "go to  fridge 1",
    "ouvrir le réfrigérateur",
    "{r.name}",
)


#: Holds what a worker process turns on for as long as it lives.
_for_good = ExitStack()


@dataclass(frozen=True)
class Difference:
    """Where the engines part.

    Attributes:
        game: path of the game.
        commands: what was executed, the last one being where they part.
        field: "observation", "admissible_commands", "won" or "state_key".
        fast, official: what each engine has.
    """

    game: str
    commands: tuple[str, ...]
    field: str
    fast: object
    official: object

    def __str__(self) -> str:
        played = f"after {list(self.commands)}" if self.commands else "at reset"
        return f"{self.game}: {self.field} {played}\n  fast:     {self.fast!r}\n  official: {self.official!r}"


class Prober:
    """Chooses commands: the walkthrough's, mixed with random admissible ones, near misses and garbage.

    After a detour it goes back to where the walkthrough left off, so that most games are won.
    """

    def __init__(self, walkthrough: Iterable[str], rng: np.random.Generator) -> None:
        """Make one for a game; `walkthrough` may be empty."""
        self._walkthrough = list(walkthrough)
        self._rng = rng
        self._way_back = ""

    def choose(self, admissible: list[str]) -> str:
        """Return the next command."""
        draw = self._rng.random()
        if draw < 0.5 and self._walkthrough:
            if self._walkthrough[0] in admissible:
                command = self._walkthrough.pop(0)
                if command.startswith("go to "):
                    self._way_back = command
                return command
            if self._way_back in admissible:
                return self._way_back
        if draw < 0.85:
            return self._one(admissible)
        return self._spoiled(self._one(admissible)) if draw < 0.95 else self._pick(_GARBAGE)

    def _one(self, admissible: list[str]) -> str:
        """Return an admissible command; each verb is as likely as any other, however many commands it has."""
        verb = self._pick(sorted({command.split()[0] for command in admissible}))
        return self._pick([command for command in admissible if command.split()[0] == verb])

    def _spoiled(self, command: str) -> str:
        """Return a command that is no longer admissible, or is so only because blanks around it don't count."""
        words = command.split()
        words[-1] = str(self._rng.integers(1, 40))
        return self._pick(
            (
                command.upper(),
                command.capitalize(),
                f"  {command} \n",
                f"{command} 1",
                command.replace(" ", "  "),
                command[:-1],
                " ".join(words),
                f"put {command}",
                command.replace(" from ", " in "),
            )
        )

    def _pick(self, items: Iterable[str]) -> str:
        items = list(items)
        return items[self._rng.integers(len(items))]


@contextmanager
def hurried() -> Iterator[None]:
    """Let the official engine do nothing twice, and nothing that no command shows.

    Its two parsers remember what they returned; the translator to SAS does, too, and does not make the second
    translation, which only its planner reads; contexts are copied without the entities in them, which none changes.
    """
    import fast_downward
    from textworld.envs.pddl import textgen
    from textworld.logic import Rule

    kept = textgen._parse_and_convert, textgen.copy_context, Rule.parse_conjunctive_query, fast_downward.pddl2sas
    parse = lru_cache(maxsize=4096)(kept[0])
    translated = lru_cache(maxsize=2)(kept[3])

    def copy_context(context: dict[str, Any]) -> dict[str, Any]:
        return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}

    # The engine writes contexts into the symbols that it gets from the parser, so it gets copies.
    textgen._parse_and_convert = lambda *arguments, **options: deepcopy(parse(*arguments, **options))
    textgen.copy_context = copy_context
    Rule.parse_conjunctive_query = lru_cache(maxsize=4096)(kept[2])
    fast_downward.pddl2sas = lambda domain, problem, **options: translated(domain, problem)
    try:
        yield
    finally:
        textgen._parse_and_convert, textgen.copy_context, Rule.parse_conjunctive_query, fast_downward.pddl2sas = kept


def compare(path: str | Path, steps: int = 40, seed: int = 0) -> Difference | None:
    """Play a game on both engines at once; returns the first difference, or None.

    The play goes on after a win, as the engines do.

    Raises:
        EnvironmentDataError: the game is missing or broken.
        UnsupportedGameError: the fast engine does not play it.
    """
    path = str(path)
    fast = FastEpisode(load_game(path))
    walkthrough = json.loads(Path(path).read_text(encoding="utf-8")).get("walkthrough") or ()
    official = TextWorldEpisode(path)
    try:
        # The folders' names tell games apart; the rest of the path depends on the machine.
        name = "/".join(Path(path).parts[-3:])
        prober = Prober(walkthrough, np.random.default_rng([seed, crc32(name.encode())]))
        commands: list[str] = []
        observations = fast.start(), official.start()
        while True:
            for field, ours, theirs in (
                ("observation", *observations),
                ("admissible_commands", fast.admissible_commands, official.admissible_commands),
                ("won", fast.won, official.won),
                ("state_key", fast.state_key, official.state_key),
            ):
                if ours != theirs:
                    return Difference(path, tuple(commands), field, ours, theirs)
            if len(commands) == steps:
                return None
            commands.append(prober.choose(official.admissible_commands))
            observations = fast.step(commands[-1]), official.step(commands[-1])
    finally:
        official.close()


def _hurry() -> None:
    _for_good.enter_context(hurried())


def _compare(job: tuple[str, int, int]) -> str | None:
    try:
        difference = compare(*job)
    except (EnvironmentDataError, UnsupportedGameError) as error:
        return f"{job[0]}: {error}"
    return None if difference is None else str(difference)


def compare_all(
    paths: Iterable[str], steps: int, seed: int = 0, processes: int = 1, plain: bool = False
) -> Iterator[str | None]:
    """Compare many games, in their order; yields the difference, as text, or None for each."""
    jobs = [(path, steps, seed) for path in paths]
    # Processes of their own even for one: the official engine's library leaks.
    initialise = None if plain else _hurry
    with get_context("spawn").Pool(processes, initialise, maxtasksperchild=100) as pool:
        yield from pool.imap(_compare, jobs)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m envs.alfworld.parity", description=__doc__)
    parser.add_argument("folder", type=Path, help="searched for game.tw-pddl files, whatever the depth")
    parser.add_argument("--steps", type=int, default=40, help="commands a game (default 40)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of commands and of games (default 0)")
    parser.add_argument("--games", type=int, help="a random choice of so many games (default: all)")
    parser.add_argument("--processes", type=int, default=1, help="side by side (default 1)")
    parser.add_argument(
        "--plain", action="store_true", help="the official engine exactly as it is; several times slower"
    )
    arguments = parser.parse_args()

    paths = sorted(map(str, arguments.folder.rglob("game.tw-pddl")))
    if not paths:
        sys.exit(f"no game.tw-pddl below {arguments.folder}")
    if arguments.games is not None:
        paths = np.random.default_rng(arguments.seed).permutation(paths)[: arguments.games].tolist()
    differences = 0
    began = said = time.monotonic()
    for done, difference in enumerate(
        compare_all(paths, arguments.steps, arguments.seed, arguments.processes, arguments.plain), start=1
    ):
        if difference is not None:
            differences += 1
            print(difference, flush=True)
        if time.monotonic() - said > 10 or done == len(paths):
            said = time.monotonic()
            rate = done / (said - began)
            print(
                f"{done} of {len(paths)} games, {differences} differ, {rate:.2f} games/s", file=sys.stderr, flush=True
            )
    print(f"{len(paths)} games, {arguments.steps} steps each: {differences} differ")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
