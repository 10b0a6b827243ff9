"""Artifacts on disk: atomic writes, and manifests by which damage is noticed.

Each stage writes one manifest, last, with the SHA-256 of every file that it made and of every manifest that it was
made from. A single file's manifest stands beside it (`shard-00.parquet.manifest.json`); that of a folder inside it
(`policy/manifest.json`). Consumers check the hashes of what they read.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from progpo import __version__
from progpo.errors import ProgpoError

FORMAT = 1
FOLDER_MANIFEST = "manifest.json"
SUFFIX = ".manifest.json"
#: Beside a manifest: what was removed of its files to save space. The manifest stays as its stage wrote it, so that
#: nothing that was made from the artifact is out of date.
PRUNED = "pruned.json"
#: What an unfinished write is called; never the name of an artifact.
PARTIAL = ".partial"
#: A folder that holds one of these was made by a stage (Snakemake removes the manifest before it runs one again).
MARKERS = (FOLDER_MANIFEST, "progpo.json", "tasks.jsonl", "tracking.json")


@dataclass(frozen=True)
class Manifest:
    """What a stage made, from what.

    Attributes:
        stage: the command that made it.
        settings: the stage's settings.
        files: SHA-256 by path relative to the manifest's folder.
        inputs: SHA-256 of each input's manifest (of the file itself, where it has none), by path relative to the
            manifest's folder.
        facts: what consumers want to know without opening the files (fingerprints, seed, iteration, ...).
        version: of this package.
        format: of the manifest.
    """

    stage: str
    settings: Mapping[str, Any]
    files: Mapping[str, str]
    inputs: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__
    format: int = FORMAT


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest_path(artifact: Path) -> Path:
    """Return where the manifest of an artifact (a folder, its manifest, or a file) stands."""
    if artifact.name == FOLDER_MANIFEST or artifact.name.endswith(SUFFIX):
        return artifact
    if artifact.is_dir():
        return artifact / FOLDER_MANIFEST
    return artifact.with_name(artifact.name + SUFFIX)


def folder_of(artifact: Path) -> Path:
    """Return the folder that is meant: the path itself, or that of the manifest which the path is."""
    return artifact.parent if artifact.name == FOLDER_MANIFEST else artifact


def recorded_input(folder: Path, main: str) -> Path:
    """Return the manifest of a folder (or manifest) that was given as input, or its main file where it has none."""
    place = manifest_path(folder)
    return place if place.exists() else folder / main


def pruned_path(artifact: Path) -> Path:
    """Return where it is noted which of an artifact's files were removed to save space."""
    place = manifest_path(artifact)
    return place.with_name(place.name.removesuffix(FOLDER_MANIFEST) + PRUNED)


def pruned(artifact: Path) -> dict[str, dict[str, Any]]:
    """Return what was removed of an artifact to save space (`progpo.pruning`).

    Returns:
        By the file's path relative to the manifest's folder: `bytes`, its size, and `why`, the setting; empty if
        nothing was removed.

    Raises:
        ProgpoError: the note of it cannot be read.
    """
    place = pruned_path(artifact)
    try:
        files = json.loads(place.read_text(encoding="utf-8"))["files"]
        return {name: {"bytes": int(entry["bytes"]), "why": str(entry["why"])} for name, entry in files.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProgpoError(f"{place}: not a readable note of what was pruned ({error}); delete it") from None


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is flushed to disk and takes the name, else it is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # the first error is the one to tell
            temporary.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, keys sorted."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder; on success it replaces `folder`, else it is removed.

    Between the removal of the old folder and the renaming there is no folder, never half of one.

    Raises:
        ProgpoError: the folder holds something, and no stage made it.
    """
    _refuse_foreign(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}{PARTIAL}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
        shutil.rmtree(folder, ignore_errors=True)
        temporary.replace(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _refuse_foreign(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()) and not any((folder / name).exists() for name in MARKERS):
        raise ProgpoError(f"{folder}: holds other things than a stage's output, which would be lost; name a new folder")


def guard(outputs: Sequence[Path], inputs: Sequence[Path] = (), folder: Path | None = None) -> None:
    """Refuse outputs that could not be written, or that would destroy something, before any work is done.

    Args:
        outputs: files.
        inputs: files and folders that the stage reads.
        folder: the folder that the stage makes, or its manifest.

    Raises:
        ProgpoError: two outputs in one place, an output on an input or inside the folder, a folder in a file's place
            or the reverse, a folder that no stage made, a place that cannot be written to.
    """
    places = list(outputs)
    if folder is not None:
        folder = folder_of(folder)
        places.append(folder)
        _refuse_foreign(folder)
        if folder.exists() and not folder.is_dir():
            raise ProgpoError(f"{folder}: is a file; name a folder")
    taken = {item.resolve() for item in inputs}
    for place in places:
        resolved = place.resolve()
        if resolved in taken:
            raise ProgpoError(f"{place}: is an input or another output too; name another file")
        taken.add(resolved)
        if place is not folder:
            if place.is_dir():
                raise ProgpoError(f"{place}: is a folder; name a file")
            if folder is not None and folder.resolve() in resolved.parents:
                raise ProgpoError(f"{place}: lies in {folder}, which is made anew; name a file beside it")
        home = next(parent for parent in resolved.parents if parent.exists())
        if not home.is_dir():
            raise ProgpoError(f"{place}: {home} is a file, not a folder")
        if not os.access(home, os.W_OK | os.X_OK):
            raise ProgpoError(f"{place}: {home} cannot be written to; name another place, or change its permissions")


def clean_partial(path: Path) -> None:
    """Remove what killed writers of `path` left beside it."""
    for left in path.parent.glob(f"{path.name}.*{PARTIAL}"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


def write_manifest(
    artifact: Path,
    stage: str,
    settings: Mapping[str, Any],
    files: Sequence[Path],
    inputs: Sequence[Path] = (),
    facts: Mapping[str, Any] | None = None,
    at: Path | None = None,
) -> Manifest:
    """Write the manifest of an artifact, last of all that a stage writes.

    Args:
        artifact: the folder, or the stage's main file.
        files: all the files it is made of (those outside a folder that is being made, like metrics beside a policy,
            must lie beside the folder: the temporary one is its sibling).
        inputs: artifacts it was made from.
        at: where `artifact` will stand, when it is being made in a temporary folder: inputs are recorded relative
            to that place.
    """
    place = manifest_path(artifact)
    # Of the files that are replaced.
    pruned_path(place).unlink(missing_ok=True)
    home = manifest_path(at).parent if at and at.suffix else (at or place.parent)
    recorded = {}
    for item in inputs:
        source = manifest_path(item)
        source = source if source.exists() else item
        recorded[os.path.relpath(source.resolve(), home.resolve())] = sha256(source)
    manifest = Manifest(
        stage=stage,
        settings=settings,
        files={Path(os.path.relpath(file, place.parent)).as_posix(): sha256(file) for file in sorted(files)},
        inputs=recorded,
        facts=facts or {},
    )
    write_json(place, asdict(manifest))
    return manifest


def read_manifest(artifact: Path) -> Manifest:
    """Read an artifact's manifest; raises ProgpoError where it is missing or cannot be read."""
    place = manifest_path(artifact)
    try:
        manifest = Manifest(**json.loads(place.read_text(encoding="utf-8")))
        if not all(isinstance(part, dict) for part in (manifest.files, manifest.inputs, manifest.facts)):
            raise ValueError("files, inputs or facts are no mapping")
    except FileNotFoundError:
        raise ProgpoError(f"{place}: missing; rerun the stage that makes {artifact}") from None
    except (OSError, ValueError, TypeError) as error:
        raise ProgpoError(f"{place}: not a readable manifest ({error}); delete it and rerun its stage") from None
    if manifest.format != FORMAT:
        raise ProgpoError(f"{place}: manifest format {manifest.format}, this version reads {FORMAT}; rerun its stage")
    return manifest


def damage(artifact: Path, beside: bool = True, unread: Sequence[str] = ()) -> list[str]:
    """Return what is wrong with an artifact's files, one line each; empty if all is as its manifest says.

    Files that were removed to save space, and are noted as such, are not wrong.

    Args:
        artifact: a folder, its manifest, or a file.
        beside: whether files that lie outside the manifest's folder are looked at too (the metrics beside a policy,
            which do not travel with a copy of it).
        unread: patterns of names that are not looked at.
    """
    manifest = read_manifest(artifact)
    folder = manifest_path(artifact).parent
    removed = pruned(artifact)
    found = []
    for name, digest in manifest.files.items():
        if (name.startswith("../") and not beside) or matches(name, unread):
            continue
        file = folder / name
        if not file.is_file():
            if name not in removed:
                found.append(f"{file}: missing")
        elif sha256(file) != digest:
            found.append(f"{file}: changed since `progpo {manifest.stage}` wrote it")
    return found


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a file's name is of one of the patterns."""
    return any(fnmatch(name, pattern) for pattern in patterns)


def check(artifact: Path, strict: bool = True, unread: Sequence[str] = ()) -> Manifest | None:
    """Check an input's files against its manifest before use.

    Args:
        artifact: a folder, its manifest, or a file.
        strict: whether a file without manifest is refused; else None is returned for it.
        unread: patterns of the files' names that are not looked at, because they are not read.

    Raises:
        ProgpoError: naming each damaged file, or a file that was removed to save space, and the remedy.
    """
    if not strict and not manifest_path(artifact).exists():
        if not artifact.exists():
            raise ProgpoError(f"{artifact}: no such file")
        return None
    refuse_pruned(artifact, unread)
    found = damage(artifact, beside=False, unread=unread)
    if found:
        # Snakemake does not miss a deleted file whose descendants are there: it must be told.
        target = manifest_path(artifact) if artifact.is_dir() else artifact
        raise ProgpoError("\n".join(found) + f"\nremedy: snakemake --cores all --forcerun {target}")
    return read_manifest(artifact)


def refuse_pruned(artifact: Path, unread: Sequence[str] = ()) -> None:
    """Refuse an artifact of which a file was removed to save space.

    Args:
        artifact: a folder, its manifest, or a file.
        unread: patterns of the names of files that may be away.

    Raises:
        ProgpoError: naming the file, the setting, and what makes it anew.
    """
    for name, entry in pruned(artifact).items():
        file = manifest_path(artifact).parent / name
        if not file.exists() and not matches(name, unread):
            raise _removed(file, entry["why"])


def _removed(file: Path, why: str) -> ProgpoError:
    """Return the error that a file was removed: it is had again from the warm-up, which always stays, on."""
    arm = re.search(r"^(.*?)iteration-\d+/", file.as_posix())
    remedy = "use a copy that has it"
    if arm:
        first = f"{arm[1]}iteration-001/policy/{FOLDER_MANIFEST}"
        remedy = (
            f"set `keep` so that it stays, then snakemake --cores all --forcerun {first} (all the arm's iterations)"
        )
    return ProgpoError(f"{file}: was removed by `keep` ({why})\nremedy: {remedy}")


def check_file(file: Path, owner: Path, strict: bool = True) -> None:
    """Check one file of an artifact against its manifest, and no other.

    Args:
        file: e.g. the metrics beside a policy.
        owner: the artifact whose manifest lists it, or that manifest.
        strict: whether a file without manifest is refused.

    Raises:
        ProgpoError: missing, changed, or not in the manifest.
    """
    place = manifest_path(owner)
    if not strict and not place.exists():
        if not file.exists():
            raise ProgpoError(f"{file}: no such file")
        return
    manifest = read_manifest(owner)
    name = Path(os.path.relpath(file, place.parent)).as_posix()
    digest = manifest.files.get(name)
    if not file.is_file():
        if name in pruned(owner):
            raise _removed(file, pruned(owner)[name]["why"])
        problem = "missing"
    elif digest is None:
        problem = f"not listed in {place}"
    elif sha256(file) != digest:
        problem = f"changed since `progpo {manifest.stage}` wrote it"
    else:
        return
    raise ProgpoError(f"{file}: {problem}\nremedy: snakemake --cores all --forcerun {file}")


def verify(root: Path) -> tuple[list[str], list[str]]:
    """Look at all artifacts below a folder.

    Returns:
        What is damaged (files missing or changed, inputs missing), and what is out of date (made from others than are
        there now: left over from earlier settings, or to be made anew by the next run); a line each.

    Raises:
        ProgpoError: no such folder, or no artifact in it.
    """
    if not root.is_dir():
        raise ProgpoError(f"{root}: no such folder")
    manifests = sorted({*root.rglob(FOLDER_MANIFEST), *root.rglob(f"*{SUFFIX}")})
    if not manifests:
        raise ProgpoError(f"{root}: holds no artifact (no manifest below it)")
    damaged, outdated = [], []
    for place in manifests:
        try:
            damaged += damage(place)
            for name, digest in read_manifest(place).inputs.items():
                source = place.parent / name
                if not source.exists():
                    damaged.append(f"{place}: its input {os.path.normpath(source)} is missing")
                elif sha256(source) != digest:
                    outdated.append(f"{place}: made from another {os.path.normpath(source)} than is there now")
        except ProgpoError as error:
            damaged.append(str(error))
    return damaged, outdated
