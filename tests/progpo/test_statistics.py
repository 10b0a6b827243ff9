"""Intervals against published or calculated values; areas and thirds."""

import numpy as np
import pytest

from progpo.statistics import area, bootstrap, nested_bootstrap, terciles, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe (1998), Statistics in Medicine 17:857, table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_all_successes_and_no_trials() -> None:
    low, high = wilson(20, 20)
    assert high == 1.0
    assert low == pytest.approx(1 - 0.1611, abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


def test_bootstrap_of_two_values_is_known() -> None:
    # Two draws of 0 and 1: the mean is 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    assert bootstrap(np.array([0.0, 1.0]), 0.95) == (0.0, 1.0)
    assert bootstrap(np.array([0.0, 1.0]), 0.4) == (0.5, 0.5)
    assert bootstrap(np.array([0.0]), 0.95) is None
    assert bootstrap(np.array([0.3, 0.3, 0.3])) == pytest.approx((0.3, 0.3))


def test_bootstrap_is_near_the_normal_interval_for_many_values() -> None:
    values = np.random.default_rng(0).normal(2, 3, 400)
    spread = 1.959964 * values.std() / 20
    low, high = bootstrap(values, resamples=20000)
    assert (low, high) == pytest.approx((values.mean() - spread, values.mean() + spread), abs=0.03 * 2 * spread)


def test_nested_bootstrap_has_the_variance_of_both_levels() -> None:
    rng = np.random.default_rng(1)
    values = [rng.normal(rng.normal(0, 0.3), 1, 50) for _ in range(40)]
    means = np.array([of_seed.mean() for of_seed in values])
    # Var = (between the seeds' means + mean of the within-variances / tasks) / seeds.
    variance = (means.var() + np.mean([of_seed.var() for of_seed in values]) / 50) / 40
    spread = 1.959964 * np.sqrt(variance)
    low, high = nested_bootstrap(values, resamples=20000)
    assert (low, high) == pytest.approx((means.mean() - spread, means.mean() + spread), abs=0.04 * 2 * spread)
    narrow = bootstrap(means, resamples=20000)
    assert high - low > narrow[1] - narrow[0]


def test_nested_bootstrap_of_one_seed_is_over_its_tasks() -> None:
    values = np.random.default_rng(2).normal(size=200)
    low, high = nested_bootstrap([values], resamples=20000)
    spread = 1.959964 * values.std() / np.sqrt(200)
    assert (low, high) == pytest.approx((values.mean() - spread, values.mean() + spread), abs=0.03 * 2 * spread)
    assert nested_bootstrap([np.array([1.0])]) is None
    assert nested_bootstrap([]) is None
    assert nested_bootstrap([np.array([1.0, 2.0]), np.array([])]) is None


def test_intervals_are_the_same_each_time() -> None:
    values = [np.arange(5.0), np.arange(4.0), np.arange(6.0)]
    assert nested_bootstrap(values) == nested_bootstrap(values)
    assert bootstrap(values[0]) == bootstrap(values[0])


def test_area_is_the_mean_height() -> None:
    assert area([0, 1, 2], [0.0, 1.0, 0.0]) == pytest.approx(0.5)
    assert area([0, 5, 20], [0.2, 0.4, 0.4]) == pytest.approx((5 * 0.3 + 15 * 0.4) / 20)
    assert area([7], [0.3]) == 0.3


def test_terciles_are_ordered_by_value_then_name() -> None:
    values = {"e": (0.0, 0.5), "d": (0.0, 0.1), "c": (1.0, 0.0), "b": (0.5, 0.0), "a": (0.5, 0.0), "f": (0.0, 0.1)}
    assert terciles(values) == {"d": 0, "f": 0, "e": 1, "a": 1, "b": 2, "c": 2}
    assert terciles(dict.fromkeys("abcd", (0.0,))) == {"a": 0, "b": 0, "c": 1, "d": 2}
