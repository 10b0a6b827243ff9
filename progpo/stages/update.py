"""Stage `update`: a policy and an iteration's trajectories and advantages in, the next policy out."""

import json
import shutil
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from progpo.advantages.table import read_advantages
from progpo.alarms import of_update, print_alarms
from progpo.artifacts import (
    FOLDER_MANIFEST,
    atomic_folder,
    check,
    check_file,
    clean_partial,
    folder_of,
    manifest_path,
    recorded_input,
    refuse_pruned,
    sha256,
    write_json,
)
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import SETTINGS_FILE, Policy, load_policy, write_policy_manifest
from progpo.policy.portable import prepare
from progpo.processes import place
from progpo.results import read_metrics
from progpo.settings.stages import UpdateSettings
from progpo.trajectories.read import read_shards
from progpo.trajectories.schema import Metadata

if TYPE_CHECKING:
    from progpo.policy.lora import Adapters
    from progpo.policy.update import Updater

#: The optimiser's moments, and what else the next update must know.
MOMENTS_FILE, TRAINING_FILE = "optimizer.safetensors", "training.json"
#: In the latter, the fingerprint of the policy that adapters lie on.
BASE = "adapter_base"


def run(
    settings: UpdateSettings,
    policy: Path,
    reference: Path | None,
    shards: Sequence[Path],
    advantages: Path,
    seed: int,
    iteration: int,
    output: Path,
    metrics: Path,
    strict: bool = False,
    first: Path | None = None,
) -> None:
    """Update a policy on one iteration.

    Args:
        settings: of the update.
        policy: the folder (or its manifest) of the policy that sampled the shards.
        reference: that of the policy that KL is measured to; not read where `settings.kl` is 0.
        shards: all shards of the iteration, in any order.
        advantages: made from these shards.
        seed, iteration: key of the random streams.
        output: folder of the new policy, or the manifest in it.
        metrics: JSON file.
        strict: whether inputs must have manifests, and shards metadata.
        first: the metrics of the arm's first update, for the alarms that compare with them (`progpo.alarms`).

    Raises:
        ProgpoError: inputs that are damaged or do not belong together, or torch loaded by another arithmetic than a
            portable one.
    """
    prepare(settings.precision)
    folder, here = folder_of(output), place()
    if here.main:
        clean_partial(folder)
        clean_partial(metrics)
    policy, shards = folder_of(policy), sorted(shards)
    # Sharding and adapters need the modules of transformers.
    stock = bool(settings.lora) or settings.strategy == "fsdp"
    given = load_policy(policy, strict, stock=stock)
    sequences, trajectories, metadata = _read(given, policy, shards, advantages, iteration, strict)
    temperature = metadata.temperature if metadata and metadata.temperature else 1.0
    inputs = [recorded_input(policy, SETTINGS_FILE), *shards, advantages]
    before = _read_training(policy)
    target = None
    if settings.kl or (settings.lora and BASE in before):
        target = _load_reference(reference, given, strict, stock)
        inputs.append(recorded_input(folder_of(reference), SETTINGS_FILE))

    import torch

    from progpo.policy.trained import Trained
    from progpo.policy.update import Updater

    torch.set_num_threads(settings.threads)
    base = given.fingerprint
    adapters = _attach(settings, given, target, policy, before, seed)
    signal = bool(settings.kl) or any(item.advantages.any() for item in sequences)
    updater = Updater(given.model, adapters or (target and target.model), settings)
    _restore(updater, policy, before)
    if here.main:
        print(
            f"update: iteration {iteration}: {trajectories} trajectories, {len(sequences)} sequences", file=sys.stderr
        )
    found = updater.update(sequences, trajectories, temperature, seed, iteration)
    found |= {"iteration": iteration, "temperature": temperature, "signal": signal}
    trained, moments = Trained(given, updater.optimisation, adapters), updater.optimisation.state()
    if not here.main:
        return
    found["alarms"] = of_update(found, read_metrics(first, strict))
    training = {
        "updates": before.get("updates", 0) + 1,
        "optimizer_steps": updater.optimisation.steps,
        "random_streams": {"seed": seed, "iteration": iteration},
    }
    with atomic_folder(folder) as temporary:
        if signal:
            if adapters is not None:
                training[BASE] = before.get(BASE, base)
            trained.save(temporary)
            _save_moments(moments, temporary)
        else:
            _copy(policy, temporary)
            training |= {BASE: before[BASE]} if BASE in before else {}
        write_json(temporary / TRAINING_FILE, training)
        write_json(metrics, found)
        write_policy_manifest(given, temporary, folder, "update", settings, metrics, inputs, seed, iteration)
    print(_summary(found), file=sys.stderr)
    print_alarms("update", found["alarms"])


def _read(
    policy: Policy, folder: Path, shards: Sequence[Path], advantages: Path, iteration: int, strict: bool
) -> tuple[list[Any], int, Metadata | None]:
    """Read shards and advantages, make sure that all belongs together, and make sequences."""
    from progpo.policy.rendering import make_renderer
    from progpo.policy.sequences import CHOICES, COLUMNS, make_sequences

    constrained = policy.settings.constrained
    table, every = read_shards(shards, (*COLUMNS, *CHOICES) if constrained else COLUMNS, strict=strict)
    metadata = next((item for item in every if item is not None), None)
    if metadata:
        if metadata.kind != "rollout":
            raise ProgpoError(f"{shards[0]}: holds {metadata.kind}s; an update learns from rollouts")
        if metadata.policy != policy.fingerprint:
            raise ProgpoError(
                f"{shards[0]}: sampled by the policy with fingerprint {metadata.policy}, but {folder} has "
                f"{policy.fingerprint}; update the policy that sampled the shards, or roll out with this one"
            )
        if metadata.iteration != iteration:
            raise ProgpoError(
                f"{shards[0]}: of iteration {metadata.iteration}, not {iteration}; give its number (--iteration)"
            )
        if metadata.layout != policy.settings.resolved_layout:
            raise ProgpoError(
                f"{shards[0]}: context layout {metadata.layout!r}, the policy's is "
                f"{policy.settings.resolved_layout!r}; roll out anew"
            )
        # Where metadata do not say, a policy that was free has no admissible actions recorded.
        unsaid = constrained and metadata.choices is None
        free = unsaid and not pc.max(pc.list_value_length(table["admissible"])).as_py()
        if free or metadata.choices not in (None, policy.settings.choices):
            raise ProgpoError(
                f"{shards[0]}: sampled from {_among(metadata.choices)} (policy.constrained, policy.no_repeat), the "
                f"policy chooses among {_among(policy.settings.choices)}; "
                "roll out anew"
            )
    estimated, facts = read_advantages(advantages, strict=strict)
    _check_advantages(advantages, facts, shards, metadata)
    choices = make_renderer(policy).choices if constrained else None
    sequences, trajectories = make_sequences(table, estimated, policy.settings.resolved_layout, choices)
    return sequences, trajectories, metadata


def _among(choices: str | None) -> str:
    return f"the {choices} actions" if choices else "all texts"


def _check_advantages(
    advantages: Path, facts: Mapping[str, Any], shards: Sequence[Path], metadata: Metadata | None
) -> None:
    """Refuse advantages that were not made from these shards."""
    remedy = "run `progpo advantages` on all the shards of this iteration"
    if metadata and facts.get("policy") not in (None, metadata.policy):
        raise ProgpoError(
            f"{advantages}: of trajectories of policy {facts['policy']}, the shards are of {metadata.policy}; {remedy}"
        )
    manifest = check(advantages, strict=False)
    if manifest is None:
        warnings.warn(f"{advantages} has no manifest: cannot check which shards it was made from", stacklevel=2)
        return
    places = [manifest_path(shard) for shard in shards]
    ours = {sha256(place if place.exists() else shard): shard for place, shard in zip(places, shards, strict=True)}
    theirs = {digest: name for name, digest in manifest.inputs.items()}
    for digest, shard in ours.items():
        if digest not in theirs:
            raise ProgpoError(f"{advantages}: not made from {shard} as it is now; {remedy}")
    for digest, name in theirs.items():
        if digest not in ours:
            raise ProgpoError(f"{advantages}: made from {name} too, which was not given; {remedy}, or name that one")


def _load_reference(reference: Path | None, policy: Policy, strict: bool, stock: bool) -> Policy:
    if reference is None:
        raise ProgpoError(
            "update.kl is not 0, or adapters are to be put on the policy that they were trained on, and no reference "
            "policy is given; name the warm-up policy (--reference) or set kl: 0"
        )
    loaded = load_policy(folder_of(reference), strict, stock=stock)
    if loaded.tokenizer_fingerprint != policy.tokenizer_fingerprint:
        raise ProgpoError(
            f"{reference}: its tokenizer is not that of the policy; give the warm-up policy that this run started from"
        )
    return loaded


def _attach(
    settings: UpdateSettings, given: Policy, target: Policy | None, folder: Path, training: Mapping[str, Any], seed: int
) -> "Adapters | None":
    """Give the policy its adapters, where it is to have them.

    Adapters that an earlier update trained lie on the reference: its model becomes the policy's. New ones are put on
    the policy as it is, which must then be the reference itself. Either way one model is both.
    """
    if not settings.lora:
        if BASE in training:
            raise ProgpoError(f"{folder}: was trained by adapters, whose optimiser state is there; set `update.lora`")
        return None
    from progpo.policy.lora import Adapters

    base = training.get(BASE, given.fingerprint)
    if training.get("optimizer_steps") and BASE not in training:
        raise ProgpoError(f"{folder}: all its weights were trained, and it has no adapters; leave out `update.lora`")
    if target is not None and target.fingerprint != base:
        raise ProgpoError(
            f"{folder}: its adapters lie on the policy with fingerprint {base}, the reference has "
            f"{target.fingerprint}; give as --reference the policy that the first update started from"
        )
    if target is not None:
        given.model = target.model
    adapters = Adapters(given.model, settings.lora, seed)
    if BASE in training:
        adapters.load(folder)
    return adapters


def _read_training(policy: Path) -> dict[str, Any]:
    """Return what the last update left to know; nothing for a policy that comes from a warm-up."""
    file = policy / TRAINING_FILE
    if not file.exists():
        return {}
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ProgpoError(f"{file}: cannot be read ({error}); rerun the update that makes it") from None


def _restore(updater: "Updater", policy: Path, training: Mapping[str, Any]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not training.get("optimizer_steps"):
        return
    file = policy / MOMENTS_FILE
    refuse_pruned(policy)
    if file.exists():
        check_file(file, policy, strict=False)
    try:
        moments = load_file(file)
    except (OSError, SafetensorError) as error:
        raise ProgpoError(f"{file}: missing or damaged ({error}); rerun the update that makes it") from None
    updater.optimisation.restore(moments, training["optimizer_steps"], file)


def _save_moments(moments: Mapping[str, Any], folder: Path) -> None:
    from safetensors.torch import save_file

    if moments:
        save_file(dict(moments), folder / MOMENTS_FILE)


def _copy(policy: Path, place: Path) -> None:
    """Copy a policy's files as they are."""
    for file in policy.rglob("*"):
        if file.is_file() and file != policy / FOLDER_MANIFEST:
            target = place / file.relative_to(policy)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def _summary(found: Mapping[str, Any]) -> str:
    if not found["signal"]:
        return "update: all advantages are 0 and there is no KL term: the policy stays as it is"
    parts = [
        f"{name.replace('_', ' ')} {found[name]:.4g}"
        for name in ("loss", "kl", "entropy", "clip_fraction", "ratio_max", "gradient_norm", "logprob_difference")
        if found[name] is not None
    ]
    return f"update: {found['optimizer_steps']} optimiser steps; " + ", ".join(parts)
