"""The expert that takes turns with the policy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from progpo.policy.tutor import Tutor


class Follower:
    """An expert that wants what the observation says, and notes what it is told was executed."""

    def __init__(self) -> None:
        self.told: list[str | None] = []

    def reset(self, observation: str, info: Mapping[str, Any]) -> None:
        self.told.clear()

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        self.told.append(info.get("last_action"))
        return observation


def test_the_expert_is_told_what_was_executed_and_what_it_wants_is_to_be_imitated() -> None:
    expert = Follower()
    tutor = Tutor(expert, np.random.default_rng(0), share=0.5, switch=1.0)
    tutor.reset("first", {})
    executed = []
    for number in range(200):
        wanted = f"wanted {number}"
        action = wanted if number % 4 == 0 else f"other {number}"
        done, imitate = tutor.decide(wanted, {}, action)
        assert done in (wanted, action)
        assert imitate == (done == wanted)
        executed.append(done)
    assert expert.told == [None, *executed[:-1]]
    others = sum(done.startswith("other") for done in executed)
    assert tutor.turns - tutor.agreed == others > 0
    assert tutor.agreed > 0
    assert any(done == f"wanted {number}" for number, done in enumerate(executed) if number % 4)


@pytest.mark.parametrize(("share", "switch"), [(0.6, 0.3), (0.2, 1.0)])
def test_stretches_have_their_share_and_length(share: float, switch: float) -> None:
    tutor = Tutor(Follower(), np.random.default_rng(1), share, switch)
    tutor.reset("first", {})
    own = [not tutor.decide("wanted", {}, "other")[1] for _ in range(20_000)]
    assert np.mean(own) == pytest.approx(share, abs=0.03)
    # A stretch ends where another begins, which may be the same one's again.
    changes = np.mean(np.diff(own).astype(bool))
    assert changes == pytest.approx(2 * share * (1 - share) * switch, abs=0.02)


def test_an_episode_begins_anew() -> None:
    tutor = Tutor(Follower(), np.random.default_rng(0), 0.5, 0.5)
    tutor.reset("first", {})
    tutor.decide("wanted", {}, "other")
    tutor.reset("first", {})
    tutor.decide("wanted", {}, "other")
    assert tutor.expert.told == [None]
