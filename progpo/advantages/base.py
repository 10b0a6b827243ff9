"""The base estimators. Each gives a trajectory part A_E and a step part A_S; A = A_E + step_weight * A_S.

GRPO: arXiv 2402.03300. RLOO: 2402.14740. GiGPO: 2505.10978. HGPO: 2602.22817.
"""

from dataclasses import dataclass

import numpy as np

from progpo.advantages.columns import Batch, pair
from progpo.advantages.partition import EPSILON, Partition, to_go
from progpo.settings.advantages import AdvantageSettings

#: HGPO: a level whose advantage is smaller has no say (the published code leaves out exact zeros; the tolerance keeps
#: rounding from deciding).
SILENT = 1e-9


@dataclass(frozen=True)
class Parts:
    """The two parts of an advantage.

    Attributes:
        trajectory: (N,) A_E, one for each trajectory.
        step: (S,) A_S, one for each step.
    """

    trajectory: np.ndarray
    step: np.ndarray


def estimate_base(batch: Batch, settings: AdvantageSettings) -> Parts:
    """Estimate by the arm's base alone."""
    return ESTIMATORS[settings.base](batch, settings)


def grpo(batch: Batch, settings: AdvantageSettings) -> Parts:
    """Outcome relative to the group's: A_E = (R - mean R) / (std R + 1e-6), over trajectories, each counted once."""
    scaled = settings.reward_scale * batch.outcome
    outcome = batch.of_group.relative(scaled, ddof=1, divide=settings.normalise == "mean_std")
    return Parts(outcome, np.zeros(len(batch.step)))


def rloo(batch: Batch, settings: AdvantageSettings) -> Parts:
    """Outcome minus the mean of the others' outcomes, which is n / (n - 1) times the centred outcome."""
    sizes = batch.of_group.sizes
    scale = sizes / np.maximum(sizes - 1, 1)
    centred = batch.of_group.relative(settings.reward_scale * batch.outcome, ddof=1, divide=False)
    return Parts(centred * scale[batch.of_group.ids], np.zeros(len(batch.step)))


def gigpo(batch: Batch, settings: AdvantageSettings) -> Parts:
    """GRPO's part, and the return to go relative to that of all steps of the group with the same observation."""
    returns = to_go(settings.reward_scale * batch.reward, batch.remaining, settings.gamma)
    step = batch.anchors.relative(returns, ddof=1, divide=settings.normalise == "mean_std")
    return Parts(grpo(batch, settings).trajectory, step)


def hgpo(batch: Batch, settings: AdvantageSettings) -> Parts:
    """The return to go relative to steps with the same last 1, ..., history + 1 observations; longer ones weigh more.

    A step that shares its last k observations with no other has no say in longer levels either, so each level
    works on what is left of the level before.
    """
    returns = to_go(settings.reward_scale * batch.reward, batch.remaining, settings.gamma)
    total, weights = np.zeros(len(returns)), np.zeros(len(returns))
    rows, level = np.arange(len(returns)), batch.anchors
    for length in range(1, settings.history + 2):
        if length > 1:
            rows, ids = rows[batch.step[rows] >= length - 1], level.ids[batch.step[rows] >= length - 1]
            level = Partition.of(pair(ids, batch.observation[rows - (length - 1)]))
        shared = level.sizes[level.ids] > 1
        rows, level = rows[shared], Partition.of(level.ids[shared])
        if not rows.size:
            break
        relative = level.relative(returns[rows], ddof=0, divide=settings.normalise == "mean_std")
        weight = np.where(np.abs(relative) > SILENT, (length + 1.0) ** settings.alpha, 0.0)
        total[rows] += weight * relative
        weights[rows] += weight
    return Parts(np.zeros(batch.of_trajectory.count), total / (weights + EPSILON))


ESTIMATORS = {"grpo": grpo, "rloo": rloo, "gigpo": gigpo, "hgpo": hgpo}
