"""The workflow, run in a folder of its own."""

import os
import subprocess
import sys
import time
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from progpo.artifacts import read_manifest, sha256
from progpo.launch import INCOMPLETE

ROOT = Path(__file__).parents[2]
TINY = yaml.safe_load(Path(__file__).with_name("tiny.yaml").read_text())
#: What tells the time, and so is another each time.
TIMED = ("logs/", "benchmarks/", "report/report.html", "report/figures/time.")


@dataclass(frozen=True)
class Run:
    """A folder in which the workflow runs."""

    folder: Path

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts" / "tiny"

    def configure(self, changes: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Write the config, with changes to its sections."""
        config = {**TINY}
        for section, values in (changes or {}).items():
            config[section] = {**config.get(section, {}), **values} if isinstance(values, Mapping) else values
        (self.folder / "config.yaml").write_text(yaml.safe_dump(config))

    def command(self, *arguments: str) -> list[str]:
        workflow = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", "config.yaml"]
        return [sys.executable, "-m", "progpo", "run", "--cores", "2", *workflow, *arguments]

    def environment(self, **extra: str) -> dict[str, str]:
        return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **extra}

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the workflow and wait."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**environment),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def planned(self, *targets: str, **environment: str) -> dict[str, int]:
        """Return the jobs that a dry run plans, by rule."""
        result = self("--dry-run", *targets, "--quiet", "rules", **environment)
        assert result.returncode == 0, result.stdout
        jobs = {}
        for line in result.stdout.splitlines():
            words = line.split()
            if len(words) == 2 and words[1].isdigit():
                jobs[words[0]] = int(words[1])
        jobs.pop("total", None)
        jobs.pop("all", None)
        return jobs

    def settle(self, limit: float = 300) -> None:
        """Wait until no process of a run that was ended is left: the last ones outlive the one that was waited for."""
        deadline = time.monotonic() + limit
        while left := [process for process in psutil.process_iter() if self._holds(process)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    def _holds(self, process: psutil.Process) -> bool:
        try:
            return process.cwd() == str(self.folder.resolve())
        except psutil.Error:
            return False

    def incomplete(self) -> set[Path]:
        """Return the outputs of jobs that Snakemake had started and not recorded as finished."""
        marks = self.folder / INCOMPLETE
        # Snakemake names a mark by its output in base64, a long one in folders whose names begin with @.
        names = [
            "".join(part.removeprefix("@") for part in mark.relative_to(marks).parts)
            for mark in marks.rglob("*")
            if mark.is_file()
        ]
        return {self.folder / urlsafe_b64decode(name).decode() for name in names if name != "migration_underway"}

    def done(self) -> dict[Path, int]:
        """Return the manifests of the jobs that Snakemake recorded as finished, and when each was last changed (ns)."""
        marked = self.incomplete()
        found = {}
        for path in self.artifacts.rglob("*manifest.json"):
            # A job is done again if one of its outputs is marked: killed in between, it has marks on some of them.
            made = {Path(os.path.normpath(path.parent / name)) for name in read_manifest(path).files}
            if not marked & {path, *made}:
                found[path] = path.stat().st_mtime_ns
        return found

    def progpo(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command by hand."""
        return subprocess.run(
            [sys.executable, "-m", "progpo", *arguments],
            cwd=self.folder,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def contents(self) -> dict[str, str]:
        """Return the hash of every artifact (logs and benchmarks are not artifacts), but of what shows benchmarks."""
        files = {
            path.relative_to(self.artifacts).as_posix(): path
            for path in sorted(self.artifacts.rglob("*"))
            if path.is_file()
        }
        return {name: sha256(path) for name, path in files.items() if not name.startswith(TIMED)}


def fresh(folder: Path) -> Run:
    folder.mkdir(parents=True, exist_ok=True)
    run = Run(folder)
    run.configure()
    return run
