"""An experiment's results on disk: which files there are, whose they are, and what is in them."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from progpo.artifacts import FOLDER_MANIFEST, check_file
from progpo.errors import ProgpoError
from progpo.settings.experiment import ReportStage, validated_iterations

WARMUP = "warmup"
#: Where a file lies tells which seed, arm and iteration it is of.
PLACE = re.compile(
    r"seed-(?P<seed>\d+)/(?P<arm>[^/]+)(/iteration-(?P<iteration>\d+)|/(?P<best>best))?"
    r"(/(?P<what>evaluation|validation))?/[^/]+$"
)
#: The stages' JSON files, and the artifact beside each whose manifest lists it.
OWNERS = {
    "summary.json": "trajectories.parquet",
    "advantages.json": "advantages.parquet",
    "update.json": f"policy/{FOLDER_MANIFEST}",
    "best.json": "best.json",
}

#: Columns of the curves that are of the rollouts.
ROLLOUT_COLUMNS = (
    "success",
    "failed_fraction",
    "triggered_fraction",
    "no_signal_fraction",
    "first_visit_rate",
    "anchor_size",
    "valid_rate",
    "cut_prompts",
    "steps",
)
#: Columns of the curves that are of the update, and the metrics for them.
UPDATE_COLUMNS = {
    "entropy": "entropy",
    "kl": "kl",
    "policy_kl": "policy_kl",
    "clip_fraction": "clip_fraction",
    "gradient_norm": "gradient_norm",
    "ratio": "ratio_mean",
    "ratio_deviation": "ratio_deviation",
}
SUMMARY = "summary.json"
BEST = "best.json"

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Whose file it is.

    Attributes:
        arm: or "warmup".
        seed: of training.
        iteration: 0: none; None: the arm's best, whichever that is.
        what: "evaluation" or "validation", of their files.
    """

    arm: str
    seed: int
    iteration: int | None
    what: str | None

    @classmethod
    def of(cls, path: Path) -> "Place":
        """Tell it from the path; raises ProgpoError where that is not in an experiment's folders."""
        found = PLACE.search(path.absolute().as_posix())
        if found is None:
            raise ProgpoError(f"{path}: not in an experiment's folders (…/seed-0/<arm>/…): whose is it?")
        iteration = None if found["best"] else int(found["iteration"] or 0)
        return cls(found["arm"], int(found["seed"]), iteration, found["what"])


@dataclass
class Results:
    """What the files hold.

    Attributes:
        evaluations: by (arm, seed): the iteration that was evaluated (0: the warm-up; None: not known), its summary.
        validations: summaries by (arm, seed, iteration); the warm-up's by ("warmup", seed, 0).
        rollouts: metrics of `progpo advantages` by (arm, seed, iteration).
        updates: metrics of `progpo update` by (arm, seed, iteration).
        best: the best iteration by (arm, seed).
    """

    evaluations: dict[tuple[str, int], tuple[int | None, Data]] = field(default_factory=dict)
    validations: dict[tuple[str, int, int], Data] = field(default_factory=dict)
    rollouts: dict[tuple[str, int, int], Data] = field(default_factory=dict)
    updates: dict[tuple[str, int, int], Data] = field(default_factory=dict)
    best: dict[tuple[str, int], int] = field(default_factory=dict)

    def order(self, arms: Sequence[str]) -> list[str]:
        """Return the arms that there are: the warm-up, then those given in their order, then others by name."""
        there = {key[0] for table in (self.evaluations, self.validations, self.rollouts) for key in table}
        known = [arm for arm in (WARMUP, *arms) if arm in there]
        return [*known, *sorted(there - set(known))]


def read_json(path: Path, strict: bool) -> Data:
    """Read a stage's JSON file after a check of the manifest that lists it; raises ProgpoError."""
    owner = OWNERS.get(path.name)
    if owner is None:
        raise ProgpoError(f"{path}: none of {', '.join(OWNERS)}, which are what stages report")
    check_file(path, path.parent / owner, strict)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProgpoError(f"{path}: not readable ({error}); rerun its stage") from None
    if path.name != SUMMARY and not isinstance(data, dict):
        raise ProgpoError(f"{path}: holds no metrics; rerun its stage")
    return data


def read_metrics(path: Path | None, strict: bool) -> Data | None:
    """Read an iteration's metrics, if a file is named."""
    return None if path is None else read_json(path, strict)


def load(paths: Iterable[Path], strict: bool = False) -> Results:
    """Read results.

    Args:
        paths: files of `OWNERS`, in an experiment's folders, in any order.
        strict: whether each must be listed in a manifest; one that is there is always checked.

    Raises:
        ProgpoError: a file that is not what it should be, or two of the same arm, seed and iteration.
    """
    results = Results()
    sources: dict[tuple[Any, ...], Path] = {}
    for path in paths:
        place = Place.of(path)
        data = read_json(path, strict)
        evaluated = path.name == SUMMARY and place.what != "validation"
        # An arm is judged once a seed, by whichever iteration was evaluated; other files are one an iteration.
        key = (path.name, place.what, place.arm, place.seed, None if evaluated else place.iteration)
        if key in sources:
            raise ProgpoError(f"{sources[key]}, {path}: both are of {place.arm}, seed {place.seed}; give one of them")
        sources[key] = path
        if path.name == SUMMARY:
            _check_summary(path, data)
        of_seed, of_iteration = (place.arm, place.seed), (place.arm, place.seed, place.iteration)
        if evaluated:
            results.evaluations[of_seed] = (place.iteration, data)
        elif path.name == SUMMARY:
            results.validations[of_iteration] = data
        elif path.name == BEST:
            results.best[of_seed] = _best(path, data)
        else:
            (results.rollouts if path.name == "advantages.json" else results.updates)[of_iteration] = data
    for of_seed, (iteration, data) in results.evaluations.items():
        if iteration is None:
            results.evaluations[of_seed] = (results.best.get(of_seed), data)
    return results


def _check_summary(path: Path, data: Data) -> None:
    """Refuse a summary that lacks what is read of it."""
    try:
        for of_split in data["splits"].values():
            for part in (of_split, *of_split["types"].values(), *of_split.get("tasks_by_id", {}).values()):
                if not 0 <= part["successes"] <= part["episodes"] or part["episodes"] < 1:
                    raise ValueError(f"{part['successes']} successes in {part['episodes']} episodes")
            for part in (of_split, *of_split["types"].values()):
                float(part["steps"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ProgpoError(f"{path}: not an evaluation's summary ({what}); rerun `progpo evaluate`") from None


def _best(path: Path, data: Data) -> int:
    try:
        return int(data["iteration"])
    except (KeyError, TypeError, ValueError):
        raise ProgpoError(f"{path}: names no iteration; rerun `progpo best`") from None


def make_curves(found: Results, arms: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row an arm, seed and iteration, in that order; the warm-up's, where it was validated, is number 0.

    Columns: `success` of all sampled trajectories (of those in dropped groups too), `failed_fraction`,
    `triggered_fraction`, `no_signal_fraction` (of groups), `first_visit_rate`, `anchor_size` (steps), `valid_rate`,
    `cut_prompts` (share of prompts that left out steps for want of room), `steps` (of a trajectory); of the update
    `entropy` (nats a token), `kl` to the warm-up, `policy_kl` to the sampling policy, `clip_fraction`,
    `gradient_norm`, `ratio` (mean of the first epoch), `ratio_deviation`; success in `validation`; names of the
    `alarms`. None: not measured.
    """
    order = {arm: place for place, arm in enumerate(arms)}
    rows = []
    keys = {*found.rollouts, *found.validations}
    for key in sorted(keys, key=lambda key: (order[key[0]], key)):
        rollouts, update, summary = found.rollouts.get(key), found.updates.get(key, {}), found.validations.get(key)
        parts = list(summary["splits"].values()) if summary else []
        episodes = sum(part["episodes"] for part in parts)
        alarms = [alarm["alarm"] for metrics in (rollouts or {}, update) for alarm in metrics.get("alarms", ())]
        rows.append(
            {
                **dict(zip(("arm", "seed", "iteration"), key, strict=True)),
                **_of_rollouts(key, rollouts),
                **{column: update.get(name) for column, name in UPDATE_COLUMNS.items()},
                "validation": sum(part["successes"] for part in parts) / episodes if episodes else None,
                "alarms": " ".join(alarms),
            }
        )
    return rows


def _of_rollouts(key: tuple[str, int, int], metrics: Data | None) -> Data:
    if metrics is None:
        return dict.fromkeys(ROLLOUT_COLUMNS)
    try:
        triggered, groups = metrics.get("triggered_groups"), metrics.get("groups")
        cut, steps = metrics.get("cut_prompts"), metrics.get("steps")
        values = (
            metrics.get("drawn_success_rate", metrics["success_rate"]),
            metrics["failed_fraction"],
            triggered / groups if groups and triggered is not None else None,
            metrics.get("no_signal_fraction"),
            metrics["first_visit_rate"],
            metrics.get("mean_anchor_size"),
            metrics["valid_action_rate"],
            cut / steps if steps and cut is not None else None,
            metrics.get("mean_steps"),
        )
        return dict(zip(ROLLOUT_COLUMNS, values, strict=True))
    except KeyError as error:
        arm, seed, iteration = key
        raise ProgpoError(
            f"advantages.json of {arm}, seed {seed}, iteration {iteration}: lacks {error}; "
            "was it made by `progpo advantages`?"
        ) from None


def warmup_round(number: int, rounds: int) -> str:
    """Return where, below a seed's folder, the policy after so many of the rounds of corrections lies."""
    return WARMUP if number == rounds else f"{WARMUP}/round-{number}"


def iteration_folder(root: Path, seed: int, arm: str, iteration: int) -> Path:
    """Return an iteration's folder; the warm-up's for iteration 0."""
    return root / f"seed-{seed}" / (WARMUP if iteration == 0 else f"{arm}/iteration-{iteration:03d}")


def validations(root: Path, settings: ReportStage, seed: int, arm: str) -> list[Path]:
    """Return the validations that an arm's best iteration is chosen by."""
    return [
        iteration_folder(root, seed, arm, iteration) / "validation" / SUMMARY
        for iteration in validated_iterations(settings.iterations, settings.every)
    ]


def expected(root: Path, settings: ReportStage) -> list[Path]:
    """Return the files that an experiment's report is made of.

    Args:
        root: the experiment's folder.
        settings: which seeds, arms and iterations.
    """
    files = []
    for seed in settings.seeds:
        warmup = iteration_folder(root, seed, WARMUP, 0)
        files.append(warmup / "evaluation" / SUMMARY)
        if settings.every is not None:
            files.append(warmup / "validation" / SUMMARY)
        for arm in settings.arms:
            of_arm = root / f"seed-{seed}" / arm
            for number in range(1, settings.iterations + 1):
                folder = iteration_folder(root, seed, arm, number)
                files += [folder / "advantages.json", folder / "update.json"]
            if settings.every is not None:
                files += [*validations(root, settings, seed, arm), of_arm / BEST]
            best = settings.of == "best"
            judged = of_arm / "best" if best else iteration_folder(root, seed, arm, settings.iterations)
            files.append(judged / "evaluation" / SUMMARY)
    return files


def existing(root: Path) -> list[Path]:
    """Return the result files that lie in an experiment's folder.

    Of an arm's evaluations it is the latest iteration's, or where there is only that, the best one's.

    Raises:
        ProgpoError: no such folder, or none in it.
    """
    if not root.is_dir():
        raise ProgpoError(f"{root}: no such folder")
    files = [path for name in OWNERS for path in root.glob(f"seed-*/**/{name}") if PLACE.search(path.as_posix())]
    latest: dict[tuple[str, int], tuple[int, Path]] = {}
    others = []
    for path in sorted(files):
        place = Place.of(path)
        if path.name == SUMMARY and place.what == "evaluation":
            candidate = (-1 if place.iteration is None else place.iteration, path)
            latest[place.arm, place.seed] = max(latest.get((place.arm, place.seed), candidate), candidate)
        else:
            others.append(path)
    if not latest:
        raise ProgpoError(f"{root}: holds no evaluation (seed-*/<arm>/…/evaluation/summary.json)")
    return [*(path for _, path in latest.values()), *others]
