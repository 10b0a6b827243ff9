"""Wilson's interval against published values."""

import pytest

from progpo.statistics import wilson


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
