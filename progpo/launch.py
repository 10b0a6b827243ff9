"""Start snakemake on the project's workflow, taking up where a killed run stopped."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from progpo.errors import ProgpoError

LOCKS = Path(".snakemake") / "locks"


def alive(folder: Path) -> list[int]:
    """Return the ids of running snakemake and progpo processes in a folder, this one's own family left out."""
    me = psutil.Process()
    own = {me.pid, *(parent.pid for parent in me.parents())}
    found = []
    for process in psutil.process_iter():
        try:
            words = [Path(word).name for word in process.cmdline()[:3]]
            if process.pid not in own and {"snakemake", "progpo"} & set(words) and Path(process.cwd()) == folder:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def launch(arguments: Sequence[str]) -> int:
    """Run snakemake in the current folder and return its exit status.

    A lock that no living run holds was left by a killed one: it is removed, with a notice.

    Args:
        arguments: for snakemake.

    Raises:
        ProgpoError: no Snakefile here, or another run is alive in this folder.
    """
    folder = Path.cwd()
    snakefile = next((name for name in ("-s", "--snakefile") if name in arguments), None)
    if snakefile is None and not (folder / "Snakefile").exists():
        raise ProgpoError(f"{folder}: no Snakefile here; run it in the project's folder")
    snakemake = [sys.executable, "-m", "snakemake"]
    if LOCKS.is_dir() and any(LOCKS.iterdir()):
        others = alive(folder)
        if others:
            raise ProgpoError(
                f"another run is alive in {folder} (process {others[0]}); wait for it, or end it, then run again"
            )
        print("progpo: an earlier run was killed; unlocking, finished work is kept", file=sys.stderr)
        status = subprocess.call([*snakemake, "--unlock", "--quiet", "all", *_where(arguments)])
        if status:
            return status
    command = [*snakemake, "--rerun-incomplete", "--show-failed-logs", *arguments]
    print("progpo: snakemake", *command[3:], file=sys.stderr, flush=True)
    return subprocess.call(command)


def _where(arguments: Sequence[str]) -> list[str]:
    """Return the arguments that say which workflow it is (unlocking needs the same config)."""
    kept: list[str] = []
    words = list(arguments)
    for place, word in enumerate(words):
        if word in ("--configfile", "--configfiles", "-s", "--snakefile", "--config"):
            kept += words[place : place + 2]
        elif word.partition("=")[0] in ("--configfile", "--configfiles", "--snakefile"):
            kept.append(word)
    return kept
