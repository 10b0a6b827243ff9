"""Start snakemake on the project's workflow, taking up where a killed run stopped."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from progpo.errors import ProgpoError
from progpo.settings.experiment import read_config

LOCKS = Path(".snakemake") / "locks"
INCOMPLETE = Path(".snakemake") / "incomplete"
SNAKEFILE = ("-s", "--snakefile")
CONFIG_FILES = ("--configfile", "--configfiles")
DRY_RUN = {"-n", "--dry-run", "--dryrun"}
#: Options that may send jobs elsewhere: they say how many, and a run on another machine may hold the lock.
ELSEWHERE = {"--profile", "--executor", "-e"}
#: Commands of progpo that change no artifact.
READ_ONLY = {"check", "verify", "status", "view", "play", "card", "publish", "match", "serve"}
#: Tells the workflow that its caller prints the results (Snakemake says nothing at all where nothing is to be done).
PRINTS_RESULTS = "PROGPO_PRINTS_RESULTS"


def alive(folder: Path) -> list[int]:
    """Return the ids of the snakemake and progpo processes that run in a folder and began before this one.

    This one's own family is left out, and so are commands that only read. Of two runs started at once, the later
    sees the earlier, and not the other way round.
    """
    me = psutil.Process()
    own = {me.pid, *(parent.pid for parent in me.parents())}
    found = []
    for process in psutil.process_iter():
        try:
            earlier = (process.create_time(), process.pid) < (me.create_time(), me.pid)
            if earlier and process.pid not in own and _runs(process.cmdline()) and Path(process.cwd()) == folder:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def locked(folder: Path) -> bool:
    """Return whether a run in a folder has not ended: it is at work, here or elsewhere, or was killed."""
    locks = folder / LOCKS
    return locks.is_dir() and any(locks.iterdir())


def interrupted(folder: Path) -> bool:
    """Return whether jobs in a folder were cut short: the next run does them again, whatever they left."""
    jobs = folder / INCOMPLETE
    return jobs.is_dir() and any(jobs.iterdir())


def _runs(command: Sequence[str]) -> bool:
    """Return whether a command line is that of snakemake, or of a progpo that writes."""
    words = list(command)
    if words and Path(words[0]).name.startswith("python"):
        words = [*itertools.dropwhile(lambda word: word.startswith("-"), words[1:])]
    if not words:
        return False
    name = Path(words[0]).name
    return name == "snakemake" or (name == "progpo" and not READ_ONLY.intersection(words[1:2]))


def call(command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run snakemake and return its exit status, waiting for it also when interrupted: it has jobs to cancel."""
    told = False
    with subprocess.Popen(command, env=environment) as process:
        while True:
            try:
                status = process.wait()
                # Told in its last moments, when it heeds no signal any more, it has cancelled its jobs and failed.
                return 1 if told and status == -signal.SIGTERM else status
            except KeyboardInterrupt:
                # A terminal interrupts both. Where this process alone was meant, snakemake is told to stop after the
                # jobs that run; if it is cancelling them, this changes nothing.
                if not _in_foreground():
                    told = True
                    process.send_signal(signal.SIGTERM)


def _in_foreground() -> bool:
    """Return whether a terminal sends its interrupts to this process's group."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def launch(arguments: Sequence[str], cores: str | None = None) -> int:
    """Run snakemake in the current folder and return its exit status.

    A lock that no living run holds was left by a killed one: it is removed, with a notice, unless the run may be on
    another machine.

    Args:
        arguments: for snakemake.
        cores: how many it uses; null: all, or what a profile or an executor among the arguments says.

    Raises:
        ProgpoError: no Snakefile here, a config file that is none, another run is alive in this folder, or may be.
    """
    elsewhere = any(word.partition("=")[0] in ELSEWHERE for word in arguments)
    if cores or not elsewhere:
        arguments = ["--cores", cores or "all", *arguments]
    folder = Path.cwd()
    where = _where(arguments)
    if not any(option in SNAKEFILE for option, _ in where) and not (folder / "Snakefile").exists():
        raise ProgpoError(f"{folder}: no Snakefile here; run it in the project's folder")
    for option, values in where:
        for name in values if option in CONFIG_FILES else ():
            read_config(Path(name))
    others = alive(folder)
    if others:
        raise ProgpoError(
            f"another run is alive in {folder} (process {others[0]}); wait for it, or end it, then run again"
        )
    snakemake = [sys.executable, "-m", "snakemake"]
    if locked(folder):
        if elsewhere:
            raise ProgpoError(
                f"{folder} is locked: by a run on another machine, or by one that was killed; if none is alive, "
                "remove the lock (snakemake --unlock, with the same --configfile), then run again"
            )
        print("progpo: an earlier run was killed; unlocking, finished work is kept", file=sys.stderr)
        workflow = [word for option, values in where for word in (option, *values)]
        status = call([*snakemake, "--unlock", "--quiet", "all", *workflow])
        if status:
            return status
    command = [*snakemake, "--rerun-incomplete", "--show-failed-logs", *arguments]
    print("progpo: snakemake", *command[3:], file=sys.stderr, flush=True)
    begun = time.time()
    status = call(command, {**os.environ, PRINTS_RESULTS: "1"})
    results = Path("artifacts") / _experiment(where) / "report" / "results.txt"
    if status == 0 and not DRY_RUN & set(arguments):
        print_results(results, begun)
    return status


def print_results(results: Path, begun: float) -> None:
    """Print the table of results, if there is one, and whether it was there before the run began (seconds, Unix)."""
    if results.exists():
        whose = "" if results.stat().st_mtime >= begun else ", all of an earlier run"
        print(f"\n{results.read_text(encoding='utf-8')}\n{results.parent}/ holds the tables, and report.html{whose}")


def _experiment(where: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the name of the experiment that the arguments choose, as the Snakefile does."""
    name = ""
    for option, values in where:
        for value in values:
            if option in CONFIG_FILES:
                name = read_config(Path(value)).get("experiment", name)
            elif option == "--config" and value.startswith("experiment="):
                name = value.partition("=")[2]
    default = Path("config") / "config.yaml"
    return str(name or (default.exists() and read_config(default).get("experiment")) or "")


def _where(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the options that say which workflow it is (unlocking needs the same config), each with its values."""
    found: list[tuple[str, list[str]]] = []
    taking = False
    for word in arguments:
        option, joined, value = word.partition("=")
        if word.startswith("-"):
            taking = option in (*SNAKEFILE, *CONFIG_FILES, "--config")
            if taking:
                found.append((option, [value] if joined else []))
                # A joined value is the only one; so is a Snakefile, and targets may follow it.
                taking = not joined
        elif taking:
            found[-1][1].append(word)
            taking = found[-1][0] not in SNAKEFILE
    return found
