"""The released ALFWorld games, in a folder as `alfworld-download` leaves it."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from envs.alfworld.game_file import find_task_type, read_game
from envs.alfworld.generate.streams import stream
from envs.alfworld.settings import SPLITS, TASK_TYPES, VALIDATION
from envs.base import EnvironmentDataError

DATA = "json_2.1.1"
GAME = "game.tw-pddl"
VARIABLE = "ALFWORLD_DATA"

#: Why a folder of a split is no task, as alfworld's own loader has it.
SKIPPED = (
    "movable or sliced",
    "another task type",
    "no game file",
    "not known to be solvable",
)

#: Where `alfworld-download` puts the games if nobody says otherwise.
_DEFAULT = Path("~/.cache/alfworld")

_GET = "get the games with `alfworld-download --data-dir FOLDER` (it comes with the package alfworld)"


@dataclass(frozen=True)
class OfficialGame:
    """A released game.

    Attributes:
        name: its folder's name and its trial's, e.g. "pick_heat_then_place_in_recep-Egg-None-Fridge-11-trial_T2019".
        path: of `game.tw-pddl`, absolute.
    """

    name: str
    split: str
    task_type: str
    path: Path


@dataclass
class Survey:
    """What a split's folder holds.

    Attributes:
        games: those that are tasks, sorted by path.
        skipped: how many folders were left out, by reason (`SKIPPED`).
        broken: the message for each game file that cannot be read.
    """

    games: list[OfficialGame] = field(default_factory=list)
    skipped: Counter = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def by_type(self) -> dict[str, list[OfficialGame]]:
        """Return the games by task type; all six types are there."""
        table: dict[str, list[OfficialGame]] = {task_type: [] for task_type in TASK_TYPES}
        for game in self.games:
            table[game.task_type].append(game)
        return table


def locate(data: Path | None = None) -> Path:
    """Return the folder that holds the splits.

    Args:
        data: the folder `json_2.1.1`, or the one that holds it; None: that of the variable ALFWORLD_DATA, else the
            one that `alfworld-download` fills if nothing is said.

    Raises:
        EnvironmentDataError: no folder is named, or there is no such folder or no split in it.
    """
    given = data or os.environ.get(VARIABLE)
    if not given and (_DEFAULT.expanduser() / DATA).is_dir():
        given = _DEFAULT
    if not given:
        raise EnvironmentDataError(
            f"{VARIABLE} is not set and `tasks.data` is null: set one of them to the folder of the games; {_GET}"
        )
    folder = Path(given).expanduser().absolute()
    if (folder / DATA).is_dir():
        folder = folder / DATA
    if not folder.is_dir():
        raise EnvironmentDataError(f"{folder}: no such folder; correct {VARIABLE} or `tasks.data`, or {_GET}")
    if not any((folder / split).is_dir() for split in SPLITS):
        raise EnvironmentDataError(
            f"{folder}: neither {DATA} nor a split ({', '.join(SPLITS)}) is in it; correct {VARIABLE} or "
            f"`tasks.data`, or {_GET}"
        )
    return folder


def survey(folder: Path, split: str) -> Survey:
    """Look through a split; reads every game file (about a millisecond each).

    As alfworld's loader does, it leaves out tasks with movable receptacles or sliced objects, and games that are
    not marked as solvable. The task type is that of `traj_data.json`, or without it, of the folder's name.
    """
    found = Survey()
    for place in _trials(folder / split):
        relative = place.relative_to(folder / split)
        path = place / GAME
        if any(word in str(relative) for word in ("movable", "Sliced")):
            found.skipped["movable or sliced"] += 1
        elif (task_type := find_task_type(str(path))) is None:
            found.skipped["another task type"] += 1
        elif not path.exists():
            found.skipped["no game file"] += 1
        else:
            try:
                solvable = read_game(path).get("solvable")
            except EnvironmentDataError as error:
                found.broken.append(str(error))
                continue
            if solvable:
                found.games.append(OfficialGame("-".join(relative.parts), split, task_type, path))
            else:
                found.skipped["not known to be solvable"] += 1
    return found


def _trials(folder: Path) -> Iterator[Path]:
    """Yield, sorted, the folders that hold a game or a trajectory."""
    for place, below, names in os.walk(folder):
        below.sort()
        if GAME in names or "traj_data.json" in names:
            yield Path(place)


def choose(
    folder: Path, split: str, count: int | None, types: Sequence[str], seed: int, aside: int = 0
) -> list[OfficialGame]:
    """Return games of a split, spread evenly over the task types as far as there are games.

    Which ones depends on the seed, the split and the types; a smaller choice is the beginning of a larger one.

    Args:
        split: that of a folder, or "validation": train games set aside.
        count: how many; None: all.
        aside: games of this split that are set aside, and not to be chosen.

    Raises:
        EnvironmentDataError: the split has no game of those types, or fewer than asked for, or a broken one.
    """
    source = "train" if split == VALIDATION else split
    found = survey(folder, source)
    if found.broken:
        more = f" (and {len(found.broken) - 1} more like it)" if len(found.broken) > 1 else ""
        raise EnvironmentDataError(found.broken[0] + more)
    there = {task_type: games for task_type, games in found.by_type().items() if task_type in types and games}
    if aside:
        kept = {game.name for game in _spread(there, VALIDATION, aside, seed)}
        left = {name: [game for game in games if game.name not in kept] for name, games in there.items()}
        there = {name: games for name, games in left.items() if games}
    total = sum(map(len, there.values()))
    if not total:
        left_out = ", ".join(f"{number} {reason}" for reason, number in found.skipped.items()) or "nothing"
        raise EnvironmentDataError(
            f"{folder / source}: no game of {', '.join(types)} (left out: {left_out}"
            f"{f', {aside} set aside for validation' if aside else ''}); {_GET}, or change `tasks.splits` or "
            "`tasks.types`"
        )
    if count is None:
        return sorted((game for games in there.values() for game in games), key=lambda game: game.path)
    if count > total:
        raise EnvironmentDataError(
            f"{folder / source}: {count} games asked for, {total} are there"
            f"{f' beside {aside} set aside for validation' if aside else ''}; lower `tasks.splits.{split}`"
            f"{'' if split == VALIDATION else ' (null: all)'}"
        )
    return [replace(game, split=split) for game in _spread(there, split, count, seed)]


def _spread(there: Mapping[str, Sequence[OfficialGame]], split: str, count: int, seed: int) -> list[OfficialGame]:
    """Return so many games, or all, one of each type after another, each type's in a random order of the split's."""
    queues = [
        [games[index] for index in stream("official", seed, split, task_type).permutation(len(games))]
        for task_type, games in there.items()
    ]
    rounds = (queue[turn] for turn in range(max(map(len, queues), default=0)) for queue in queues if turn < len(queue))
    return [game for game, _ in zip(rounds, range(count), strict=False)]


@dataclass(frozen=True)
class Preflight:
    """What a folder of released games holds, and what it lacks.

    Attributes:
        folder: the one that holds the splits.
        counts: games by split and task type.
        skipped: folders left out by split and reason.
        problems: one line each, with the remedy; empty if nothing is missing.
    """

    folder: Path
    counts: dict[str, dict[str, int]]
    skipped: dict[str, dict[str, int]]
    problems: tuple[str, ...]

    def render(self) -> str:
        """Return a table for people."""
        width = max(map(len, TASK_TYPES))
        lines = [str(self.folder), " " * width + "".join(f"{split:>14}" for split in SPLITS)]
        for task_type in TASK_TYPES:
            lines.append(f"{task_type:<{width}}" + "".join(f"{self.counts[split][task_type]:14}" for split in SPLITS))
        totals = (sum(self.counts[split].values()) for split in SPLITS)
        lines.append(f"{'all':<{width}}" + "".join(f"{total:14}" for total in totals))
        for reason in SKIPPED:
            numbers = [self.skipped[split].get(reason, 0) for split in SPLITS]
            if any(numbers):
                label = f"left out: {reason}"
                lines.append(f"{label:<{width}}" + "".join(f"{number:14}" for number in numbers))
        lines += [f"missing: {problem}" for problem in self.problems] or ["nothing is missing"]
        return "\n".join(lines)


def preflight(data: Path | None = None) -> Preflight:
    """Count the games of a folder by split and task type, and say what is missing and how to get it.

    Args:
        data: as in `locate`.

    Raises:
        EnvironmentDataError: there is no such folder at all.
    """
    folder = locate(data)
    counts, skipped, problems = {}, defaultdict(dict), []
    for split in SPLITS:
        found = survey(folder, split)
        counts[split] = {task_type: len(games) for task_type, games in found.by_type().items()}
        skipped[split] = dict(found.skipped)
        if not (folder / split).is_dir():
            problems.append(f"the split {split}: {_GET}")
        elif not found.games:
            problems.append(f"games in {folder / split}: {_GET}")
        else:
            problems += [f"{split}: no game of {name}; {_GET}" for name, count in counts[split].items() if not count]
        if found.skipped["no game file"]:
            problems.append(f"{split}: {found.skipped['no game file']} folders without {GAME}; {_GET}")
        problems += found.broken
    return Preflight(folder, counts, dict(skipped), tuple(problems))
