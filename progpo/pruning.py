"""What `keep` removes of an arm: weights, optimiser state and rollouts that nothing to come is made from.

Only these large files go. The manifests stay as they were written, and beside each it is noted what was removed
(`progpo.artifacts.pruned`): first the note, then the files, so that a removal that was cut short can be told from
damage, and is completed by the next one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from progpo.artifacts import (
    FOLDER_MANIFEST,
    PRUNED,
    SUFFIX,
    clean_partial,
    matches,
    pruned,
    pruned_path,
    read_manifest,
    write_json,
)
from progpo.settings.keep import KeepSettings

#: The optimiser's state beside a policy, by pattern: only the next update reads it.
OPTIMIZER_FILES = ("optimizer*",)
#: Files that make a policy large.
WEIGHT_FILES = ("*.safetensors", "*.bin")
#: The output of the stage that removes, in an iteration's folder: what stays.
KEPT = "kept.json"
SHARDS = f"shard-*.parquet{SUFFIX}"


@dataclass(frozen=True)
class Stay:
    """The iterations of an arm of which something stays.

    Attributes:
        policies: weights.
        optimizer: the optimiser's state.
        rollouts: shards.
    """

    policies: frozenset[int]
    optimizer: frozenset[int]
    rollouts: frozenset[int]


@dataclass(frozen=True)
class Removal:
    """What is to be removed of one artifact.

    Attributes:
        artifact: its manifest.
        why: the setting, by the file's name.
    """

    artifact: Path
    why: Mapping[str, str]

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes of each of the files that is still there, by name."""
        files = {name: self.artifact.parent / name for name in self.why}
        return {name: file.stat().st_size for name, file in files.items() if file.is_file()}

    def apply(self) -> int:
        """Remove the files, and what a killed removal left; return how many bytes that freed."""
        clean_partial(pruned_path(self.artifact))
        sizes = self.sizes()
        noted = pruned(self.artifact)
        new = {name: {"bytes": size, "why": self.why[name]} for name, size in sizes.items() if name not in noted}
        if new:
            write_json(pruned_path(self.artifact), {"files": noted | new})
        for name in sizes:
            (self.artifact.parent / name).unlink(missing_ok=True)
        return sum(sizes.values())


def staying(keep: KeepSettings, iteration: int, best: int | None = None, needed: Collection[int] = ()) -> Stay:
    """Return what stays of an arm when an iteration is its latest.

    Args:
        keep: what the config says.
        iteration: the latest.
        best: the best by validation so far, if one is known.
        needed: iterations whose policies are still to be validated.
    """
    every = frozenset(range(1, iteration + 1))

    def latest(number: int | str) -> frozenset[int]:
        return every if isinstance(number, str) else frozenset(range(max(1, iteration - number + 1), iteration + 1))

    policies = frozenset({iteration, best or iteration}) if keep.policies == "best" else latest(keep.policies)
    policies |= every & frozenset(needed)
    return Stay(policies, policies & latest(keep.optimizer), latest(keep.rollouts))


def removals(arm: Path, iteration: int, keep: KeepSettings, stay: Stay) -> list[Removal]:
    """Return what is to be removed of an arm up to an iteration; what was removed before is not named again.

    The first iteration's rollouts are shared by the arms, also by those that are added later: they lie elsewhere, and
    stay.

    Args:
        arm: its folder, `.../seed-<seed>/<arm>`.
        iteration: later ones are left alone.
        keep: what the config says, for the note.
        stay: see `staying`.
    """
    found = []
    for number in range(1, iteration + 1):
        folder = arm / f"iteration-{number:03d}"
        policy = folder / "policy" / FOLDER_MANIFEST
        if policy.exists():
            why = {}
            for name in read_manifest(policy).files:
                if matches(name, OPTIMIZER_FILES):
                    if number not in stay.optimizer:
                        gone = number not in stay.policies
                        why[name] = f"policies: {keep.policies}" if gone else f"optimizer: {keep.optimizer}"
                elif matches(name, WEIGHT_FILES) and number not in stay.policies:
                    why[name] = f"policies: {keep.policies}"
            found.append(Removal(policy, why))
        if number not in stay.rollouts:
            for manifest in sorted(folder.glob(SHARDS)):
                found.append(Removal(manifest, {manifest.name.removesuffix(SUFFIX): f"rollouts: {keep.rollouts}"}))
    return [removal for removal in found if removal.sizes()]


def removed(root: Path) -> dict[Path, dict[str, int]]:
    """Return what was removed below a folder: by artifact (its manifest) the size in bytes of each file, by name."""
    places = (place.with_name(place.name.removesuffix(PRUNED) + FOLDER_MANIFEST) for place in root.rglob(f"*{PRUNED}"))
    return {
        place: {name: entry["bytes"] for name, entry in pruned(place).items() if not (place.parent / name).exists()}
        for place in sorted(places)
    }


def without_weights(files: Iterable[str]) -> bool:
    """Return whether a policy from which these files were removed cannot play any more."""
    return any(matches(name, WEIGHT_FILES) and not matches(name, OPTIMIZER_FILES) for name in files)


def in_words(found: Mapping[Path, Mapping[str, int]]) -> str:
    """Return in words what was, or would be, removed (see `removed`); empty if that is nothing."""
    weights = sum(without_weights(files) for files in found.values())
    states = sum(any(matches(name, OPTIMIZER_FILES) for name in files) for files in found.values())
    shards = sum(name.endswith(".parquet") for files in found.values() for name in files)
    parts = [
        f"{what} of {number} {'policy' if number == 1 else 'policies'}"
        for number, what in ((weights, "the weights"), (states, "the optimiser state"))
        if number
    ]
    parts += [f"{shards} rollout {'shard' if shards == 1 else 'shards'}"] if shards else []
    size = sum(size for files in found.values() for size in files.values())
    return f"{', '.join(parts)} ({size / 1e6:,.0f} MB)" if parts else ""
