"""An expert beside the policy: it plays stretches of the episode in its place, and says when it would do the same.

A policy that imitates demonstrations has seen only the expert's own ways, and errs where its mistakes have led it. What
the expert does from there on is what it has to see (arXiv 1011.0686): here the two take turns within each episode, so
that one sequence of tokens holds the mistakes, which are not imitated, and the ways out of them, which are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from envs import Expert


@dataclass
class Tutor:
    """The expert of one episode.

    Args:
        expert: is told by `info["last_action"]` what was executed.
        rng: of the stretches.
        share: of them that are the policy's.
        switch: chance, after each step, that another stretch begins.

    Attributes:
        turns: steps that were the policy's.
        agreed: those of them in which the expert would have done the same.
    """

    expert: Expert
    rng: np.random.Generator
    share: float
    switch: float
    turns: int = 0
    agreed: int = 0

    def reset(self, observation: str, info: Mapping[str, Any]) -> None:
        """Start the episode."""
        self.expert.reset(observation, info)
        self._executed: str | None = None
        self._draw()

    def decide(self, observation: str, info: Mapping[str, Any], action: str) -> tuple[str, bool]:
        """Choose what is executed.

        Args:
            observation, info: of the environment.
            action: the policy's.

        Returns:
            what is executed, the policy's action or the expert's, and whether it is what the expert wants.
        """
        told = dict(info) if self._executed is None else {**info, "last_action": self._executed}
        wanted = self.expert.act(observation, told)
        executed = wanted
        if self._policys:
            executed = action
            self.turns += 1
            self.agreed += action == wanted
        self._executed = executed
        if self.rng.random() < self.switch:
            self._draw()
        return executed, executed == wanted

    def _draw(self) -> None:
        self._policys = bool(self.rng.random() < self.share)
