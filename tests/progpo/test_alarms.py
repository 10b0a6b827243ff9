"""When an alarm is raised, and when not."""

from progpo.alarms import (
    ENTROPY_SHARE,
    NO_SIGNAL_MOST,
    NO_SIGNAL_RISE,
    RATIO_DEVIATION,
    VALID_DROP,
    of_rollouts,
    of_update,
)


def names(alarms: list[dict]) -> list[str]:
    return [alarm["alarm"] for alarm in alarms]


def test_valid_actions_that_fall() -> None:
    first = {"valid_action_rate": 0.9}
    assert of_rollouts({"valid_action_rate": 0.9 - VALID_DROP + 0.01}, first) == []
    (alarm,) = of_rollouts({"valid_action_rate": 0.9 - VALID_DROP - 0.01}, first)
    assert alarm["alarm"] == "valid_actions"
    assert (alarm["value"], alarm["limit"]) == (0.9 - VALID_DROP - 0.01, 0.9 - VALID_DROP)
    assert alarm["message"] == "valid actions fell from 90.0% to 79.0%"
    assert of_rollouts({"valid_action_rate": 0.0}, None) == []
    assert of_rollouts({"valid_action_rate": None}, first) == []


def test_groups_without_signal_that_become_more() -> None:
    first = {"no_signal_fraction": 0.25}
    assert of_rollouts({"no_signal_fraction": 0.25 + NO_SIGNAL_RISE}, first) == []
    assert names(of_rollouts({"no_signal_fraction": 0.25 + NO_SIGNAL_RISE + 0.01}, first)) == ["no_signal"]
    assert names(of_rollouts({"no_signal_fraction": 1.0}, None)) == ["no_signal"]
    assert of_rollouts({"no_signal_fraction": NO_SIGNAL_MOST}, None) == []
    # Where it was high from the start, there is no room to rise by so much.
    assert names(of_rollouts({"no_signal_fraction": 0.95}, {"no_signal_fraction": 0.85})) == ["no_signal"]


def test_entropy_that_collapses() -> None:
    first = {"entropy": 0.8}
    assert of_update({"entropy": 0.8 * ENTROPY_SHARE}, first) == []
    assert names(of_update({"entropy": 0.79 * ENTROPY_SHARE}, first)) == ["entropy"]
    assert of_update({"entropy": 0.0}, None) == []
    assert of_update({"entropy": None}, first) == []
    assert of_update({"entropy": 0.0}, {"entropy": None}) == []


def test_a_ratio_away_from_1_before_any_step() -> None:
    assert of_update({"ratio_deviation": RATIO_DEVIATION}, None) == []
    (alarm,) = of_update({"ratio_deviation": 2 * RATIO_DEVIATION}, None)
    assert alarm["alarm"] == "ratio"
    assert "precision" in alarm["message"]
