"""What a report shows beside the results: the settings that made them, and the time and memory that they took."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from progpo.artifacts import FOLDER_MANIFEST, SUFFIX, manifest_path, read_manifest
from progpo.errors import ProgpoError
from progpo.results import WARMUP, Results, iteration_folder
from progpo.settings.experiment import ReportStage

SHARED = "shared"
#: Stages in the order of the pipeline, as the page lists them.
STAGES = ("tasks", "demonstrate", "warmup", "rollout", "advantages", "update", "validate", "best", "evaluate")
MIB_TO_GIB = 1 / 1024

Rows = Sequence[Mapping[str, Any]]
#: Title, header, cells.
Table = tuple[str, list[str], list[list[str]]]


@dataclass(frozen=True)
class Content:
    """What figures and page are made of.

    Attributes:
        settings: which files were meant, and the confidence of intervals.
        title: what the tables are about, in a sentence.
        arms: in order, the warm-up first.
        found: the results by arm, seed and iteration.
        results: rows of success by split, arm and task type, pooled over seeds.
        curves: rows of `progpo.results.make_curves`.
        tables: as the Markdown shows them.
        recipes: the arms' advantage settings, as their manifests hold them.
        stages: the other stages' settings, likewise.
        usage: rows of time and memory by stage, as `usage` returns them.
        versions: of the package that made the artifacts.
    """

    settings: ReportStage
    title: str
    arms: Sequence[str]
    found: Results
    results: Rows
    curves: Rows
    tables: Sequence[Table]
    recipes: Mapping[str, Mapping[str, Any]]
    stages: Mapping[str, Mapping[str, Any]]
    usage: Rows
    versions: Sequence[str]


def root_of(path: Path) -> Path:
    """Return the experiment's folder that a path is, or lies in."""
    whole = path.absolute()
    return next((parent.parent for parent in whole.parents if parent.name.startswith("seed-")), whole)


def recorded_settings(root: Path, settings: ReportStage) -> dict[str, Any]:
    """Return `recipes`, `stages` and `versions` of `Content`, as manifests hold them.

    A stage's manifest is looked for with the first seed and the first iteration. Those that are missing are left out.
    """
    seed = settings.seeds[0] if settings.seeds else 0
    first = iteration_folder(root, seed, settings.arms[0], 1) if settings.arms else root
    home = iteration_folder(root, seed, WARMUP, 0)
    places = {
        "tasks": root / "tasks" / FOLDER_MANIFEST,
        "demonstrate": root / "demonstrations" / f"demonstrations.parquet{SUFFIX}",
        "warmup": home / "policy" / FOLDER_MANIFEST,
        "rollout": iteration_folder(root, seed, SHARED, 1) / f"shard-00.parquet{SUFFIX}",
        "update": first / "policy" / FOLDER_MANIFEST,
        "validate": home / "validation" / f"trajectories.parquet{SUFFIX}",
        "evaluate": home / "evaluation" / f"trajectories.parquet{SUFFIX}",
    }
    if settings.every is None:
        del places["validate"]
    manifests = {name: read_manifest(place) for name, place in places.items() if place.exists()}
    recipes = {}
    for arm in settings.arms:
        table = iteration_folder(root, seed, arm, 1) / "advantages.parquet"
        if manifest_path(table).exists():
            recipes[arm] = read_manifest(table)
    versions = sorted({manifest.version for manifest in (*manifests.values(), *recipes.values())})
    return {
        "recipes": {arm: manifest.settings for arm, manifest in recipes.items()},
        "stages": {name: manifest.settings for name, manifest in manifests.items()},
        "versions": versions,
    }


def usage(root: Path, settings: ReportStage) -> list[dict[str, Any]]:
    """Return time and memory by stage, from the files that Snakemake's `benchmark` wrote; empty where there are none.

    Only jobs of the seeds, arms and iterations that the report is of are counted.

    Returns:
        Rows of `stage`, `jobs`, `seconds` and `cpu_seconds` (sums over jobs), `longest` (seconds of a job), `memory`
        (most of a job, resident, in GiB; None: too short to be measured).

    Raises:
        ProgpoError: a file that is none of Snakemake's.
    """
    home = root / "benchmarks"
    jobs: dict[str, list[tuple[float, float, float | None]]] = defaultdict(list)
    for file in sorted(home.rglob("*.tsv")):
        parts = file.relative_to(home).with_suffix("").parts
        stage = "rollout" if parts[-1].startswith("shard-") else parts[-1]
        if stage in STAGES and _meant(parts, settings):
            jobs[stage].append(_read(file))
    rows = []
    for stage in (stage for stage in STAGES if stage in jobs):
        seconds, cpu, memory = zip(*jobs[stage], strict=True)
        known = [value for value in memory if value is not None]
        rows.append(
            {
                "stage": stage,
                "jobs": len(seconds),
                "seconds": sum(seconds),
                "cpu_seconds": sum(cpu),
                "longest": max(seconds),
                "memory": max(known) * MIB_TO_GIB if known else None,
            }
        )
    return rows


def _meant(parts: Sequence[str], settings: ReportStage) -> bool:
    """Return whether the report is of a job, by its place: `seed-<seed>/<arm>/iteration-<n>/<job>`, or part of it."""
    if not parts[0].startswith("seed-"):
        return True
    seed, arm = parts[0].removeprefix("seed-"), parts[1]
    iterations = [int(part[10:]) for part in parts if part.startswith("iteration-")]
    return (
        seed in map(str, settings.seeds)
        and arm in (*settings.arms, WARMUP, SHARED)
        and all(iteration <= settings.iterations for iteration in iterations)
    )


def _read(file: Path) -> tuple[float, float, float | None]:
    """Return a job's seconds, CPU seconds and most resident memory in MiB."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            row = next(csv.DictReader(opened, delimiter="\t"))
        cpu, memory = (_number(row[name]) for name in ("cpu_time", "max_rss"))
        return float(row["s"]), cpu or 0.0, memory
    except (OSError, StopIteration, KeyError, ValueError) as error:
        raise ProgpoError(f"{file}: not a benchmark of Snakemake ({error!r}); delete it") from None


def _number(text: str) -> float | None:
    """Return a measured number; None where a job was too short to be looked at."""
    return None if text in ("-", "NA", "") else float(text)
