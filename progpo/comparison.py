"""Arms against one another: success, learning curves and paired differences, with bootstrap intervals.

All differences are paired by training seed (arms of a seed share tasks, demonstrations and warm-up), and those of
evaluations also by task. See `progpo.statistics` for the intervals.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from progpo.errors import ProgpoError
from progpo.results import WARMUP, Data, Results
from progpo.statistics import area, bootstrap, nested_bootstrap, terciles

ALL = "all"
#: Thirds of the tasks of a split, by the warm-up's success.
DIFFICULTIES = ("hard", "middle", "easy")
#: Measures of an iteration: what they are called, and the column of the curves.
CURVES = {"training_success": "success", "validation_success": "validation", "failed_fraction": "failed_fraction"}
AREAS = {"training_area": "training_success", "validation_area": "validation_success"}
#: The measure of an evaluation.
SUCCESS = "success"


@dataclass(frozen=True)
class Arm:
    """An arm of an experiment.

    Attributes:
        experiment, name: its own, and its experiment's.
        settings: the recipe of its advantages, where it is known.
    """

    experiment: str
    name: str
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Study:
    """An experiment's results.

    Attributes:
        name: of the experiment.
        arms: in order, without the warm-up.
        results: what its files hold.
        curves: rows of `progpo.results.make_curves`.
    """

    name: str
    arms: tuple[Arm, ...]
    results: Results
    curves: Sequence[Data]


#: Values by seed: of one number a seed, or of one number a task.
Numbers = Mapping[int, float]
Tasks = Mapping[int, Mapping[str, float]]


def base_of(arm: Arm, arms: Sequence[Arm], named: str | None) -> Arm | None:
    """Return the arm that an arm is compared with.

    Args:
        arm: of `arms`.
        arms: of all experiments, in order.
        named: the base of all: an arm's name, taken of the same experiment, or "<experiment>/<arm>"; None: an arm with
            progress has the arm of its base estimator without it (that of equal settings, if there is one), others,
            and those without such an arm, the first arm of the experiment.
    """
    own = [other for other in arms if other.experiment == arm.experiment]
    if named is not None:
        found = next((other for other in arms if f"{other.experiment}/{other.name}" == named), None)
        found = found or next((other for other in own if other.name == named), None)
        return None if found == arm else found
    recipe = arm.settings or {}
    if recipe.get("progress"):
        plain = {**recipe, "progress": None}
        others = [other for other in own if other.settings and not other.settings.get("progress")]
        equal = [other for other in others if other.settings == plain]
        same = [other for other in others if other.settings.get("base") == recipe.get("base")]
        if equal or same:
            return (equal or same)[0]
    return None if own[0] == arm else own[0]


def compare(
    studies: Sequence[Study], base: str | None = None, confidence: float = 0.95, resamples: int = 5000
) -> list[dict[str, Any]]:
    """Return one row an experiment, arm, measure, split, iteration and subset of the tasks; and one for its difference.

    Args:
        studies: the experiments.
        base: see `base_of`.
        confidence, resamples: of the bootstrap intervals.

    Returns:
        Rows with the columns:
            experiment, arm;
            against: None: the arm's own value; else the base of which it is the difference (arm minus base);
            measure: "success" of an evaluation, a measure of `CURVES` or `AREAS`;
            split, iteration (None: none, or another one for each seed), subset ("all", a task type, a difficulty);
            seeds, tasks: how many went into it (tasks None: not by task);
            estimate: the mean over seeds; least, most: over seeds;
            low, high: the interval over seeds; low_nested, high_nested: over seeds and tasks; None: there is none.

    Raises:
        ProgpoError: a named base that is no arm.
    """
    arms = [arm for study in studies for arm in study.arms]
    if base is not None and not any(base in (arm.name, f"{arm.experiment}/{arm.name}") for arm in arms):
        there = ", ".join(dict.fromkeys(arm.name for arm in arms))
        raise ProgpoError(f"compare.base: {base!r} is not among the arms ({there})")
    measured = {}
    for study in studies:
        for arm in (Arm(study.name, WARMUP), *study.arms):
            measured[arm.experiment, arm.name] = _Measured(study, arm)
    rows = []
    for study in studies:
        for arm in (Arm(study.name, WARMUP), *study.arms):
            own = measured[arm.experiment, arm.name]
            found = [(None, key, values) for key, values in own.values().items()]
            against = None if arm.name == WARMUP else base_of(arm, arms, base)
            if against is not None:
                other = measured[against.experiment, against.name]
                label = against.name if against.experiment == arm.experiment else f"{against.experiment}/{against.name}"
                found += [(label, key, values) for key, values in own.minus(other)]
            rows += [_row(arm, label, key, *values, confidence, resamples) for label, key, values in found if values[0]]
    return rows


#: Measure, split, iteration, subset.
Key = tuple[str, str | None, int | None, str]


class _Measured:
    """What was measured of an arm, by seed."""

    def __init__(self, study: Study, arm: Arm) -> None:
        self.tasks = _by_task(study, arm.name)
        self.curves = _curves(study, arm.name)
        judged = {study.results.evaluations[key][0] for key in study.results.evaluations if key[0] == arm.name}
        self.judged = judged.pop() if len(judged) == 1 else None

    def values(self) -> dict[Key, tuple[Numbers, Tasks | None]]:
        """Return the values of each measure, by seed and, of an evaluation, by seed and task."""
        found: dict[Key, tuple[Numbers, Tasks | None]] = {}
        for (split, subset), by_task in self.tasks.items():
            found[SUCCESS, split, self.judged, subset] = (_means(by_task), by_task)
        for (measure, split), curve in self.curves.items():
            for iteration, numbers in curve.items():
                found[measure, split, iteration, ALL] = (numbers, None)
            for name in (name for name, of in AREAS.items() if of == measure):
                found[name, split, None, ALL] = (_areas(curve), None)
        return found

    def minus(self, other: "_Measured") -> Iterator[tuple[Key, tuple[Numbers, Tasks | None]]]:
        """Yield the differences of what both have: of the same seeds, tasks and iterations."""
        for (split, subset), ours in self.tasks.items():
            theirs = other.tasks.get((split, subset), {})
            paired = {
                seed: {task: ours[seed][task] - theirs[seed][task] for task in ours[seed] if task in theirs[seed]}
                for seed in ours
                if seed in theirs
            }
            paired = {seed: by_task for seed, by_task in paired.items() if by_task}
            if paired:
                iteration = self.judged if self.judged == other.judged else None
                yield (SUCCESS, split, iteration, subset), (_means(paired), paired)
        for (measure, split), curve in self.curves.items():
            theirs = other.curves.get((measure, split), {})
            both = {
                number: {
                    seed: curve[number][seed] - theirs[number][seed] for seed in curve[number] if seed in theirs[number]
                }
                for number in curve
                if number in theirs
            }
            both = {number: numbers for number, numbers in both.items() if numbers}
            for number, numbers in both.items():
                if number:  # at 0 all arms are the warm-up
                    yield (measure, split, number, ALL), (numbers, None)
            for name in (name for name, of in AREAS.items() if of == measure and both):
                yield (name, split, None, ALL), (_areas(both), None)


def _by_task(study: Study, arm: str) -> dict[tuple[str, str], dict[int, dict[str, float]]]:
    """Return success by (split, subset), seed and task."""
    levels = _difficulty(study)
    found: dict[tuple[str, str], dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for (name, seed), (_, summary) in sorted(study.results.evaluations.items(), key=lambda item: item[0]):
        if name != arm:
            continue
        for split, of_split in summary["splits"].items():
            for task, entry in _tasks(study, arm, seed, of_split).items():
                rate = entry["successes"] / entry["episodes"]
                subsets = [ALL, entry["task_type"]]
                if task in levels.get(split, {}):
                    subsets.append(DIFFICULTIES[levels[split][task]])
                for subset in subsets:
                    found[split, subset][seed][task] = rate
    return found


def _tasks(study: Study, arm: str, seed: int, of_split: Data) -> Mapping[str, Data]:
    try:
        return of_split["tasks_by_id"]
    except KeyError:
        raise ProgpoError(
            f"{study.name}: the evaluation of {arm}, seed {seed}, does not tell success by task; rerun it "
            "(snakemake --cores all --forcerun evaluate)"
        ) from None


def _difficulty(study: Study) -> dict[str, dict[str, int]]:
    """Return each task's third by the warm-up's success, pooled over seeds; of equal tasks, by that on their type."""
    of_task: dict[str, dict[str, np.ndarray]] = defaultdict(lambda: defaultdict(lambda: np.zeros(2)))
    of_type: dict[str, dict[str, np.ndarray]] = defaultdict(lambda: defaultdict(lambda: np.zeros(2)))
    type_of: dict[str, str] = {}
    for (name, seed), (_, summary) in study.results.evaluations.items():
        for split, of_split in summary["splits"].items() if name == WARMUP else ():
            for task, entry in _tasks(study, name, seed, of_split).items():
                counts = np.array([entry["successes"], entry["episodes"]])
                of_task[split][task] += counts
                of_type[split][entry["task_type"]] += counts
                type_of[task] = entry["task_type"]

    def rate(counts: np.ndarray) -> float:
        return float(counts[0] / counts[1])

    return {
        split: terciles({task: (rate(counts), rate(of_type[split][type_of[task]])) for task, counts in tasks.items()})
        for split, tasks in of_task.items()
        if len(tasks) >= len(DIFFICULTIES)
    }


def _curves(study: Study, arm: str) -> dict[tuple[str, str | None], dict[int, dict[int, float]]]:
    """Return values by (measure, split), iteration and seed; all arms begin with the warm-up's validation."""
    splits = sorted({split for summary in study.results.validations.values() for split in summary["splits"]})
    found: dict[tuple[str, str | None], dict[int, dict[int, float]]] = {}
    for measure, column in CURVES.items():
        split = " ".join(splits) if measure == "validation_success" else None
        curve: dict[int, dict[int, float]] = defaultdict(dict)
        for row in study.curves:
            if row[column] is not None and row["arm"] in (arm, WARMUP):
                curve[row["iteration"]][row["seed"]] = row[column]
        if curve and (arm == WARMUP or set(curve) != {0}):
            found[measure, split] = dict(sorted(curve.items()))
    return found


def _means(by_task: Tasks) -> Numbers:
    return {seed: float(np.mean(list(of_seed.values()))) for seed, of_seed in by_task.items()}


def _areas(curve: Mapping[int, Numbers]) -> Numbers:
    """Return the area under each seed's curve, of the seeds that have all its iterations."""
    seeds = set.intersection(*(set(numbers) for numbers in curve.values()))
    return {seed: area(list(curve), [numbers[seed] for numbers in curve.values()]) for seed in sorted(seeds)}


def _row(
    arm: Arm,
    against: str | None,
    key: Key,
    numbers: Numbers,
    by_task: Tasks | None,
    confidence: float,
    resamples: int,
) -> dict[str, Any]:
    values = np.array([numbers[seed] for seed in sorted(numbers)])
    low, high = bootstrap(values, confidence, resamples) or (None, None)
    nested = None
    if by_task is not None:
        of_seeds = [np.array([of_seed[task] for task in sorted(of_seed)]) for _, of_seed in sorted(by_task.items())]
        nested = nested_bootstrap(of_seeds, confidence, resamples)
    low_nested, high_nested = nested or (None, None)
    measure, split, iteration, subset = key
    return {
        "experiment": arm.experiment,
        "arm": arm.name,
        "against": against,
        "measure": measure,
        "split": split,
        "iteration": iteration,
        "subset": subset,
        "seeds": len(values),
        "tasks": None if by_task is None else len(set.union(*(set(of_seed) for of_seed in by_task.values()))),
        "estimate": float(values.mean()),
        "low": low,
        "high": high,
        "low_nested": low_nested,
        "high_nested": high_nested,
        "least": float(values.min()),
        "most": float(values.max()),
    }
