"""Stands in for `progpo` in tests of the workflow: stages that compute nothing, but check what they read.

`python stand_in.py NUMBERS STAGE ...`: NUMBERS is a JSON file: `success` of validations by iteration, and `kill`: the
log of the job after which the whole run is killed, before Snakemake can take note that the job is done. `keep` and
`best` are the real ones.
"""

import itertools
import json
import os
import re
import signal
import sys
from pathlib import Path

from progpo.artifacts import (
    FOLDER_MANIFEST,
    atomic_folder,
    check,
    clean_partial,
    write_json,
    write_manifest,
    write_text,
)
from progpo.pruning import OPTIMIZER_FILES
from progpo.report.captions import CAPTIONS

EPISODES = 10


def main(numbers: dict, stage: str, *words: str) -> None:
    options = {word: Path(value) for word, value in itertools.pairwise(words) if word.startswith("--")}
    output = options["--output"]
    # As the stages do: what a killed one left half-written.
    for path in (output, output.parent, *(options[name] for name in ("--summary", "--metrics") if name in options)):
        clean_partial(path)
    if stage in ("keep", "best"):
        import progpo.cli

        sys.argv[1:] = [stage, *words]
        try:
            progpo.cli.main()
        except SystemExit as end:
            if end.code:
                raise
    elif stage in ("tasks", "warmup", "update"):
        make_folder(stage, output, options, words)
    elif stage == "report":
        folder = output.parent
        names = ("results.md", "results.txt", "results.csv", "curves.csv", "report.html")
        for name in (*names, *(f"figures/{figure}.{kind}" for figure in CAPTIONS for kind in ("svg", "png"))):
            write_text(folder / name, name)
        for name in ("results.md", "report.html"):
            write_manifest(folder / name, stage, {}, [folder / name])
    else:
        make_file(stage, output, options, words, numbers)


def make_folder(stage: str, output: Path, options: dict[str, Path], words: tuple[str, ...]) -> None:
    """A policy of weights and optimiser state; an update reads all of the one before."""
    if stage == "update":
        check(options["--policy"])
        check(options["--reference"], unread=OPTIMIZER_FILES)
        for word in words:
            if word.endswith(".parquet"):
                check(Path(word))
    files = []
    with atomic_folder(output.parent) as place:
        for name, size in (("model.safetensors", 1000), ("optimizer.safetensors", 2000), ("progpo.json", 10)):
            write_text(place / name, output.as_posix().ljust(size))
            files.append(place / name)
        if "--metrics" in options:
            write_json(options["--metrics"], {})
            files.append(options["--metrics"])
        write_manifest(place, stage, {}, files, at=output.parent)


def make_file(stage: str, output: Path, options: dict[str, Path], words: tuple[str, ...], numbers: dict) -> None:
    """A Parquet file by name, and JSON beside it; whoever plays reads a policy's weights."""
    if "--policy" in options:
        policy = options["--policy"]
        if policy.name == "best.json":
            policy = policy.parent / json.loads(policy.read_text())["policy"] / FOLDER_MANIFEST
        check(policy, unread=OPTIMIZER_FILES)
    if stage == "advantages":
        for word in words:
            if "/shard-" in word:
                check(Path(word))
    write_text(output, output.as_posix())
    files = [output]
    for name in ("--summary", "--metrics"):
        if name in options:
            iteration = re.search(r"iteration-(\d+)/validation", output.as_posix())
            successes = numbers["success"].get(str(int(iteration[1])), 0) if iteration else 0
            part = {"episodes": EPISODES, "successes": successes, "success": successes / EPISODES, "steps": 1.0}
            write_json(options[name], {"splits": {"s": {**part, "types": {}, "tasks_by_id": {}}}})
            files.append(options[name])
    write_manifest(output, stage, {}, files)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv.pop(1)).read_text())
    main(given, *sys.argv[1:])
    log = os.readlink("/proc/self/fd/1") if Path("/proc/self/fd/1").exists() else ""
    if given.get("kill") and log.endswith(given["kill"]):
        os.killpg(0, signal.SIGKILL)
