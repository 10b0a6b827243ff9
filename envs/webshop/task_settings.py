"""Settings of WebShop's tasks: which catalogue, which goals."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Split = Literal["train", "validation", "test"]
Count = Annotated[int, Field(ge=1)]
Range = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Difficulty(_Settings):
    """What a generated catalogue is like. Ranges are (least, most), both included.

    Attributes:
        products: how many there are.
        duplicates: how many near-duplicates a product has: alike but for an attribute, the price, or an option's
            values, in turn.
        attributes: how many of its three attributes a product's goals name.
        options: how many choices a product offers (colour, size, ...), as far as its kind has them.
        values: how many values each choice has.
        hidden: share of the attributes that titles keep to themselves, in [0, 1]: to be read in the features.
    """

    products: Annotated[int, Field(ge=1, le=1_000_000)] = 300
    duplicates: Annotated[int, Field(ge=0)] = 3
    attributes: Range = (1, 2)
    options: Range = (1, 2)
    values: Range = (3, 4)
    hidden: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _ranges(self) -> "Difficulty":
        for name, least in (("attributes", 1), ("options", 0), ("values", 1)):
            low, high = getattr(self, name)
            if low > high:
                raise ValueError(f"{name}: the least is more than the most")
            if low < least:
                raise ValueError(f"{name}: must be {least} or more")
        return self


class TaskSettings(_Settings):
    """Which goals there are.

    Attributes:
        source: "generated" by this project, or "official": a folder with WebShop's files.
        data: that folder; null: $WEBSHOP_DATA.
        splits: how many goals of each split; null: all of them.
        seed: of the generated catalogue; and of the prices, price bounds and order of the goals.
        difficulty: of a generated catalogue.
        human_goals: whether goals are those that people wrote, else those made from products' attributes and options.
        compatibility: "fixed" leaves out what no purchase can satisfy; "original" keeps it.
    """

    source: Literal["generated", "official"] = "generated"
    data: Path | None = None
    splits: dict[Split, Count | None] = {"train": 512, "validation": 100, "test": 100}
    seed: Annotated[int, Field(ge=0)] = 0
    difficulty: Difficulty = Difficulty()
    human_goals: bool = False
    compatibility: Literal["original", "fixed"] = "fixed"

    @model_validator(mode="after")
    def _coherent(self) -> "TaskSettings":
        if self.source == "generated" and self.data is not None:
            raise ValueError("data: only with `source: official`")
        if self.source == "official" and self.difficulty != Difficulty():
            raise ValueError("difficulty: only with `source: generated`")
        if "train" not in self.splits:
            raise ValueError("splits: `train` is missing")
        return self
