"""Settings of the WebShop environment."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class EnvironmentSettings(BaseModel):
    """How a goal is shopped for.

    Attributes:
        compatibility: "original": to the letter; "fixed": with what is broken mended.
        mode: how pages are written: "text" (parts joined by [SEP], chosen options invisible), "text_rich".
        reward: what a step pays: "success" (1 for a purchase of score 1), "score" (the score of the purchase); null:
            "score" in the original, "success" else.
        max_steps: after which an episode ends.
        folder: of the catalogue, where the tasks do not name one.
        human_goals: goals that people wrote, for tasks that name a goal by its number.
        seed: of prices, and of goals named by number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    compatibility: Literal["original", "fixed"] = "fixed"
    mode: Literal["text", "text_rich"] = "text_rich"
    reward: Literal["success", "score"] | None = None
    max_steps: Annotated[int, Field(ge=1)] = 15
    folder: Path | None = None
    human_goals: bool = False
    seed: Annotated[int, Field(ge=0)] = 0
