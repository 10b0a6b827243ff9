"""Settings of the ALFWorld environment and of its games."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)

#: As the released games are divided.
SPLITS = ("train", "valid_seen", "valid_unseen")
#: Train games set aside, to choose by; never among the train games of the same experiment.
VALIDATION = "validation"
#: Train games that are shown by the expert and not trained on.
DEMONSTRATION = "demonstration"

Split = Literal["train", "validation", "valid_seen", "valid_unseen"]
TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentSettings(_Settings):
    """How a game is played."""

    engine: Literal["fast", "textworld"] = "fast"
    max_steps: Annotated[int, Field(ge=1)] = 50


class Difficulty(_Settings):
    """How hard generated games are: how much there is to search, and how much hides it.

    Attributes:
        distractors: portable objects beside those that the goal needs; a range (least, most), both included, as far
            as the room has them; null: as many as the released games have there.
        receptacles: share of a room's receptacles that a game keeps, in (0, 1].
        closed: share of the objects of the goal's type that start inside closed receptacles, where the room and the
            object allow it, in [0, 1]; null: as often as in the released games (about one in seven).
        rooms: which rooms by their number of receptacles: the smaller half, the larger half, or all.
    """

    distractors: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]] | None = None
    receptacles: Annotated[float, Field(gt=0, le=1)] = 1.0
    closed: Annotated[float, Field(ge=0, le=1)] | None = None
    rooms: Literal["small", "large", "all"] = "all"

    @model_validator(mode="after")
    def _range(self) -> "Difficulty":
        if self.distractors is not None and self.distractors[0] > self.distractors[1]:
            raise ValueError("distractors: the least is more than the most")
        return self


class Horizon(_Settings):
    """Show short games, train on long ones: how the train games of each family are divided, by the expert's steps.

    Attributes:
        demonstration: share of the games, the shortest, that are shown and not trained on.
        train: share of the games, the longest, that are trained on or set aside for validation.
    """

    demonstration: Annotated[float, Field(gt=0, lt=1)] = 0.5
    train: Annotated[float, Field(gt=0, lt=1)] = 0.25

    @model_validator(mode="after")
    def _apart(self) -> "Horizon":
        if self.demonstration + self.train > 1:
            raise ValueError("horizon: the shares of `demonstration` and `train` are more than 1 together")
        return self


class TaskSettings(_Settings):
    """Which games there are.

    Attributes:
        source: "generated" by this project, or "official": a folder as `alfworld-download` leaves it.
        data: the official folder (the one that holds `json_2.1.1`, or that folder itself); null: $ALFWORLD_DATA.
        splits: how many games of each split; null: all of them (official only). `validation`, which needs a number,
            are train games set aside: they are taken out of `train`.
        types: the task families to use.
        seed: of the generator, and of the choice among official games.
        difficulty: of generated games.
        horizon: divide the train games by length, into those shown, trained on and validated by; null: train games
            are both shown and trained on.
    """

    source: Literal["generated", "official"] = "generated"
    data: Path | None = None
    splits: dict[Split, Annotated[int, Field(ge=1)] | None] = {"train": 256, "valid_seen": 60, "valid_unseen": 60}
    types: Annotated[tuple[TaskType, ...], Field(min_length=1)] = TASK_TYPES
    seed: Annotated[int, Field(ge=0)] = 0
    difficulty: Difficulty = Difficulty()
    horizon: Horizon | None = None

    @model_validator(mode="after")
    def _coherent(self) -> "TaskSettings":
        if self.source == "generated":
            if self.data is not None:
                raise ValueError("data: only with `source: official`")
            if None in self.splits.values():
                raise ValueError("splits: generated games need a number for each split")
        elif self.difficulty != Difficulty():
            raise ValueError("difficulty: only with `source: generated`")
        if VALIDATION in self.splits and self.splits[VALIDATION] is None:
            raise ValueError("splits: `validation` needs a number: so many train games are set aside")
        if len(set(self.types)) < len(self.types):
            raise ValueError(f"types: one stands there twice ({', '.join(self.types)})")
        if "train" not in self.splits:
            raise ValueError("splits: `train` is missing")
        return self
