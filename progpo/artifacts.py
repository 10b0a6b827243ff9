"""Artifacts on disk: atomic writes, and manifests by which damage is noticed.

Each stage writes one manifest, last, with the SHA-256 of every file that it made and of every manifest that it was
made from. A single file's manifest stands beside it (`shard-00.parquet.manifest.json`); that of a folder inside it
(`policy/manifest.json`). Consumers check the hashes of what they read.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from progpo import __version__
from progpo.errors import ProgpoError

FORMAT = 1
FOLDER_MANIFEST = "manifest.json"
SUFFIX = ".manifest.json"
#: What an unfinished write is called; never the name of an artifact.
PARTIAL = ".partial"


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
    """
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
        data = json.loads(place.read_text(encoding="utf-8"))
        manifest = Manifest(**data)
    except FileNotFoundError:
        raise ProgpoError(f"{place}: missing; rerun the stage that makes {artifact}") from None
    except (OSError, ValueError, TypeError) as error:
        raise ProgpoError(f"{place}: not a readable manifest ({error}); delete it and rerun its stage") from None
    if manifest.format != FORMAT:
        raise ProgpoError(f"{place}: manifest format {manifest.format}, this version reads {FORMAT}; rerun its stage")
    return manifest


def damage(artifact: Path) -> list[str]:
    """Return what is wrong with an artifact's files, one line each; empty if all is as its manifest says."""
    manifest = read_manifest(artifact)
    folder = manifest_path(artifact).parent
    found = []
    for name, digest in manifest.files.items():
        file = folder / name
        if not file.is_file():
            found.append(f"{file}: missing")
        elif sha256(file) != digest:
            found.append(f"{file}: changed since `progpo {manifest.stage}` wrote it")
    return found


def check(artifact: Path, strict: bool = True) -> Manifest | None:
    """Check an input's files against its manifest before use.

    Args:
        artifact: a folder, its manifest, or a file.
        strict: whether a file without manifest is refused; else None is returned for it.

    Raises:
        ProgpoError: naming each damaged file and the remedy.
    """
    if not strict and not manifest_path(artifact).exists():
        if not artifact.exists():
            raise ProgpoError(f"{artifact}: no such file")
        return None
    found = damage(artifact)
    if found:
        # Snakemake does not miss a deleted file whose descendants are there: it must be told.
        target = manifest_path(artifact) if artifact.is_dir() else artifact
        raise ProgpoError("\n".join(found) + f"\nremedy: snakemake --cores all --forcerun {target}")
    return read_manifest(artifact)


def verify(root: Path) -> list[str]:
    """Return all damage below a folder: files missing or changed, artifacts made from others than are there now."""
    if not root.is_dir():
        raise ProgpoError(f"{root}: no such folder")
    manifests = sorted({*root.rglob(FOLDER_MANIFEST), *root.rglob(f"*{SUFFIX}")})
    if not manifests:
        raise ProgpoError(f"{root}: holds no artifact (no manifest below it)")
    found = []
    for place in manifests:
        try:
            found += damage(place)
            for name, digest in read_manifest(place).inputs.items():
                source = place.parent / name
                if not source.exists():
                    found.append(f"{place}: its input {os.path.normpath(source)} is missing")
                elif sha256(source) != digest:
                    found.append(f"{place}: made from another {os.path.normpath(source)} than is there now")
        except ProgpoError as error:
            found.append(str(error))
    return found
