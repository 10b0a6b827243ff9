"""Stage `keep`: what a config lets go of an arm is removed, as soon as nothing to come is made from it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from progpo import launch
from progpo.artifacts import FOLDER_MANIFEST, clean_partial, write_json
from progpo.errors import ProgpoError
from progpo.pruning import Removal, in_words, removals, staying
from progpo.results import SUMMARY
from progpo.settings.base import validate
from progpo.settings.experiment import Experiment, validated_iterations
from progpo.settings.keep import KeepStage
from progpo.stages.best import choose
from progpo.status import noted


def run(settings: KeepStage, arm: Path, iteration: int, output: Path, strict: bool = False) -> None:
    """Remove what does not stay of an arm whose latest iteration is done.

    All that reads the earlier iterations must be done: the workflow sees to it.

    Args:
        settings: what stays.
        arm: its folder, `.../seed-<seed>/<arm>`.
        iteration: the latest: its policy and validation (if it has one) are there.
        output: JSON file: the iterations of which policies, optimizer and rollouts stay.
        strict: whether validations must be listed in manifests.

    Raises:
        ProgpoError: no such iteration, or validations that are missing or damaged where the best stays.
    """
    clean_partial(output)
    if not _policy(arm, iteration).exists():
        raise ProgpoError(f"{arm}: has no iteration {iteration} that is done")
    best = None
    if settings.keep.policies == "best":
        if settings.every is None:
            raise ProgpoError(
                "keep.policies: `best` is told by validation: settings need `every`, as validation has it"
            )
        best = _best(_candidates(arm, iteration, settings.every), strict)
    stay = staying(settings.keep, iteration, best)
    found = removals(arm, iteration, settings.keep, stay)
    words = in_words({removal.artifact: removal.sizes() for removal in found})
    for removal in found:
        removal.apply()
    write_json(
        output,
        {
            "keep": settings.keep.model_dump(mode="json"),
            "iteration": iteration,
            "policies": sorted(stay.policies),
            "optimizer": sorted(stay.optimizer),
            "rollouts": sorted(stay.rollouts),
        },
    )
    print(f"keep: removed {words or 'nothing'}", file=sys.stderr)


def prune(
    root: Path, changes: Mapping[str, Any], config: Path | None = None, dry_run: bool = False
) -> dict[Path, dict[str, int]]:
    """Remove what need not stay of an experiment that no run works on.

    What a run that is taken up or extended would read stays: of each arm the latest iteration, and policies whose
    validation is not done.

    Args:
        root: the experiment's folder.
        changes: keys of `keep` that are not to be as in the run's settings.
        config: the run's config, whole; else the settings that the workflow noted.
        dry_run: whether nothing is removed.

    Returns:
        By artifact (its manifest), the size in bytes of each file that was, or would be, removed, by name.

    Raises:
        ProgpoError: a run works there or was killed, settings that are not known or say that all stays.
    """
    if not root.is_dir():
        raise ProgpoError(f"{root}: no such folder")
    # Of `artifacts` that is a link, say to a cluster's scratch, the run's lock lies beside the link.
    homes = {place.parent.parent.resolve() for place in (root.absolute(), root.resolve())}
    if any(launch.alive(home) or launch.locked(home) or launch.interrupted(home) for home in homes):
        raise ProgpoError(
            f"{root}: a run works there, or was killed and left its lock; wait for it, or take it up and let it end"
        )
    experiment = noted(root, config)
    if experiment is None:
        raise ProgpoError(f"{root}: the run's settings are not noted there; name its config with --configfile")
    settings = experiment.model_dump(mode="json")
    settings["keep"] |= changes
    experiment = validate(Experiment, settings, "prune")
    if experiment.keep.everything:
        raise ProgpoError(f"{root}: `keep` says that all stays; say what less is: --policies, --optimizer, --rollouts")
    found: list[Removal] = []
    for seed in experiment.seeds:
        for arm in experiment.arms:
            found += _of_arm(root / f"seed-{seed}" / arm, experiment)
    sizes = {removal.artifact: removal.sizes() for removal in found}
    if not dry_run:
        for removal in found:
            removal.apply()
    return sizes


def _of_arm(arm: Path, experiment: Experiment) -> list[Removal]:
    latest = 0
    while latest < experiment.iterations and _policy(arm, latest + 1).exists():
        latest += 1
    if latest == 0:
        return []
    every = experiment.validation.every
    wanted = [number for number in validated_iterations(experiment.iterations, every) if number <= latest]
    pending = [number for number in wanted if not _validation(arm, number).exists()]
    best = None
    if experiment.keep.policies == "best":
        known = [file for file in _candidates(arm, latest, every) if file.exists()]
        best = _best(known, strict=True) if known else None
    return removals(arm, latest, experiment.keep, staying(experiment.keep, latest, best, pending))


def _candidates(arm: Path, iteration: int, every: int) -> list[Path]:
    """Return the validations that the best is chosen by, however many iterations are added later.

    The last iteration's, where its number is no multiple of `every`, is not among them: it stays as the latest.
    """
    return [_validation(arm, number) for number in range(every, iteration + 1, every)]


def _best(validations: Sequence[Path], strict: bool) -> int | None:
    return choose(validations, strict)["iteration"] if validations else None


def _policy(arm: Path, iteration: int) -> Path:
    return arm / f"iteration-{iteration:03d}" / "policy" / FOLDER_MANIFEST


def _validation(arm: Path, iteration: int) -> Path:
    return arm / f"iteration-{iteration:03d}" / "validation" / SUMMARY
