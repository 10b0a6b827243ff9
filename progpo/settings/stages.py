"""Settings of each stage, as they stand in a config's sections."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from envs import Search
from progpo.settings.base import Count, NonNegative, Positive, Precision, Settings
from progpo.settings.sampling import SamplingSettings
from progpo.settings.training import TrainingSettings

#: What torch and numpy both take.
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(ge=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
#: Of sampling at all; log-probabilities at a lower one are mostly rounding.
LEAST_TEMPERATURE = 1e-3
MOST_TEMPERATURE = 100.0


class DitherSettings(Settings):
    """A demonstrator that loses time, to be imitated: what comes of it is a policy that keeps doing what is of no use.

    Attributes:
        share: of steps, in all variants, at which one of the actions is executed in place of the expert's.
        actions: what to do then; one of those that are admissible is drawn, where there is one.
    """

    share: Annotated[float, Field(gt=0, lt=1)]
    actions: Annotated[tuple[str, ...], Field(min_length=1)]


class DemonstrationSettings(Settings):
    """How the expert shows the train tasks.

    Attributes:
        variants: demonstrations of each task: the first one clean, the others with noise.
        search: "varied": the first variant in the order that promises most, the others in another each; "plain": all
            in an order that is easy to learn.
        noise: share of steps, in all but the first variant, at which a random action is executed in place of the
            expert's (never imitated: it is there to be recovered from).
        invalid: share of the noise actions that need not be admissible.
        dither: time that is lost and, unlike noise, imitated; null: none.
        max_steps: of a demonstration; null: as many as the environment allows.
        seed: of the noise, the dither and the order of search.
    """

    variants: Count = 3
    search: Literal["varied", "plain"] = "varied"
    noise: Share = 0.12
    invalid: Share = 0.33
    dither: DitherSettings | None = None
    max_steps: Count | None = None
    seed: Seed = 0

    def search_of(self, variant: int) -> Search:
        """Return how the expert searches in a variant, counted from 0."""
        if self.search == "plain":
            return "plain"
        return "varied" if variant else "best"


class PolicySettings(Settings):
    """What the policy is and how it reads.

    Attributes:
        init: "scratch": a small Qwen2 of the sizes below and a tokenizer trained on the demonstrations;
            "pretrained": a checkpoint.
        path: folder or hub id of the checkpoint (pretrained only).
        layout: "append": the conversation grows and each token is encoded once; "window": each step's prompt stands
            alone, with the task and the last `window` steps. Null: append for scratch, window for pretrained.
        window: past steps in the prompt (window layout only).
        response: "plain": the response is the action; "think_action": <think>..</think><action>..</action>. Null:
            plain for scratch, think_action for pretrained.
        admissible: list the admissible actions in each prompt; null: yes for think_action (as the literature does),
            no for plain.
        constrained: a response is one of the admissible actions and nothing else: what leads to none is left out at
            each token (constrained decoding), in sampling and in the update. With `response: plain` only.
        no_repeat: of the admissible actions, those taken on the very same observation before in the episode are left
            out, as long as others remain: a rule of thumb against loops. For a constrained policy.
        max_context_tokens: longest context. An append episode that outgrows it is truncated; a window prompt drops
            its oldest steps first.
        max_response_tokens: longest response; null: 16 for plain, 512 for think_action.
        hidden_size, layers, heads, intermediate_size: the Qwen2 made from scratch.
        kv_heads: key/value heads that the query heads share (arXiv 1911.02150): one makes the cache, which is what
            sampling mostly reads, four times smaller than four.
        embeddings: how those of the Qwen2 made from scratch begin: each "independent", or those of numbered things
            ("cabinet 6") "composed" of their name's and their number's (see `progpo.policy.composition`).
        embedding_scale: how many times as wide as its other weights they begin; the last norm's gain begins as much
            lower, so that logits do not. Wider ones are not drowned by what the first layers add to them.
        restate: what the task begins with in the first observation ("Your task is to:"). From there to the end of the
            line, it is told again at the end of each later context (append layout only; a window's prompt tells the
            task anyway); null: it is told once.
    """

    init: Literal["scratch", "pretrained"] = "scratch"
    path: str | None = None
    layout: Literal["append", "window"] | None = None
    window: Annotated[int, Field(ge=0)] = 2
    response: Literal["plain", "think_action"] | None = None
    admissible: bool | None = None
    constrained: bool = False
    no_repeat: bool = False
    max_context_tokens: Annotated[int, Field(ge=32)] = 2048
    max_response_tokens: Count | None = None
    hidden_size: Count = 128
    layers: Count = 4
    heads: Count = 4
    kv_heads: Count = 1
    intermediate_size: Count = 384
    embeddings: Literal["independent", "composed"] = "independent"
    embedding_scale: Annotated[float, Field(ge=0.01, le=100)] = 1.0
    restate: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _coherent(self) -> "PolicySettings":
        if self.init == "pretrained" and not self.path:
            raise ValueError("path: `init: pretrained` needs a checkpoint's folder or hub id")
        if self.init == "scratch" and self.path:
            raise ValueError("path: only with `init: pretrained`")
        if self.init == "pretrained" and (self.embeddings != "independent" or self.embedding_scale != 1):
            raise ValueError(
                "embeddings, embedding_scale: for `init: scratch`; a checkpoint has its own; leave them out"
            )
        if self.restate is not None and (not self.restate.strip() or len(self.restate.splitlines()) > 1):
            raise ValueError("restate: name words that the task begins with, in one line")
        if self.hidden_size % self.heads or (self.hidden_size // self.heads) % 2:
            raise ValueError("hidden_size: must be an even multiple of `heads`")
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads: {self.heads} heads cannot share {self.kv_heads} evenly")
        if self.init == "scratch" and self.response == "think_action":
            raise ValueError("response: a policy made from scratch has no thoughts to tell; use `plain`")
        if self.constrained and self.resolved_response != "plain":
            raise ValueError("constrained: a response with thoughts is no admissible action; use `response: plain`")
        if self.no_repeat and not self.constrained:
            raise ValueError("no_repeat: only a constrained policy chooses among actions; set `constrained: true`")
        if self.restate and self.resolved_layout == "window":
            raise ValueError("restate: each prompt of the window layout tells the task; leave it out")
        if self.response_limit >= self.max_context_tokens:
            raise ValueError(
                f"max_context_tokens: {self.max_context_tokens} leave no room beside a response of "
                f"{self.response_limit} (max_response_tokens)"
            )
        return self

    @property
    def resolved_layout(self) -> str:
        """The layout, defaults resolved."""
        return self.layout or ("append" if self.init == "scratch" else "window")

    @property
    def choices(self) -> str | None:
        """What a constrained policy chooses among (`progpo.trajectories.schema.Metadata`)."""
        return ("untried" if self.no_repeat else "admissible") if self.constrained else None

    @property
    def resolved_response(self) -> str:
        """The response format, defaults resolved."""
        return self.response or ("plain" if self.init == "scratch" else "think_action")

    @property
    def lists_admissible(self) -> bool:
        """Whether prompts list the admissible actions, defaults resolved."""
        return self.resolved_response == "think_action" if self.admissible is None else self.admissible

    @property
    def response_limit(self) -> int:
        """The longest response in tokens, defaults resolved."""
        return self.max_response_tokens or (16 if self.resolved_response == "plain" else 512)


class MuonSettings(Settings):
    """Muon (K. Jordan, 2024; arXiv 2502.16982) for the matrices of the layers; the rest stays AdamW's.

    Attributes:
        learning_rate: at its peak, of the matrices; it follows the schedule of the other one.
        momentum: Nesterov's.
    """

    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.02
    momentum: Decay = 0.95


class RecallSettings(Settings):
    """Exercises in associative recall before the first demonstration (see `progpo.policy.recall`).

    Attributes:
        tokens: of bare exercises, beside the warm-up's own.
        told_tokens: of exercises in the environment's own sentences, which follow; 0 where it has none.
        batch_tokens: tokens an optimiser step.
        warmup_steps: of the learning rate, which then stays at its peak.
    """

    tokens: Count = 120_000
    told_tokens: Annotated[int, Field(ge=0)] = 250_000
    batch_tokens: Count = 512
    warmup_steps: Annotated[int, Field(ge=0)] = 30


class WarmupSettings(TrainingSettings):
    """Supervised fine-tuning on the demonstrations (AdamW or Muon, linear warm-up, cosine decay).

    Attributes:
        tokens: stop after this many tokens were trained on (a budget of work, not of time); 0: a pretrained
            checkpoint is taken as it is.
        batch_tokens: tokens an optimiser step.
        pass_tokens: most tokens of a forward pass (gradients accumulate); null: `batch_tokens`.
        learning_rate, min_learning_rate_ratio, warmup_steps, betas, weight_decay, max_gradient_norm: as usual.
        muon: for the matrices of the layers, in place of AdamW; null: AdamW for all.
        recall: exercises that come first, for a policy from scratch; null: none.
        observation_loss: weight of the loss on observation tokens beside the actions' (append layout only).
        augment: rename objects anew at each pass, where the environment can.
        precision: "auto": bfloat16 autocast where the processor has fast instructions for it; "portable": float32, the
            same to the bit on every x86-64 processor with AVX2 (see `progpo.policy.portable`).
        threads: of torch.
        save_every: optimiser steps between saved states to resume from.
    """

    tokens: Annotated[int, Field(ge=0)] = 1_500_000
    batch_tokens: Count = 512
    pass_tokens: Count | None = None
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 3e-3
    min_learning_rate_ratio: Share = 0.05
    warmup_steps: Annotated[int, Field(ge=0)] = 100
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    weight_decay: NonNegative = 0.01
    max_gradient_norm: Positive = 1.0
    muon: MuonSettings | None = None
    recall: RecallSettings | None = None
    observation_loss: NonNegative = 0.3
    augment: bool = True
    precision: Precision = "auto"
    threads: Count = 1
    save_every: Count = 100

    @model_validator(mode="after")
    def _whole_matrices(self) -> "WarmupSettings":
        if self.recall and (self.strategy == "fsdp" or self.lora):
            raise ValueError("recall: for a policy from scratch: not with `strategy: fsdp` or `lora`; leave it out")
        if self.muon and (self.strategy == "fsdp" or self.lora):
            raise ValueError(
                "muon: it wants whole matrices, all trained: not with `strategy: fsdp` or `lora`; leave it out"
            )
        return self


class DynamicSettings(Settings):
    """Dynamic sampling (DAPO, arXiv 2503.14476, section 3.2): groups without signal are replaced.

    Attributes:
        drop: which groups are replaced: "solved": those in which every trajectory succeeded; "flat": those in which
            all outcomes are alike, so the all-failed ones too. To be chosen: which have signal depends on the arms.
        rounds: how often a group may be replaced by one of another task; the last one stays, whatever it is.
    """

    drop: Literal["solved", "flat"]
    rounds: Count = 2


class RolloutSettings(SamplingSettings):
    """How trajectories are sampled for training.

    Attributes:
        tasks: groups an iteration, each of one train task.
        group_size: trajectories a group.
        shards: jobs that an iteration's groups are divided among.
        temperature: of sampling, 0.001 to 100; log-probabilities are recorded at it.
        save_groups: groups between saved progress within a shard; null: the shard is one piece.
        sampling: how an iteration's tasks are drawn, by what the arm's earlier iterations showed of them: "uniform":
            each once before one comes again; "learnable": likelier where success is neither sure nor hopeless;
            "hard": likelier where success is rare. See `progpo.curriculum`.
        dynamic: replace groups without signal; null: keep them.
        The rest: see `SamplingSettings`.
    """

    tasks: Count = 16
    group_size: Annotated[int, Field(ge=1)] = 8
    shards: Count = 2
    temperature: Annotated[float, Field(ge=LEAST_TEMPERATURE, le=MOST_TEMPERATURE)] = 1.0
    save_groups: Count | None = None
    sampling: Literal["uniform", "learnable", "hard"] = "uniform"
    dynamic: DynamicSettings | None = None

    @model_validator(mode="after")
    def _coherent(self) -> "RolloutSettings":
        if self.shards > self.tasks:
            raise ValueError(f"shards: {self.shards} shards for {self.tasks} groups leave some empty")
        return self


class UpdateSettings(TrainingSettings):
    """The policy update: PPO's clipped surrogate with a k3 KL term to the warm-up policy, AdamW.

    Attributes:
        epochs: passes over the iteration's trajectories.
        minibatches: optimiser steps a pass; trajectories, not steps, are divided among them.
        batch_tokens: most tokens of a forward pass (gradients accumulate over a minibatch).
        learning_rate, betas, weight_decay, max_gradient_norm: of AdamW.
        clip: the ratio is clipped to 1 +- clip.
        kl: coefficient of the k3 estimate of KL(policy || warm-up policy); 0: no reference model is loaded.
        loss: how token losses are averaged: "token_mean" over all tokens, "sequence_mean" over the trajectories'
            means, "constant": the sum over `constant_tokens` and the number of trajectories (Dr. GRPO).
        constant_tokens: see loss.
        old_logprobs: what the ratio is to: "rollout": the probabilities that the sampler recorded; "recompute": those
            that the update finds for the policy it starts from, one more forward pass, and the surrogate is weighted
            by the quotient of the two (see `progpo.policy.loss.importance_weights`).
        importance_cap: the largest such weight.
        precision, threads: as in the warm-up.
    """

    epochs: Count = 1
    minibatches: Count = 1
    batch_tokens: Count = 8192
    learning_rate: Annotated[float, Field(ge=0, le=1)] = 1e-4
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    weight_decay: NonNegative = 0.0
    max_gradient_norm: Positive = 1.0
    clip: Positive = 0.2
    kl: NonNegative = 0.01
    loss: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    constant_tokens: Count = 512
    old_logprobs: Literal["rollout", "recompute"] = "rollout"
    importance_cap: Positive = 2.0
    precision: Precision = "float32"
    threads: Count = 1


class EvaluationSettings(SamplingSettings):
    """How policies are judged: every listed task once for each evaluation seed.

    Attributes:
        splits: the splits to evaluate.
        temperature: of sampling, 0.001 to 100; 0: greedy.
        seeds: of sampling.
        tasks: at most so many tasks a split, evenly over the list; null: all.
        confidence: of the intervals (Wilson).
        The rest: see `SamplingSettings`.
    """

    splits: Annotated[tuple[str, ...], Field(min_length=1)] = ("valid_seen", "valid_unseen")
    temperature: Annotated[float, Field(ge=0, le=MOST_TEMPERATURE)] = 0.4
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    tasks: Count | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95

    @model_validator(mode="after")
    def _coherent(self) -> "EvaluationSettings":
        _check_sampling(self.temperature, splits=self.splits, seeds=self.seeds)
        return self


def _check_sampling(temperature: float, **lists: Sequence[Any]) -> None:
    if 0 < temperature < LEAST_TEMPERATURE:
        raise ValueError(
            f"temperature: {temperature:g} is between 0 (greedy) and {LEAST_TEMPERATURE:g}, the least to sample at"
        )
    for name, values in lists.items():
        if len(set(values)) < len(values):
            raise ValueError(f"{name}: one stands there twice ({', '.join(map(str, values))})")


class EvaluationSection(EvaluationSettings):
    """The `evaluation` section of a config.

    Attributes:
        of: which policy of each arm is evaluated for the report: the last iteration's, or that which is best by
            `validation`.
    """

    of: Literal["last", "best"] = "last"

    def settings(self) -> EvaluationSettings:
        """Return what the stage reads."""
        return EvaluationSettings(**self.model_dump(include=set(EvaluationSettings.model_fields)))


class ValidationSection(SamplingSettings):
    """The `validation` section of a config: evaluation during training, to watch it and to choose by.

    Attributes:
        every: validate each arm's iterations `every`, 2 `every`, ... and the last, and each seed's warm-up; null:
            none.
        split: whose tasks are played; best none that is reported on.
        tasks, temperature, seeds: as in `EvaluationSettings`.
        The rest: see `SamplingSettings`.
    """

    every: Count | None = None
    split: str = "validation"
    tasks: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=MOST_TEMPERATURE)] = 0.4
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)

    @model_validator(mode="after")
    def _coherent(self) -> "ValidationSection":
        _check_sampling(self.temperature, seeds=self.seeds)
        return self

    def settings(self, confidence: float = 0.95) -> EvaluationSettings:
        """Return what the stage reads."""
        common = self.model_dump(include=set(EvaluationSettings.model_fields))
        return EvaluationSettings(splits=(self.split,), confidence=confidence, **common)


class TrackingSection(Settings):
    """The `tracking` section of a config: experiment trackers that get the curves when a run is done.

    Attributes:
        to: which; each needs its package.
        online: whether they may send what they get to their servers; else it stays with the artifacts.
    """

    to: tuple[Literal["tensorboard", "wandb", "trackio"], ...] = ()
    online: bool = False


class CompareSection(Settings):
    """The `compare` section of a config: arms against one another.

    Attributes:
        base: the arm that all others are compared with; null: each with the arm of its own base estimator without
            progress, the others with the first arm.
        iterations: those at which the curves are tabulated in the Markdown; null: a few, evenly. (The other tables
            hold all.)
        resamples: of the bootstrap.
    """

    base: str | None = None
    iterations: tuple[Count, ...] | None = None
    resamples: Annotated[int, Field(ge=100)] = 5000
