"""Paired differences, areas and difficulties, on results whose values are known."""

import numpy as np
import pytest

from progpo.comparison import Arm, Study, base_of, compare
from progpo.errors import ProgpoError
from progpo.results import Results, make_curves
from progpo.statistics import bootstrap, nested_bootstrap

PROGRESS = {"weight": 0.3}
ARMS = [
    Arm("exp", "grpo", {"base": "grpo", "gamma": 0.95, "progress": None}),
    Arm("exp", "gigpo", {"base": "gigpo", "gamma": 0.9, "progress": None}),
    Arm("exp", "gigpo-95", {"base": "gigpo", "gamma": 0.95, "progress": None}),
    Arm("exp", "pro-grpo", {"base": "grpo", "gamma": 0.95, "progress": PROGRESS}),
    Arm("exp", "pro-gigpo", {"base": "gigpo", "gamma": 0.95, "progress": PROGRESS}),
    Arm("exp", "pro-other", {"base": "gigpo", "gamma": 0.5, "progress": PROGRESS}),
    Arm("exp", "pro-hgpo", {"base": "hgpo", "gamma": 0.95, "progress": PROGRESS}),
    Arm("exp", "unknown"),
    Arm("other", "grpo", {"base": "grpo", "gamma": 0.95, "progress": None}),
]


def test_each_arm_has_its_base() -> None:
    bases = {arm.name: base_of(arm, ARMS, None) for arm in ARMS[:-1]}
    assert {name: base and base.name for name, base in bases.items()} == {
        "grpo": None,
        "gigpo": "grpo",
        "gigpo-95": "grpo",
        "pro-grpo": "grpo",
        "pro-gigpo": "gigpo-95",
        "pro-other": "gigpo",
        "pro-hgpo": "grpo",
        "unknown": "grpo",
    }
    assert base_of(ARMS[-1], ARMS, None) is None


def test_a_named_base_is_everyone_s() -> None:
    assert base_of(ARMS[4], ARMS, "gigpo") == ARMS[1]
    assert base_of(ARMS[1], ARMS, "gigpo") is None
    assert base_of(ARMS[-1], ARMS, "gigpo") is None
    assert base_of(ARMS[-1], ARMS, "exp/gigpo") == ARMS[1]
    with pytest.raises(ProgpoError, match=r"'ppo' is not among the arms \(grpo, progpo\)"):
        compare([study({"grpo": {}, "progpo": {}})], base="ppo")


def summary(successes: dict[str, int], episodes: int = 2) -> dict:
    """An evaluation of a split "valid": the name of a task begins with its type."""
    tasks = {
        name: {"task_type": name.partition("-")[0], "episodes": episodes, "successes": count}
        for name, count in successes.items()
    }
    return {
        "splits": {
            "valid": {"episodes": episodes * len(tasks), "successes": sum(successes.values()), "tasks_by_id": tasks}
        }
    }


def study(evaluations: dict, validations: dict | None = None, rollouts: dict | None = None, name: str = "exp") -> Study:
    """Evaluations by arm and seed; validated rates by arm, seed, iteration; success and failed fraction likewise."""
    results = Results()
    for arm, by_seed in evaluations.items():
        for seed, successes in by_seed.items():
            results.evaluations[arm, seed] = (0 if arm == "warmup" else 4, summary(successes))
    for key, percent in (validations or {}).items():
        results.validations[key] = {"splits": {"aside": {"episodes": 100, "successes": percent}}}
    for key, (success, failed) in (rollouts or {}).items():
        shares = dict.fromkeys(("first_visit_rate", "valid_action_rate"), 0.5)
        results.rollouts[key] = {"success_rate": success, "failed_fraction": failed, **shares}
    arms = tuple(Arm(name, arm, {"base": arm, "progress": None}) for arm in evaluations if arm != "warmup")
    return Study(name, arms, results, make_curves(results, results.order([arm.name for arm in arms])))


def find(rows: list[dict], **wanted) -> dict:
    found = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, len(found))
    return found[0]


TASKS = [f"{kind}-{number}" for kind in ("pick", "heat") for number in range(3)]
WARMUP = {"pick-0": 2, "pick-1": 1, "pick-2": 0, "heat-0": 0, "heat-1": 0, "heat-2": 1}


def evaluations() -> dict:
    rng = np.random.default_rng(0)
    arms = {arm: {seed: {task: int(rng.integers(3)) for task in TASKS} for seed in (0, 1, 2)} for arm in ("a", "b")}
    return {"warmup": {0: WARMUP, 1: WARMUP, 2: WARMUP}, **arms}


def test_success_and_its_paired_difference() -> None:
    given = evaluations()
    rows = compare([study(given)], confidence=0.9, resamples=500)
    for against, seeds in [(None, given["b"]), ("a", None)]:
        rates = {
            seed: np.array(
                [(given["b"][seed][task] - (0 if seeds else given["a"][seed][task])) / 2 for task in sorted(TASKS)]
            )
            for seed in (0, 1, 2)
        }
        row = find(rows, arm="b", measure="success", against=against, subset="all")
        means = np.array([rates[seed].mean() for seed in (0, 1, 2)])
        assert row["estimate"] == pytest.approx(means.mean())
        assert (row["low"], row["high"]) == bootstrap(means, 0.9, 500)
        assert (row["low_nested"], row["high_nested"]) == nested_bootstrap([rates[s] for s in (0, 1, 2)], 0.9, 500)
        assert (row["seeds"], row["tasks"], row["iteration"], row["split"]) == (3, 6, 4, "valid")
        assert (row["least"], row["most"]) == (means.min(), means.max())
        heat = find(rows, arm="b", measure="success", against=against, subset="heat")
        assert heat["estimate"] == pytest.approx(np.mean([rates[seed][:3].mean() for seed in (0, 1, 2)]))
    assert not [row for row in rows if row["arm"] in ("a", "warmup") and row["against"]]


def test_difficulty_is_the_warm_up_s_success() -> None:
    rows = compare([study(evaluations())], resamples=100)
    # Rates 0 at heat-0, heat-1 (their type: 1/6) and pick-2 (1/2); then heat-2, pick-1; pick-0 is sure.
    for subset, tasks in {
        "hard": ["heat-0", "heat-1"],
        "middle": ["pick-2", "heat-2"],
        "easy": ["pick-1", "pick-0"],
    }.items():
        row = find(rows, arm="warmup", measure="success", subset=subset)
        assert row["estimate"] == pytest.approx(np.mean([WARMUP[task] / 2 for task in tasks]))
        assert row["tasks"] == 2


def test_only_what_both_have_is_paired() -> None:
    given = evaluations()
    del given["a"][2]
    del given["a"][0]["pick-0"]
    row = find(compare([study(given)], resamples=100), arm="b", against="a", measure="success", subset="all")
    zero = [(given["b"][0][task] - given["a"][0][task]) / 2 for task in TASKS if task != "pick-0"]
    one = [(given["b"][1][task] - given["a"][1][task]) / 2 for task in TASKS]
    assert row["seeds"] == 2
    assert row["estimate"] == pytest.approx((np.mean(zero) + np.mean(one)) / 2)


def test_curves_and_areas() -> None:
    validations = {("warmup", seed, 0): 10 for seed in (0, 1)}
    validations |= {("a", seed, n): 10 + 10 * n for seed in (0, 1) for n in (2, 4)}
    validations |= {("b", seed, n): 10 + 20 * n + seed for seed in (0, 1) for n in (2, 4)}
    rollouts = {(arm, 0, n): (0.1 * n * (1 + (arm == "b")), 1 - 0.1 * n) for arm in ("a", "b") for n in (1, 2, 3)}
    task = {"pick-0": 1}
    given = {"warmup": {0: task, 1: task}, "a": {0: task, 1: task}, "b": {0: task, 1: task}}
    rows = compare([study(given, validations, rollouts)], resamples=100)
    assert find(rows, arm="a", measure="validation_success", iteration=0, against=None)["estimate"] == pytest.approx(
        0.1
    )
    assert find(rows, arm="b", measure="validation_success", iteration=4, against="a")["estimate"] == pytest.approx(
        0.405
    )
    assert find(rows, arm="b", measure="failed_fraction", iteration=3, against=None)["estimate"] == pytest.approx(0.7)
    assert find(rows, arm="b", measure="failed_fraction", iteration=3, against="a")["estimate"] == pytest.approx(0)
    # The mean heights of 10, 30, 50 and of 10, 50.5, 90.5.
    assert find(rows, arm="a", measure="validation_area", against=None)["estimate"] == pytest.approx(0.3)
    row = find(rows, arm="b", measure="validation_area", against="a")
    assert row["estimate"] == pytest.approx((20.5 + 40.5 / 2) / 2 / 100)
    assert (row["split"], row["seeds"], row["iteration"], row["low_nested"]) == ("aside", 2, None, None)
    area = find(rows, arm="b", measure="training_area", against="a")
    assert area["estimate"] == pytest.approx(0.2)
    assert (area["seeds"], area["low"]) == (1, None)
    assert not [row for row in rows if row["against"] and row["iteration"] == 0]


def test_several_experiments_side_by_side() -> None:
    rows = compare([study(evaluations()), study(evaluations(), name="more")], base="exp/a", resamples=100)
    assert find(rows, experiment="more", arm="a", against="exp/a", measure="success", subset="all")["estimate"] == 0
    assert find(rows, experiment="exp", arm="b", against="a", measure="success", subset="all")["seeds"] == 3


def test_an_evaluation_without_tasks_is_named() -> None:
    given = study(evaluations())
    del given.results.evaluations["a", 1][1]["splits"]["valid"]["tasks_by_id"]
    with pytest.raises(ProgpoError, match="of a, seed 1, does not tell success by task; rerun it"):
        compare([given])
