"""Settings of the rounds in which the expert corrects the policy."""

from typing import Annotated

from pydantic import Field

from progpo.settings.base import Count, Positive
from progpo.settings.sampling import SamplingSettings
from progpo.settings.stages import WarmupSettings


class TurnSettings(SamplingSettings):
    """How policy and expert take turns in a round, which is all that its episodes depend on.

    Attributes:
        tasks: train tasks played in a round, each once; drawn anew for each round.
        share: of the stretches of an episode that are the policy's.
        switch: chance, after each step, that another stretch begins.
        temperature: at which the policy plays.
        The rest: see `SamplingSettings`.
    """

    tasks: Count = 2000
    share: Annotated[float, Field(gt=0, lt=1)] = 0.6
    switch: Annotated[float, Field(gt=0, le=1)] = 0.3
    temperature: Annotated[float, Field(ge=1e-3, le=100)] = 1.0


class CorrectionSettings(TurnSettings):
    """How the expert corrects what the warmed-up policy does (dataset aggregation, arXiv 1011.0686).

    In each round policy and expert take turns in playing train tasks, and the policy is then trained on what the expert
    did, and on what it would have done as well, in the episodes of all rounds so far.

    Attributes:
        rounds: of playing and training.
        tokens: trained on in each round.
        learning_rate_ratio: what the warm-up's rates are multiplied by.
        The rest: see `TurnSettings`.
    """

    rounds: Count = 1
    tokens: Count = 600_000
    learning_rate_ratio: Positive = 0.3

    def turns(self) -> TurnSettings:
        """Return what a round is played by: more rounds, or another budget, leave those played as they are."""
        return TurnSettings.model_validate(self.model_dump(include=set(TurnSettings.model_fields)))

    def of(self, warmup: WarmupSettings) -> WarmupSettings:
        """Return how a round's episodes are learned from: as in the warm-up, but for the budget and the rates."""
        rates: dict[str, object] = {"learning_rate": min(1.0, warmup.learning_rate * self.learning_rate_ratio)}
        if warmup.muon:
            rate = min(1.0, warmup.muon.learning_rate * self.learning_rate_ratio)
            rates["muon"] = warmup.muon.model_copy(update={"learning_rate": rate})
        return warmup.model_copy(update={"tokens": self.tokens, "recall": None, **rates})
