"""An experiment's curves given to an experiment tracker: TensorBoard, Weights & Biases, or trackio.

Stages are jobs of their own, so none of them holds a tracker open. What they measured lies in their files, and goes to
the tracker at once, afterwards: one tracker run for each arm and seed, its iterations as steps, and one for each
seed's warm-up. Trackers are spoken to through accelerate (`accelerate.tracking`).
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from progpo.artifacts import atomic_folder, check_file, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.report.collect import recorded_settings
from progpo.results import UPDATE_COLUMNS, WARMUP, Results, existing, expected, iteration_folder, load, make_curves
from progpo.settings.experiment import ExportStage, ReportStage

#: Columns of the curves that are no numbers of an iteration.
KEYS = ("arm", "seed", "iteration", "alarms")
#: Where trackio finds the servers that it sends to.
TRACKIO_SERVERS = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")
#: What is listed in the tracker's folder.
LISTED = "tracking.json"
#: What the points of the warm-up's curve hold, but for their steps.
WARMUP_POINTS = ("loss", "action_loss", "observation_loss", "gradient_norm", "learning_rate", "tokens")

#: Step, and values by name.
Points = Sequence[tuple[int, Mapping[str, float]]]


@dataclass(frozen=True)
class TrackerRun:
    """One run, as a tracker shows it.

    Attributes:
        name: `<arm>-seed-<seed>`.
        arm: what runs are grouped by.
        config: settings, by dotted names.
        points: in the order of their steps.
    """

    name: str
    arm: str
    config: Mapping[str, str | int | float | bool]
    points: Points


def run(settings: ExportStage, root: Path, tracker: str, folder: Path, strict: bool = False) -> list[str]:
    """Give an experiment's curves to a tracker; return the names of its runs there.

    Args:
        settings: which of the experiment's files are meant, if not all; and whether anything may leave the machine.
        root: the experiment's folder.
        tracker: "tensorboard", "wandb" or "trackio".
        folder: what the tracker writes; made anew. The tracker's project is called as the experiment.
        strict: whether files must be listed in manifests.

    Raises:
        ProgpoError: the tracker's package is not installed, or there is nothing to give.
    """
    if find_spec(tracker) is None:
        raise ProgpoError(
            f"export: {tracker} is not installed; run: pip install 'progpo[{tracker}]', or {tracker} alone"
        )
    meant = settings.experiment
    files = existing(root) if meant is None else expected(root, meant)
    runs = list(tracker_runs(root, load(files, strict), meant, strict))
    project = root.resolve().name if meant is None else meant.experiment
    with atomic_folder(folder) as temporary:
        for item in runs:
            with _opened(tracker, project, item, temporary, settings.online) as opened:
                for step, values in item.points:
                    opened.log(dict(values), step=step)
        listed = {"tracker": tracker, "project": project, "runs": [item.name for item in runs]}
        write_json(temporary / LISTED, listed)
        written = [path for path in temporary.rglob("*") if path.is_file() and not path.is_symlink()]
        write_manifest(temporary, "export", settings.model_dump(mode="json"), written, files, at=folder)
    return [item.name for item in runs]


def tracker_runs(root: Path, found: Results, meant: ReportStage | None, strict: bool = False) -> Iterator[TrackerRun]:
    """Yield the runs: each seed's warm-up, then its arms.

    Args:
        root: the experiment's folder.
        found: its results.
        meant: the order of its arms; None: by name.
        strict: whether the warm-up's curve must be listed in a manifest.
    """
    arms = found.order(meant.arms if meant else ())
    curves = make_curves(found, arms)
    seeds = sorted({seed for _, seed in found.evaluations} | {row["seed"] for row in curves})
    for seed in seeds:
        for arm in arms:
            own = [row for row in curves if row["seed"] == seed and row["arm"] in (arm, WARMUP)]
            if arm == WARMUP:
                points = _warmup(iteration_folder(root, seed, WARMUP, 0), found, seed, own, strict)
            else:
                points = _arm(found, arm, seed, own)
            if points:
                named = ReportStage(experiment=root.name, arms=(arm,), seeds=(seed,))
                recorded = recorded_settings(root, named)
                sections = {**recorded["stages"], "advantages": recorded["recipes"].get(arm)}
                config = {"arm": arm, "seed": seed, **_flat(sections)}
                yield TrackerRun(f"{arm}-seed-{seed}", arm, config, points)


def _arm(found: Results, arm: str, seed: int, rows: Sequence[Mapping[str, Any]]) -> Points:
    """Return an arm's values by iteration; they begin with the warm-up's validation, at 0."""
    points: dict[int, dict[str, float]] = {}
    for row in rows:
        values = {_name(column): row[column] for column in row if column not in KEYS and row[column] is not None}
        points[row["iteration"]] = values
    if not any(points):
        return []
    if (arm, seed) in found.evaluations:
        iteration, summary = found.evaluations[arm, seed]
        points.setdefault(max(points) if iteration is None else iteration, {}).update(_evaluated(summary))
    return sorted(points.items())


def _name(column: str) -> str:
    """Return what a column of the curves is called at a tracker's, which groups names by what stands before `/`."""
    if column == "validation":
        return "validation/success"
    return f"{'update' if column in UPDATE_COLUMNS else 'rollout'}/{column}"


def _warmup(home: Path, found: Results, seed: int, rows: Sequence[Mapping[str, Any]], strict: bool) -> Points:
    """Return the warm-up's values by optimiser step; success at the last."""
    file, curve = home / "metrics.json", []
    if file.exists():
        check_file(file, home / "policy", strict)
        curve = json.loads(file.read_text(encoding="utf-8")).get("curve", [])
    points = [
        (point["step"], {f"warmup/{name}": point[name] for name in WARMUP_POINTS if point.get(name) is not None})
        for point in curve
    ]
    last = {}
    for row in rows:
        if row["validation"] is not None:
            last["validation/success"] = row["validation"]
    if (WARMUP, seed) in found.evaluations:
        last |= _evaluated(found.evaluations[WARMUP, seed][1])
    if last and points:
        points[-1] = (points[-1][0], points[-1][1] | last)
    elif last:
        points = [(0, last)]
    return points


def _evaluated(summary: Mapping[str, Any]) -> dict[str, float]:
    return {
        f"evaluation/{split}{kind and f'/{kind}'}": part["successes"] / part["episodes"]
        for split, of_split in summary["splits"].items()
        for kind, part in {"": of_split, **of_split["types"]}.items()
    }


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted names; what no tracker can hold, as text."""
    found = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value if isinstance(value, str | int | float) else str(value)
    return found


@contextmanager
def _opened(tracker: str, project: str, item: TrackerRun, folder: Path, online: bool) -> Iterator[Any]:
    """Open a run at a tracker's, by accelerate; it is finished in any case."""
    from accelerate import PartialState, tracking

    # Its loggers want it.
    PartialState(cpu=True)
    place = os.fspath(folder)
    if tracker == "tensorboard":
        opened = tracking.TensorBoardTracker(item.name, place)
    elif tracker == "wandb":
        # It would tell how to send what it wrote, from a folder that is renamed when all is written.
        os.environ.setdefault("WANDB_SILENT", "true")
        opened = tracking.WandBTracker(
            project,
            name=item.name,
            group=item.arm,
            config=dict(item.config),
            dir=place,
            mode="online" if online else "offline",
        )
    else:
        # Read when trackio is imported.
        os.environ["TRACKIO_DIR"] = place
        for name in () if online else TRACKIO_SERVERS:
            os.environ.pop(name, None)
        opened = tracking.TrackioTracker(project, name=item.name, config=dict(item.config))
    print(f"export: {tracker}: {item.name}, {len(item.points)} steps", file=sys.stderr)
    opened.start()
    try:
        if tracker == "tensorboard":
            opened.store_init_configuration(dict(item.config))
        yield opened
    finally:
        opened.finish()
