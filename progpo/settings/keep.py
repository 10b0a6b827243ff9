"""What stays on disk of a run: the `keep` section."""

from typing import Any, Literal

from pydantic import field_validator

from progpo.settings.base import Settings


class KeepSettings(Settings):
    """What stays of each arm's iterations, once later ones are there; the rest is removed while the run goes on.

    The warm-up, the first iteration's shared rollouts and all small files always stay. "all": of every iteration; a
    number: of so many latest ones.

    Attributes:
        policies: weights. "best": of the best iteration by validation so far, and of the latest.
        optimizer: the optimiser's state, where the weights stay: without it no update can go on from there.
        rollouts: trajectory shards. 0: none once the update has learnt from them.
    """

    policies: int | Literal["all", "best"] = "all"
    optimizer: int | Literal["all"] = "all"
    rollouts: int | Literal["all"] = "all"

    @field_validator("policies", "optimizer", "rollouts", mode="before")
    @classmethod
    def _known(cls, value: Any, info: Any) -> Any:
        words = ("all", "best") if info.field_name == "policies" else ("all",)
        least = 0 if info.field_name == "rollouts" else 1
        number = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not number and value not in words:
            raise ValueError(f"{', '.join(words)} or a number of iterations from {least} on, not {value!r}")
        return value

    @property
    def everything(self) -> bool:
        """Whether everything stays."""
        return self.policies == self.optimizer == self.rollouts == "all"


class KeepStage(Settings):
    """What `progpo keep` reads.

    Attributes:
        keep: what stays.
        every: of validation, by which the best is chosen; null: none.
    """

    keep: KeepSettings = KeepSettings()
    every: int | None = None
