"""Signs that training goes wrong, as one iteration's metrics show them, some beside the first iteration's.

An alarm is a mapping, JSON-able: `alarm` its name, `value` what was found, `limit` what it should not have passed,
`message` one line for people. The metrics of an iteration hold the list; the stage prints it, the report collects it.
"""

import sys
from collections.abc import Mapping
from typing import Any

#: Entropy below this share of the first iteration's: the policy explores hardly any more.
ENTROPY_SHARE = 0.25
#: The share of valid actions may fall so far below the first iteration's.
VALID_DROP = 0.1
#: The share of groups without signal may rise so far above the first iteration's ...
NO_SIGNAL_RISE = 0.25
#: ... and up to here at all: beyond, next to nothing is learnt.
NO_SIGNAL_MOST = 0.9
#: Before the first optimiser step the ratio to the sampling policy is 1, but for rounding (coarser in bfloat16).
RATIO_DEVIATION = 0.02

Metrics = Mapping[str, Any]
Alarms = list[dict[str, Any]]


def of_rollouts(metrics: Metrics, first: Metrics | None) -> Alarms:
    """Return the alarms of an iteration's trajectories.

    Args:
        metrics: of `progpo.advantages.metrics.describe`.
        first: those of the arm's first iteration; None where this is it, or they are not known.
    """
    found = []
    valid, silent = metrics.get("valid_action_rate"), metrics.get("no_signal_fraction")
    before = (first or {}).get("valid_action_rate")
    if valid is not None and before is not None and valid < before - VALID_DROP:
        message = f"valid actions fell from {before:.1%} to {valid:.1%}"
        found.append(_alarm("valid_actions", valid, before - VALID_DROP, message))
    if silent is not None:
        before = (first or {}).get("no_signal_fraction")
        limit = NO_SIGNAL_MOST if before is None else min(before + NO_SIGNAL_RISE, NO_SIGNAL_MOST)
        if silent > limit:
            since = "" if before is None else f" ({before:.1%} at first)"
            found.append(_alarm("no_signal", silent, limit, f"{silent:.1%} of the groups have no signal{since}"))
    return found


def of_update(metrics: Metrics, first: Metrics | None) -> Alarms:
    """Return the alarms of an update.

    Args:
        metrics: of `progpo.policy.update.Updater.update`.
        first: those of the arm's first iteration; None where this is it, or they are not known.
    """
    found = []
    entropy, before = metrics.get("entropy"), (first or {}).get("entropy")
    if entropy is not None and before and entropy < ENTROPY_SHARE * before:
        message = f"the entropy collapsed, from {before:.3g} to {entropy:.3g} nats a token"
        found.append(_alarm("entropy", entropy, ENTROPY_SHARE * before, message))
    deviation = metrics.get("ratio_deviation")
    if deviation is not None and deviation > RATIO_DEVIATION:
        message = (
            f"before the first optimiser step the ratio to the sampling policy is off 1 by {deviation:.3g} on average: "
            "rollout and update do not compute the same probabilities (precision, temperature?)"
        )
        found.append(_alarm("ratio", deviation, RATIO_DEVIATION, message))
    return found


def print_alarms(stage: str, alarms: Alarms) -> None:
    """Print the alarms to stderr, a line each."""
    for alarm in alarms:
        print(f"{stage}: ALARM: {alarm['message']}", file=sys.stderr)


def _alarm(name: str, value: float, limit: float, message: str) -> dict[str, Any]:
    return {"alarm": name, "value": value, "limit": limit, "message": message}
