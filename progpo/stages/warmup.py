"""Stage `warmup`: demonstrations in, a policy that imitates them out."""

import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import envs
from progpo import __version__
from progpo.artifacts import (
    atomic,
    atomic_folder,
    clean_partial,
    folder_of,
    manifest_path,
    recorded_input,
    sha256,
    write_json,
)
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import (
    SETTINGS_FILE,
    Policy,
    create_scratch,
    load_policy,
    load_pretrained,
    write_policy_manifest,
)
from progpo.policy.portable import prepare
from progpo.processes import place
from progpo.settings import canonical
from progpo.settings.experiment import WarmupStage
from progpo.settings.stages import PolicySettings
from progpo.trajectories.read import read_shard, to_trajectories
from progpo.trajectories.records import Trajectory

if TYPE_CHECKING:
    from progpo.policy.rendering import Renderer
    from progpo.policy.warmup import Warmup

#: What a demonstration is read for.
COLUMNS = (
    *("task", "task_type", "observation", "next_observation", "action", "valid", "reward"),
    *("terminated", "truncated", "imitate"),
)

#: Points of the exercises' curve whose mean loss is reported.
RECALL_POINTS = 20


def run(
    settings: WarmupStage,
    demonstrations: Sequence[Path],
    seed: int,
    output: Path,
    metrics: Path,
    strict: bool = False,
    given: Path | None = None,
) -> None:
    """Make the policy, or take one, and train it on demonstrations.

    Every `save_every` optimiser steps the state is saved in `<output folder>.progress`, from which a killed run goes
    on, to the same bits. Of several processes the first alone writes.

    Args:
        settings: the policy, how to warm it up, and the environment (for the augmentation of its texts).
        demonstrations: Parquet files; their order changes nothing.
        seed: of weights, order and names.
        output: folder of the policy, or the manifest in it.
        metrics: JSON file: totals, and the learning curve.
        strict: whether the inputs must have manifests.
        given: folder, or manifest, of the policy to go on from, with a new optimiser; its own settings
            hold then, not the `policy` section's. None: it is made.

    Raises:
        ProgpoError: demonstrations or a checkpoint that cannot be used, or torch loaded by another arithmetic than a
            portable one.
    """
    prepare(settings.warmup.precision)
    import torch

    from progpo.policy.lessons import Lessons
    from progpo.policy.precision import compute_dtype
    from progpo.policy.rendering import make_renderer
    from progpo.policy.trained import Trained
    from progpo.policy.warmup import Warmup

    folder, here = folder_of(output), place()
    if here.main:
        clean_partial(folder)
        clean_partial(metrics)
    torch.set_num_threads(settings.warmup.threads)
    demonstrations = sorted(demonstrations)
    inputs = [*demonstrations]
    if given is None:
        shown = _read(demonstrations, settings.policy, strict)
        policy = _make(settings, shown, seed)
    else:
        if settings.warmup.lora:
            raise ProgpoError("warmup.lora: not for a policy that is gone on from; leave it out")
        if settings.warmup.recall:
            raise ProgpoError(
                "warmup.recall: for a policy from scratch, not for one that is gone on from; leave it out"
            )
        policy = load_policy(given, strict, stock=settings.warmup.strategy == "fsdp")
        # What holds, and so what is recorded.
        settings = settings.model_copy(update={"policy": policy.settings})
        shown = _read(demonstrations, policy.settings, strict)
        inputs.append(recorded_input(folder_of(given), SETTINGS_FILE))
    adapters = None
    if settings.warmup.lora:
        from progpo.policy.lora import Adapters

        adapters = Adapters(policy.model, settings.warmup.lora, seed)
    renderer = make_renderer(policy)
    augment = envs.entry(settings.environment).load("augment") if settings.warmup.augment else None
    observations = settings.warmup.observation_loss > 0
    lessons = Lessons(shown, renderer, augment, observations, seed)
    warmup = Warmup(policy.model, lessons, settings.warmup)
    progress = _Progress(folder, _key(settings, inputs, seed))
    progress.load(warmup)
    size = sum(item.numel() for item in policy.model.parameters())
    dtype = str(compute_dtype(settings.warmup.precision)).removeprefix("torch.")
    if here.main:
        shape = f"{size} parameters, vocabulary {policy.model.config.vocab_size}, {dtype}"
        print(f"warmup: {len(shown)} demonstrations, {shape}", file=sys.stderr)
    if settings.warmup.recall and not warmup.done:
        progress.recall = _exercise(policy, renderer, shown, settings, seed)
        # A new optimiser: its moments would be those of the exercises.
        warmup = Warmup(policy.model, lessons, settings.warmup)
    warmup.train(lambda: progress.save(warmup))
    trained = Trained(policy, warmup.optimisation, adapters)
    if not here.main:
        return
    found = {
        "demonstrations": len(shown),
        "lessons": warmup.consumed,
        "parameters": size,
        "vocabulary": policy.model.config.vocab_size,
        "precision": dtype,
        "recall": progress.recall,
        "tokens": warmup.done,
        "optimizer_steps": warmup.optimisation.steps,
        "final": warmup.curve[-1],
        "curve": warmup.curve,
    }
    with atomic_folder(folder) as temporary:
        trained.save(temporary)
        write_json(metrics, found)
        write_policy_manifest(policy, temporary, folder, "warmup", settings, metrics, inputs, seed, iteration=0)
    progress.remove()
    last = warmup.curve[-1]
    print(
        f"warmup: {warmup.done} tokens in {warmup.optimisation.steps} steps; loss of actions {last['action_loss']:.3f}",
        file=sys.stderr,
    )


def _exercise(
    policy: Policy, renderer: "Renderer", shown: Sequence[Trajectory], settings: WarmupStage, seed: int
) -> dict[str, dict[str, float | int]]:
    """Train a new policy on exercises in recall; return for each kind what was done, and the loss of the last answers.

    Raises:
        ProgpoError: too few things to make them of.
    """
    from progpo.policy.recall import Bare, Exercises, Told
    from progpo.policy.warmup import Warmup

    recall = settings.warmup.recall
    exercises: list[tuple[str, Exercises, int]] = [("bare", Bare(policy.tokenizer.get_vocab(), seed), recall.tokens)]
    if recall.told_tokens:
        drawn = envs.entry(settings.environment).load("exercises")
        episodes = ([*(step.observation for step in item.steps), item.steps[-1].next_observation] for item in shown)
        exercises.append(("told", Told(drawn(episodes), renderer, seed), recall.told_tokens))
    found = {}
    constant = {"min_learning_rate_ratio": 1.0, **recall.model_dump(exclude={"told_tokens"})}
    for name, source, tokens in exercises:
        changed = settings.warmup.model_copy(update={**constant, "tokens": tokens})
        warmup = Warmup(policy.model, source, changed, label=f"recall, {name}")
        warmup.train()
        last = fmean(point["action_loss"] for point in warmup.curve[-RECALL_POINTS:])
        found[name] = {"tokens": warmup.done, "optimizer_steps": warmup.optimisation.steps, "loss": last}
    return found


def _read(demonstrations: Sequence[Path], policy: PolicySettings, strict: bool) -> list[Trajectory]:
    """Read demonstrations; the lists of admissible actions, which are long, only where prompts tell them."""
    shown: list[Trajectory] = []
    for path in demonstrations:
        optional = ("admissible",) if policy.lists_admissible else ()
        table, metadata = read_shard(path, COLUMNS, strict=strict, optional=optional)
        if metadata and metadata.kind != "demonstration":
            raise ProgpoError(f"{path}: holds {metadata.kind}s, not demonstrations; see `progpo demonstrate`")
        shown += to_trajectories(table)
    if not shown:
        raise ProgpoError(f"{', '.join(map(str, demonstrations))}: no demonstration to learn from")
    if policy.lists_admissible and not any(step.admissible for item in shown for step in item.steps):
        raise ProgpoError(
            "policy.admissible: the demonstrations do not tell the admissible actions; make them anew with "
            "`progpo demonstrate`, or set `admissible: false`"
        )
    return shown


def _make(settings: WarmupStage, shown: Sequence[Trajectory], seed: int) -> Policy:
    """Make the policy as it is before training."""
    if settings.policy.init == "pretrained":
        policy = load_pretrained(settings.policy)
    else:
        texts = []
        for trajectory in shown:
            for step in trajectory.steps:
                texts += [step.observation, step.action]
            texts.append(trajectory.steps[-1].next_observation)
        policy = create_scratch(settings.policy, texts, seed)
    return policy


def _key(settings: WarmupStage, inputs: Sequence[Path], seed: int) -> str:
    """Return what a saved state must agree in to be taken up."""
    import torch

    places = [manifest_path(path) for path in inputs]
    digests = [sha256(place if place.exists() else path) for place, path in zip(places, inputs, strict=True)]
    parts = [canonical(settings), digests, seed, __version__, torch.__version__]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Progress:
    """The saved state of an unfinished warm-up: one file, beside the output.

    Attributes:
        recall: what the exercises came to, if there were any.
    """

    recall: dict[str, dict[str, float | int]] | None = None

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder.with_name(folder.name + ".progress")
        self._file = self._folder / "state.safetensors"
        self._key = key

    def save(self, warmup: "Warmup") -> None:
        """Write the state; all processes must take part."""
        from safetensors.torch import save_file

        tensors = {f"model/{name}": item for name, item in warmup.optimisation.weights(trained=True).items()}
        tensors |= {f"optimizer/{name}": item for name, item in warmup.optimisation.state().items()}
        if not place().main:
            return
        facts = {
            "key": self._key,
            "steps": warmup.optimisation.steps,
            "done": warmup.done,
            "consumed": warmup.consumed,
            "recall": self.recall,
            "curve": warmup.curve,
        }
        clean_partial(self._file)
        with atomic(self._file) as temporary:
            save_file(tensors, temporary, {"facts": json.dumps(facts)})

    def load(self, warmup: "Warmup") -> None:
        """Take up a saved state, if there is one of the same settings and inputs; else remove it."""
        from safetensors import SafetensorError, safe_open

        if not self._folder.exists():
            return
        try:
            with safe_open(self._file, "pt") as opened:
                facts: dict[str, Any] = json.loads(opened.metadata()["facts"])
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError):
            facts, tensors = {}, {}
        if facts.get("key") != self._key:
            if place().main:
                print(f"warmup: {self._folder} is of other settings or inputs: not taken up, removed", file=sys.stderr)
                self.remove()
            return
        parts: dict[str, dict[str, Any]] = {"model": {}, "optimizer": {}}
        for name, item in tensors.items():
            kind, _, rest = name.partition("/")
            parts[kind][rest] = item
        warmup.optimisation.load_weights(parts["model"])
        warmup.optimisation.restore(parts["optimizer"], facts["steps"], self._file)
        warmup.done, warmup.consumed, warmup.curve = facts["done"], facts["consumed"], facts["curve"]
        self.recall = facts["recall"]
        if place().main:
            print(f"warmup: goes on after {warmup.done} tokens, from {self._folder}", file=sys.stderr)

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
