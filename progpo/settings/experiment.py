"""The whole config, and the part of it that each stage reads."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

import envs
from progpo.errors import ProgpoError
from progpo.settings.advantages import AdvantageSettings
from progpo.settings.base import Settings, canonical, validate
from progpo.settings.corrections import CorrectionSettings, TurnSettings
from progpo.settings.keep import KeepSettings, KeepStage
from progpo.settings.stages import (
    CompareSection,
    DemonstrationSettings,
    EvaluationSection,
    EvaluationSettings,
    PolicySettings,
    RolloutSettings,
    Seed,
    TrackingSection,
    UpdateSettings,
    ValidationSection,
    WarmupSettings,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: Folder names beside the arms'.
RESERVED = ("warmup", "shared")


class Playing(Settings):
    """The `environment` section: which environment, and how it is played.

    `options` are validated by the environment's own model; in YAML they stand beside `name`.
    """

    name: str = "alfworld"
    options: SerializeAsAny[BaseModel] | None = None

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = dict(data)
        name = given.pop("name", "alfworld")
        options = given.pop("options", None) or given
        if not isinstance(name, str):
            return data
        model = _entry(name).load("settings")
        return {"name": name, "options": model.model_validate(options)}

    def make(self, max_steps: int | None = None) -> Any:
        """Make one environment by these settings, with another limit of steps where one is given."""
        options = self.options.model_dump()
        return envs.make(self.name, **(options if max_steps is None else {**options, "max_steps": max_steps}))


class TasksStage(Settings):
    """What `progpo tasks` reads."""

    environment: str = "alfworld"
    tasks: SerializeAsAny[BaseModel] | None = Field(default=None, validate_default=True)

    @field_validator("tasks", mode="before")
    @classmethod
    def _tasks(cls, data: Any, info: ValidationInfo) -> Any:
        return _task_settings(info.data.get("environment", "alfworld"), data)


class DemonstrateStage(Settings):
    """What `progpo demonstrate` reads."""

    environment: Playing = Field(default_factory=lambda: Playing.model_validate({}))
    demonstrations: DemonstrationSettings = DemonstrationSettings()


class WarmupStage(Settings):
    """What `progpo warmup` reads; `environment` is the name, for the augmentation of its texts."""

    environment: str = "alfworld"
    policy: PolicySettings = PolicySettings()
    warmup: WarmupSettings = WarmupSettings()

    @model_validator(mode="after")
    def _coherent(self) -> "WarmupStage":
        _check_warmup(self.environment, self.policy, self.warmup)
        return self


class CorrectStage(Settings):
    """What `progpo correct` reads."""

    environment: Playing = Field(default_factory=lambda: Playing.model_validate({}))
    corrections: TurnSettings = TurnSettings()
    search: envs.Search = "best"


class RolloutStage(Settings):
    """What `progpo rollout` reads."""

    environment: Playing = Field(default_factory=lambda: Playing.model_validate({}))
    rollout: RolloutSettings = RolloutSettings()


class EvaluateStage(Settings):
    """What `progpo evaluate` reads."""

    environment: Playing = Field(default_factory=lambda: Playing.model_validate({}))
    evaluation: EvaluationSettings = EvaluationSettings()


class ReportStage(Settings):
    """What `progpo report` reads.

    Attributes:
        experiment, arms, seeds, iterations, every: what is looked for in an experiment's folder; iterations are
            validated `every` so many, and the last, and null is none.
        of: which evaluation is an arm's: that of the last iteration, or of the one that `best.json` names.
        confidence: of the intervals.
    """

    experiment: str
    arms: tuple[str, ...]
    seeds: tuple[int, ...]
    iterations: int = 1
    every: int | None = None
    of: Literal["last", "best"] = "last"
    confidence: float = 0.95

    def validated(self) -> list[int]:
        """Return the iterations that are validated."""
        return validated_iterations(self.iterations, self.every)


class CompareStage(Settings):
    """What `progpo compare` reads.

    Attributes:
        experiment: what is looked for in the folder; null: all that is there.
        compare: how arms are compared.
        confidence: of the intervals.
    """

    experiment: ReportStage | None = None
    compare: CompareSection = CompareSection()
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95


class ExportStage(Settings):
    """What `progpo export` reads.

    Attributes:
        experiment: what is looked for in the folder; null: all that is there.
        online: whether trackers may send what they get to their servers.
    """

    experiment: ReportStage | None = None
    online: bool = False


def validated_iterations(iterations: int, every: int | None) -> list[int]:
    """Return the iterations that are validated: every so many, and the last."""
    if every is None:
        return []
    return sorted({*range(every, iterations + 1, every), iterations})


def _check_warmup(environment: str, policy: PolicySettings, warmup: WarmupSettings) -> None:
    if not warmup.tokens and policy.init == "scratch":
        raise ValueError("warmup.tokens: a policy made from scratch must be trained; 0 is for `init: pretrained`")
    if warmup.recall and policy.init == "pretrained":
        raise ValueError("warmup.recall: for `init: scratch`; a pretrained policy knows how to recall")
    if warmup.recall and warmup.recall.told_tokens and _entry(environment).exercises is None:
        raise ValueError(
            f"warmup.recall.told_tokens: environment {environment!r} has no exercises in its own sentences; set it to 0"
        )
    if warmup.lora and policy.init == "scratch":
        raise ValueError("warmup.lora: a policy made from scratch must be trained whole; use `init: pretrained`")


def _task_settings(environment: str, data: Any) -> Any:
    if isinstance(data, BaseModel):
        return data
    return _entry(environment).load("task_settings").model_validate(data or {})


def _entry(environment: str) -> envs.Entry:
    try:
        return envs.entry(environment)
    except envs.EnvironmentDataError as error:
        raise ValueError(str(error)) from None


class Experiment(Settings):
    """A whole config.

    Attributes:
        experiment: its name: artifacts lie in `artifacts/<experiment>`.
        seeds: training seeds; each has its own warm-up and its own arms.
        iterations: of rollouts, advantages and update, for each arm.
        corrections: that follow the warm-up; null: none.
        arms: advantage recipes by name.
        The rest: the sections of the stages.
    """

    experiment: str
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    iterations: Annotated[int, Field(ge=1)] = 5
    environment: Playing = Field(default_factory=lambda: Playing.model_validate({}))
    tasks: SerializeAsAny[BaseModel] | None = Field(default=None, validate_default=True)
    demonstrations: DemonstrationSettings = DemonstrationSettings()
    policy: PolicySettings = PolicySettings()
    warmup: WarmupSettings = WarmupSettings()
    corrections: CorrectionSettings | None = None
    rollout: RolloutSettings = RolloutSettings()
    arms: Annotated[dict[str, AdvantageSettings], Field(min_length=1)]
    update: UpdateSettings = UpdateSettings()
    validation: ValidationSection = ValidationSection()
    evaluation: EvaluationSection = EvaluationSection()
    keep: KeepSettings = KeepSettings()
    compare: CompareSection = CompareSection()
    tracking: TrackingSection = TrackingSection()

    @field_validator("tasks", mode="before")
    @classmethod
    def _tasks(cls, data: Any, info: ValidationInfo) -> Any:
        playing = info.data.get("environment")
        return _task_settings(playing.name if playing else "alfworld", data)

    @model_validator(mode="after")
    def _coherent(self) -> "Experiment":
        for what, name in [("experiment", self.experiment), *(("arms", arm) for arm in self.arms)]:
            if not NAME.fullmatch(name):
                raise ValueError(f"{what}: {name!r} is not a usable name (letters, digits, `_`, `-`, `.`, at most 100)")
        for reserved in RESERVED:
            if reserved in self.arms:
                raise ValueError(f"arms: {reserved!r} is a name the pipeline uses itself")
        _check_warmup(self.environment.name, self.policy, self.warmup)
        if self.corrections and (not self.warmup.tokens or self.warmup.lora or self.warmup.strategy == "fsdp"):
            raise ValueError(
                "corrections: they follow a warm-up (`warmup.tokens` above 0) that trains whole matrices: not with "
                "`warmup.lora` or `warmup.strategy: fsdp`; leave them out"
            )
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed stands there twice")
        splits = getattr(self.tasks, "splits", None)
        if splits is not None:
            for split in self.evaluation.splits:
                if split not in splits:
                    raise ValueError(f"evaluation.splits: {split!r} is not among tasks.splits ({', '.join(splits)})")
        self._check_validation(splits)
        self._check_keep()
        if self.policy.constrained:
            self._check_constrained()
        if len(set(self.tracking.to)) < len(self.tracking.to):
            raise ValueError(f"tracking.to: one stands there twice ({', '.join(self.tracking.to)})")
        if self.compare.base is not None and self.compare.base not in self.arms:
            raise ValueError(f"compare.base: {self.compare.base!r} is not among the arms ({', '.join(self.arms)})")
        return self

    def _check_validation(self, splits: Mapping[str, Any] | None) -> None:
        validation = self.validation
        if validation.every is None:
            if self.evaluation.of == "best":
                raise ValueError("evaluation.of: `best` is chosen by validation; set `validation.every`")
            return
        if splits is not None and validation.split not in splits:
            raise ValueError(
                f"validation.split: {validation.split!r} is not among tasks.splits ({', '.join(splits)}); say there "
                "how many tasks to set aside"
            )
        if self.evaluation.of == "best" and validation.split in self.evaluation.splits:
            raise ValueError(
                f"evaluation.of: the best iteration would be chosen on {validation.split!r}, which evaluation.splits "
                "reports on; choose on another split (validation.split)"
            )

    def _check_constrained(self) -> None:
        if envs.entry(self.environment.name).free_text:
            raise ValueError(
                f"policy.constrained: {self.environment.name} has actions that it cannot list, such as what to search "
                "for; leave it out"
            )
        sections = (("rollout", self.rollout), ("validation", self.validation), ("evaluation", self.evaluation))
        for name, section in (*sections, ("corrections", self.corrections)):
            if section and section.backend != "progpo":
                raise ValueError(
                    f"{name}.backend: only `progpo`, the project's own sampler, can constrain a policy "
                    "(policy.constrained)"
                )

    def _check_keep(self) -> None:
        if self.keep.policies == "best" and self.validation.every is None:
            raise ValueError("keep.policies: `best` is told by validation; set `validation.every`")
        if self.evaluation.of == "best" and isinstance(self.keep.policies, int):
            raise ValueError(
                f"keep.policies: the latest {self.keep.policies} need not hold the best, which `evaluation.of` wants; "
                "keep `best`"
            )

    @property
    def correction_rounds(self) -> int:
        """How many rounds of corrections follow the warm-up."""
        return self.corrections.rounds if self.corrections else 0

    def reported(self) -> ReportStage:
        """Return what the report reads."""
        return ReportStage(
            experiment=self.experiment,
            arms=tuple(self.arms),
            seeds=self.seeds,
            iterations=self.iterations,
            every=self.validation.every,
            of=self.evaluation.of,
            confidence=self.evaluation.confidence,
        )

    def stage(self, name: str, arm: str | None = None) -> str:
        """Return the settings of one stage (of one arm, for advantages) as canonical JSON."""
        report = self.reported()
        parts: dict[str, Settings] = {
            "tasks": TasksStage.model_construct(environment=self.environment.name, tasks=self.tasks),
            "demonstrate": DemonstrateStage(environment=self.environment, demonstrations=self.demonstrations),
            "warmup": WarmupStage(environment=self.environment.name, policy=self.policy, warmup=self.warmup),
            "rollout": RolloutStage(environment=self.environment, rollout=self.rollout),
            "update": self.update,
            "evaluate": EvaluateStage(environment=self.environment, evaluation=self.evaluation.settings()),
            "validate": EvaluateStage(
                environment=self.environment, evaluation=self.validation.settings(self.evaluation.confidence)
            ),
            "keep": KeepStage(keep=self.keep, every=self.validation.every),
            "report": report,
            "export": ExportStage(experiment=report, online=self.tracking.online),
            "compare": CompareStage(experiment=report, compare=self.compare, confidence=self.evaluation.confidence),
        }
        if self.corrections:
            turns, search = self.corrections.turns(), self.demonstrations.search_of(0)
            parts["correct"] = CorrectStage(environment=self.environment, corrections=turns, search=search)
            again = self.corrections.of(self.warmup)
            parts["relearn"] = WarmupStage(environment=self.environment.name, policy=self.policy, warmup=again)
        if name == "advantages":
            return canonical(self.arms[arm])
        return canonical(parts[name])


def load_experiment(config: dict[str, Any] | Path) -> Experiment:
    """Validate a config, given as a mapping or as a YAML file.

    Raises:
        ProgpoError: one line a problem, each naming the key.
    """
    if isinstance(config, Path):
        return validate(Experiment, read_config(config), str(config))
    return validate(Experiment, config, "config")


def read_config(path: Path) -> dict[str, Any]:
    """Read a YAML file that may be part of a config; raises ProgpoError unless it holds a mapping."""
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProgpoError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ProgpoError(f"{path}: not a text file; a config is YAML") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ProgpoError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(config, dict):
        raise ProgpoError(f"{path}: holds no settings; a config is a YAML mapping, as `experiment: NAME`")
    return config
