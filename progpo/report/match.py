"""Whether a run came to the numbers that were published."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from progpo.artifacts import check
from progpo.errors import ProgpoError
from progpo.report.publish import CURVES, EVALUATIONS, evaluations
from progpo.results import existing, load, make_curves

#: What tells rows apart, by file.
KEYS = {
    CURVES: ("arm", "seed", "iteration"),
    EVALUATIONS: ("arm", "seed", "iteration", "split", "task"),
}
#: So many differences are told.
TOLD = 5


def match(root: Path, published: Path) -> str:
    """Compare a run's measurements with published ones, number by number; return what was the same, in words.

    A run of some of the arms, seeds and iterations is compared in these.

    Args:
        root: the experiment's folder, of a run finished or not.
        published: a folder that `publish` wrote.

    Raises:
        ProgpoError: a number that differs (the first few are named), nothing to compare, or damaged files.
    """
    check(published)
    found = load(existing(root), strict=True)
    arms = found.order(())
    here = {CURVES: make_curves(found, arms), EVALUATIONS: list(evaluations(found, arms))}
    told, lines, different = [], [], 0
    for name, key in KEYS.items():
        theirs = _by(key, pq.read_table(published / name).to_pylist())
        mine = _by(key, here[name])
        shared = [row for row in mine if row in theirs]
        for row in shared:
            where = ", ".join(f"{column} {value}" for column, value in zip(key, row, strict=True))
            pairs = [(column, mine[row].get(column), value) for column, value in theirs[row].items()]
            found_here = [f"{where}: {column} {one}, published {other}" for column, one, other in pairs if one != other]
            different += bool(found_here)
            lines += found_here
        told.append(f"{len(shared)} of {len(theirs)} rows of {name}")
        if not shared:
            raise ProgpoError(f"{root}: has no arm, seed and iteration in common with {published / name}")
    if lines:
        more = f"\nand {len(lines) - TOLD} more" if len(lines) > TOLD else ""
        raise ProgpoError(f"{root}: {different} rows are not as published:\n" + "\n".join(lines[:TOLD]) + more)
    return f"the same to the last digit as in {published}: {' and '.join(told)}"


def _by(key: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], Mapping[str, Any]]:
    return {tuple(row[column] for column in key): row for row in rows}
