"""Settings of an arm: the recipe by which advantages are estimated."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from progpo.settings.base import NonNegative, Positive, Settings

Discount = Annotated[float, Field(ge=0, le=1)]


class ProgressSettings(Settings):
    """ProGPO (arXiv 2607.22724): first-visit coverage where a whole group failed.

    Attributes:
        weight: the constant of the progress weight (the paper's is 0.3).
        schedule: "fail_fraction": weight times the share of all-failed groups; "fixed": weight.
        level: which part carries coverage: the trajectory's share of first visits, the step's coverage to go, both.
        key: what is visited: the observation's exact text (the paper's), or the environment's own state key.
        gate: when a group has failed: "outcome": every outcome is 0 (the paper's); "success": no trajectory's score
            is 1, for environments that also pay for what is nearly right.
        always_on: control: add the term to every group's advantage, not just to all-failed ones.
        shuffle: control: permute the trajectories' coverage inside each group.
    """

    weight: NonNegative = 0.3
    schedule: Literal["fail_fraction", "fixed"] = "fail_fraction"
    level: Literal["trajectory", "step", "both"] = "trajectory"
    key: Literal["observation", "state"] = "observation"
    gate: Literal["outcome", "success"] = "outcome"
    always_on: bool = False
    shuffle: bool = False

    @model_validator(mode="after")
    def _coherent(self) -> "ProgressSettings":
        if self.shuffle and self.level != "trajectory":
            raise ValueError("shuffle: the control exists for `level: trajectory` only")
        return self


class AdvantageSettings(Settings):
    """An arm.

    Attributes:
        base: the estimator: grpo (arXiv 2402.03300), rloo (2402.14740), gigpo (2505.10978), hgpo (2602.22817).
        reward_scale: outcomes and rewards are multiplied by it before the base sees them (10 for a success in the
            literature); gates, coverage, metrics and the penalty are not scaled.
        normalise: divide by the standard deviation or not; rloo never does.
        gamma: discount of returns to go (gigpo, hgpo) and of coverage to go.
        step_weight: weight of the step part (gigpo only).
        history: longest history that hgpo groups by, beyond the current observation (hgpo only).
        alpha: hgpo's level weights are (k + 1) ** alpha, alpha in [-10, 10] (hgpo only).
        progress: ProGPO over this base, or null.
        invalid_penalty: subtracted last from the steps whose action was invalid; enters no statistic.
    """

    base: Literal["grpo", "rloo", "gigpo", "hgpo"]
    reward_scale: Positive = 1.0
    normalise: Literal["mean_std", "mean"] = "mean_std"
    gamma: Discount = 0.95
    step_weight: NonNegative = 1.0
    history: Annotated[int, Field(ge=0)] = 2
    alpha: Annotated[float, Field(ge=-10, le=10)] = 1.0
    progress: ProgressSettings | None = None
    invalid_penalty: NonNegative = 0.0

    @model_validator(mode="after")
    def _coherent(self) -> "AdvantageSettings":
        given = self.model_fields_set
        if self.base != "gigpo" and "step_weight" in given and self.step_weight != 1.0:
            raise ValueError(f"step_weight: only with `base: gigpo`; `{self.base}` has no step part to weigh")
        if self.base != "hgpo":
            for name, default in (("history", 2), ("alpha", 1.0)):
                if name in given and getattr(self, name) != default:
                    raise ValueError(f"{name}: only with `base: hgpo`, not `{self.base}`")
        if self.base == "rloo" and "normalise" in given and self.normalise != "mean_std":
            raise ValueError("normalise: `rloo` is not normalised; leave the setting out")
        needs_gamma = self.base in ("gigpo", "hgpo") or (self.progress and self.progress.level != "trajectory")
        if not needs_gamma and self.gamma != 0.95:
            raise ValueError(f"gamma: `{self.base}` without a step part discounts nothing; leave the setting out")
        return self
