"""What the page shows: groups, trajectories and steps as compact JSON-able data, each text once."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from progpo.advantages.progress import SUCCESS
from progpo.advantages.table import read_advantages
from progpo.artifacts import SUFFIX, manifest_path, read_manifest, refuse_pruned
from progpo.errors import ProgpoError
from progpo.results import PLACE, Place
from progpo.trajectories.read import read_shards, to_trajectories
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import Metadata

ADVANTAGES = "advantages.parquet"
#: What a folder's trajectories are called, by the stage that wrote them.
SHARDS = ("shard-*.parquet", "trajectories.parquet", "demonstrations.parquet")
COLUMNS = (
    *("task", "task_type", "observation", "next_observation", "action", "valid"),
    *("reward", "outcome", "score", "terminated", "truncated"),
)
#: Bits of a step's flags.
VALID, FIRST_VISIT = 1, 2

Key = tuple[int, int, int]
Row = Mapping[str, Any]


@dataclass
class Texts:
    """Texts by number, each held once."""

    texts: list[str] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        """Return the text's number; a new text is added."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]


def collect(paths: Sequence[Path], strict: bool = False) -> dict[str, Any]:
    """Read what is to be shown.

    Args:
        paths: of each source (an arm's iteration, an evaluation, ...): its folder, or a Parquet file.
        strict: whether files must have manifests; those that are there are always checked.

    Returns:
        texts: list[str]; sources: for each path `label`, `path`, `facts` (name to text) and `groups`, each with
        `group`, `task`, `type`, `branch` and `trajectories`: `trajectory`, `outcome`, `score`, `success`, `progress`,
        `advantage` (the trajectory part), `end`, `start` (number of the first observation) and `steps`: lists of
        action and next observation (numbers), flags, advantage, reward, and where it is not the observation before,
        what was observed instead.

    Raises:
        ProgpoError: no trajectories there, damaged files, or advantages that are not of these trajectories.
    """
    texts = Texts()
    return {"sources": [_source(path, texts, strict) for path in paths], "texts": texts.texts}


def find_shards(path: Path) -> tuple[list[Path], Path | None]:
    """Return the shards that a folder or file stands for, and the advantages of them, if there are any.

    The first iteration's shards are shared by the arms: the manifest of an arm's advantages names them.

    Raises:
        ProgpoError: no such place, or no trajectories there.
    """
    if path.is_file():
        return [path], None
    if not path.is_dir():
        raise ProgpoError(f"{path}: no such folder or file")
    advantages = path / ADVANTAGES if (path / ADVANTAGES).is_file() else None
    for pattern in SHARDS:
        found = sorted(path.glob(pattern))
        if found:
            return found, advantages
    if advantages and manifest_path(advantages).is_file():
        inputs = (Path(os.path.normpath(path / name)) for name in read_manifest(advantages).inputs)
        found = sorted(item.with_name(item.name.removesuffix(SUFFIX)) for item in inputs)
        for item in found:
            refuse_pruned(item)
        missing = [str(item) for item in found if not item.is_file()]
        if missing:
            raise ProgpoError(f"{path}: its shards are missing: {', '.join(missing)}")
        return found, advantages
    raise ProgpoError(
        f"{path}: holds no trajectories; name the folder of an iteration (seed-0/<arm>/iteration-001), of an "
        "evaluation (.../evaluation) or of the demonstrations, or a Parquet file"
    )


def name_of(path: Path) -> str:
    """Return what a place in an experiment's folders is called; the path where it is in none."""
    place = path.absolute() if path.is_file() else path.absolute() / "any"
    if not PLACE.search(place.as_posix()):
        return str(path)
    found = Place.of(place)
    parts = [found.arm, f"seed {found.seed}"]
    if found.iteration:
        parts.append(f"iteration {found.iteration}")
    elif found.iteration is None:
        parts.append("best iteration")
    return ", ".join([*parts, *([found.what] if found.what else [])])


def _source(path: Path, texts: Texts, strict: bool) -> dict[str, Any]:
    shards, advantages = find_shards(path)
    table, metadata = read_shards(shards, COLUMNS, strict=strict)
    trajectories = to_trajectories(table)
    if not trajectories:
        raise ProgpoError(f"{path}: holds no trajectory")
    rows, settings = _advantages(advantages, strict) if advantages else ({}, {})
    steps = {(item.group, item.trajectory, number) for item in trajectories for number in range(len(item.steps))}
    if rows and rows.keys() != steps:
        raise ProgpoError(f"{advantages}: not of the trajectories in {shards[0].parent}; rerun `progpo advantages`")
    groups = []
    for number, members in groupby(trajectories, key=lambda item: item.group):
        of_group = list(members)
        first = rows.get((number, of_group[0].trajectory, 0), {})
        groups.append(
            {
                "group": number,
                "task": of_group[0].task,
                "type": of_group[0].task_type,
                "branch": first.get("branch"),
                "trajectories": [_trajectory(item, rows, texts) for item in of_group],
            }
        )
    facts = _facts(next((item for item in metadata if item), None), settings)
    return {"label": name_of(path), "path": str(path), "facts": facts, "groups": groups}


def _advantages(path: Path, strict: bool) -> tuple[dict[Key, Row], Mapping[str, Any]]:
    """Return the rows of an advantages table by key, and the arm's settings."""
    table, facts = read_advantages(path, strict)
    rows = table.to_pylist()
    return {(row["group"], row["trajectory"], row["step"]): row for row in rows}, facts.get("settings", {})


def _trajectory(item: Trajectory, rows: Mapping[Key, Row], texts: Texts) -> dict[str, Any]:
    of_steps = [rows.get((item.group, item.trajectory, number), {}) for number in range(len(item.steps))]
    visits = [row.get("first_visit") for row in of_steps]
    if None in visits:
        visits = list(first_visits(item.steps))
    progress = of_steps[0].get("progress")
    steps, before = [], item.steps[0].observation
    for step, row, visit in zip(item.steps, of_steps, visits, strict=True):
        shown: list[Any] = [
            texts.number(step.action),
            texts.number(step.next_observation),
            VALID * step.valid | FIRST_VISIT * visit,
            short(row.get("advantage")),
            short(step.reward),
        ]
        if step.observation != before:
            shown.append(texts.number(step.observation))
        before = step.next_observation
        steps.append(shown)
    last = item.steps[-1]
    return {
        "trajectory": item.trajectory,
        "outcome": short(item.outcome),
        "score": short(item.score),
        "success": item.score >= SUCCESS,
        "progress": short(sum(visits) / len(visits) if progress is None else progress),
        "advantage": short(of_steps[0].get("trajectory_advantage")),
        "end": "ended" if last.terminated else "cut" if last.truncated else "unfinished",
        "start": texts.number(item.steps[0].observation),
        "steps": steps,
    }


def first_visits(steps: Iterable[Step]) -> Iterable[bool]:
    """Yield of each step whether its action led to an observation that the trajectory had not seen before."""
    seen = set()
    for step in steps:
        seen.add(step.observation)
        yield step.next_observation not in seen


def short(number: float | None) -> float | None:
    """Return a number to four digits, which is what can be seen of it."""
    return None if number is None else float(f"{number:.4g}")


def _facts(metadata: Metadata | None, arm: Mapping[str, Any]) -> dict[str, str]:
    """Return what the page says of a source beside its name."""
    facts = {}
    if metadata is not None:
        facts = {"kind": metadata.kind, "policy": metadata.policy, "temperature": metadata.temperature}
    if arm:
        progress = arm.get("progress")
        facts["base"] = arm.get("base")
        facts["progress weight"] = progress["weight"] if progress else None
    return {name: str(value) for name, value in facts.items() if value is not None}
