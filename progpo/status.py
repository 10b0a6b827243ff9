"""Where a run stands, told from its artifacts and logs alone: which jobs are done, under way, or to come.

A job is done when its manifest, which a stage writes last, is there. It was begun when its log is there. Whether it
is still going on is known on the machine that it runs on; elsewhere, Snakemake's lock says that a run was not ended.
"""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from progpo import launch
from progpo.artifacts import FOLDER_MANIFEST, SUFFIX, write_text
from progpo.errors import ProgpoError
from progpo.pruning import KEPT, in_words, removed, without_weights
from progpo.results import BEST, PLACE, SUMMARY, WARMUP, iteration_folder, warmup_round
from progpo.settings.experiment import Experiment, load_experiment, validated_iterations
from progpo.tables import to_text

SHARED = "shared"
#: Where the workflow notes the settings of its latest run, below an experiment's folder.
RECORDED = Path("logs") / "settings.json"
#: How the last line of a failed stage's log begins.
ERROR = "progpo: error:"
#: Most of a log's end that is looked at, in bytes.
TAIL = 4096
#: Parts of an experiment's disk use, by a piece of the files' paths.
PARTS = {
    "policies": "/policy/",
    "rollouts": "/shard-",
    "advantages": "/advantages.",
    "evaluations": "/trajectories.",
    "tasks": "/tasks/",
}

State = Literal["done", "running", "stopped", "failed", "to come"]


@dataclass(frozen=True)
class Job:
    """One job of the workflow.

    Attributes:
        stage: its rule.
        manifest: what is there when it is done.
        log: what is there when it was begun.
        seed, arm, iteration: whose it is; None where it is nobody's alone.
    """

    stage: str
    manifest: Path
    log: Path
    seed: int | None = None
    arm: str | None = None
    iteration: int | None = None


@dataclass(frozen=True)
class Plan:
    """What a run makes.

    Attributes:
        seeds, arms, iterations, shards: as in the config.
        every: of validation; None: none.
        best: whether the best iteration is evaluated, not the last.
        shown: whether there are demonstrations.
        keeps: whether something is removed while the run goes on.
        rounds: of corrections after the warm-up.
    """

    seeds: Sequence[int]
    arms: Sequence[str]
    iterations: int
    shards: int
    every: int | None = None
    best: bool = False
    shown: bool = True
    keeps: bool = False
    rounds: int = 0

    @classmethod
    def of(cls, experiment: Experiment) -> "Plan":
        """Take it from the settings."""
        return cls(
            experiment.seeds,
            tuple(experiment.arms),
            experiment.iterations,
            experiment.rollout.shards,
            experiment.validation.every,
            experiment.evaluation.of == "best",
            experiment.warmup.tokens > 0,
            not experiment.keep.everything,
            experiment.correction_rounds,
        )

    @classmethod
    def found(cls, root: Path) -> "Plan":
        """Guess it from what there is: what has not begun is not known."""
        seeds = sorted(int(path.name[5:]) for path in root.glob("seed-*") if path.name[5:].isdigit())
        arms = sorted({path.name for path in root.glob("seed-*/*") if path.is_dir()} - {WARMUP, SHARED})
        numbers = [path.name[10:] for path in root.glob("seed-*/*/iteration-*")]
        shards = {path.name for path in root.glob("seed-*/*/iteration-*/shard-*.parquet")}
        most = max((int(number) for number in numbers if number.isdigit()), default=1)
        made = any(root.glob(f"seed-*/{WARMUP}/policy"))
        shown = (root / "demonstrations").exists() or not made
        names = [path.name[6:] for path in root.glob(f"seed-*/{WARMUP}/round-*")]
        rounds = max((int(name) for name in names if name.isdigit()), default=0)
        return cls(seeds, arms, most, max(len(shards), 1), shown=shown, rounds=rounds)

    def jobs(self, root: Path) -> list[Job]:
        """Return the jobs, in an order in which they can be done."""
        logs = root / "logs"
        demonstrations = root / "demonstrations" / f"demonstrations.parquet{SUFFIX}"
        jobs = [Job("tasks", root / "tasks" / FOLDER_MANIFEST, logs / "tasks.log")]
        if self.shown:
            jobs.append(Job("demonstrate", demonstrations, logs / "demonstrate.log"))
        for seed in self.seeds:
            jobs += self._of_seed(root, logs, seed)
        return [*jobs, Job("report", root / "report" / f"results.md{SUFFIX}", logs / "report.log")]

    def _of_seed(self, root: Path, logs: Path, seed: int) -> Iterator[Job]:
        for number in range(self.rounds + 1):
            if number:
                file = root / f"seed-{seed}" / WARMUP / f"round-{number}" / f"corrections.parquet{SUFFIX}"
                log = logs / f"seed-{seed}" / WARMUP / f"round-{number}" / "corrections.log"
                yield Job("correct", file, log, seed, WARMUP, 0)
            place = warmup_round(number, self.rounds)
            manifest = root / f"seed-{seed}" / place / "policy" / FOLDER_MANIFEST
            stage = "relearn" if number else "warmup"
            yield Job(stage, manifest, logs / f"seed-{seed}" / f"{place}.log", seed, WARMUP, 0)
        yield from self._judged(root, logs, seed, WARMUP, 0, self.every is not None, True)
        for iteration in range(1, self.iterations + 1):
            for arm in self.arms if iteration > 1 else (SHARED,):
                folder = iteration_folder(root, seed, arm, iteration)
                for shard in range(self.shards):
                    file = folder / f"shard-{shard:02d}.parquet"
                    log = _log(root, logs, file)
                    yield Job("rollout", file.with_name(file.name + SUFFIX), log, seed, arm, iteration)
            for arm in self.arms:
                folder = iteration_folder(root, seed, arm, iteration)
                validated = iteration in validated_iterations(self.iterations, self.every)
                last = iteration == self.iterations and not self.best
                advantages = folder / f"advantages.parquet{SUFFIX}"
                log = _log(root, logs, folder / "advantages")
                yield Job("advantages", advantages, log, seed, arm, iteration)
                log = _log(root, logs, folder / "update")
                yield Job("update", folder / "policy" / FOLDER_MANIFEST, log, seed, arm, iteration)
                yield from self._judged(root, logs, seed, arm, iteration, validated, last)
                if self.keeps and iteration > 1:
                    yield Job("keep", folder / KEPT, _log(root, logs, folder / "keep"), seed, arm, iteration)
        for arm in self.arms:
            file = root / f"seed-{seed}" / arm / BEST
            if self.every is not None:
                yield Job("best", file.with_name(BEST + SUFFIX), _log(root, logs, file), seed, arm)
            if self.best:
                yield _judgement("evaluate", root, logs, file.with_suffix(""), seed, arm, None)

    def _judged(
        self, root: Path, logs: Path, seed: int, arm: str, iteration: int, validated: bool, evaluated: bool
    ) -> Iterator[Job]:
        folder = iteration_folder(root, seed, arm, iteration)
        for stage, wanted in (("validate", validated), ("evaluate", evaluated)):
            if wanted:
                yield _judgement(stage, root, logs, folder, seed, arm, iteration)


def _judgement(stage: str, root: Path, logs: Path, folder: Path, seed: int, arm: str, iteration: int | None) -> Job:
    what = "validation" if stage == "validate" else "evaluation"
    manifest = folder / what / f"trajectories.parquet{SUFFIX}"
    return Job(stage, manifest, _log(root, logs, folder / stage), seed, arm, iteration)


def _log(root: Path, logs: Path, file: Path) -> Path:
    return (logs / file.relative_to(root)).with_suffix(".log")


def record(root: Path, experiment: Experiment) -> None:
    """Note the settings of the run that begins; the time of the file is that of its beginning."""
    # Not with sorted keys: arms have an order.
    write_text(root / RECORDED, json.dumps(experiment.model_dump(mode="json"), indent=1) + "\n")


def describe(root: Path, config: Path | None = None) -> str:
    """Return where a run stands, as text.

    Args:
        root: the experiment's folder.
        config: the config of the run; without it, the settings that the workflow noted.

    Raises:
        ProgpoError: no such folder, nothing of an experiment in it, or a config of another experiment.
    """
    if not root.is_dir():
        raise ProgpoError(f"{root}: no such folder")
    experiment = noted(root, config)
    plan = Plan.of(experiment) if experiment else None
    jobs = (plan or Plan.found(root)).jobs(root)
    run = _Run.of(root)
    states = {job: run.state(job) for job in jobs}
    if plan is None and not any(state != "to come" for state in states.values()):
        raise ProgpoError(f"{root}: holds nothing of an experiment; name its folder, artifacts/<experiment>")
    done = sum(state == "done" for state in states.values())
    lines = [f"{root}: {run.what}; {done} of {len(jobs)} jobs done"]
    if plan is None:
        lines.append("the settings are not noted there: what has not begun is not counted; --configfile names them")
    lines += ["", *to_text(*_table(root, plan or Plan.found(root), states)), ""]
    for state in ("running", "failed", "stopped"):
        lines += [f"{state}: {_last_word(root, job)}" for job in jobs if states[job] == state]
    words = in_words(removed(root))
    if words:
        lines.append(f"removed by keep: {words}")
    return "\n".join([*lines, _disk(root)])


def noted(root: Path, config: Path | None = None) -> Experiment | None:
    """Return a run's settings: of its config, or as the workflow noted them; None where it did not.

    Raises:
        ProgpoError: a config of another experiment.
    """
    if config is not None:
        experiment = load_experiment(config)
        if experiment.experiment != root.resolve().name:
            raise ProgpoError(f"{config}: of the experiment {experiment.experiment!r}, not of {root}")
        return experiment
    found = _read_json(root / RECORDED)
    try:
        return load_experiment(found) if found else None
    except ProgpoError:
        # Noted by another version: as good as none.
        return None


@dataclass(frozen=True)
class _Run:
    """The run that works on an experiment, or did.

    Attributes:
        what: in words.
        alive: whether it may be at work.
        began: when, in seconds since the epoch; None: not known.
    """

    what: str
    alive: bool
    began: float | None

    @classmethod
    def of(cls, root: Path) -> "_Run":
        home = Path(os.path.realpath(root.absolute().parent.parent))
        began = _modified(root / RECORDED)
        processes = launch.alive(home)
        if processes:
            return cls(f"running (process {processes[0]})", True, began)
        if launch.locked(home):
            return cls("running on another machine, or killed (its lock is there)", True, began)
        return cls("not running", False, began)

    def state(self, job: Job) -> State:
        if job.manifest.exists():
            return "done"
        touched = _modified(job.log)
        if touched is None:
            return "to come"
        if self.alive and self.began is not None and touched < self.began:
            # Left by an earlier run: this one will come to it.
            return "to come"
        if _tail(job.log).startswith(ERROR):
            return "failed"
        return "running" if self.alive else "stopped"


def _table(root: Path, plan: Plan, states: Mapping[Job, State]) -> tuple[list[str], list[list[str]]]:
    header = ["", "iterations", "policies", "now", "success sampled", "success evaluated"]
    rows = []
    gone = {place for place, files in removed(root).items() if without_weights(files)}
    for stage in ("tasks", "demonstrate") if plan.shown else ("tasks",):
        rows.append([stage, "", "", next(state for job, state in states.items() if job.stage == stage), "", ""])
    for seed in plan.seeds:
        for arm in (WARMUP, *plan.arms):
            own = {job: state for job, state in states.items() if (job.seed, job.arm) == (seed, arm)}
            shared = {job: state for job, state in states.items() if (job.seed, job.arm) == (seed, SHARED)}
            updates = [job.iteration for job, state in own.items() if job.stage == "update" and state == "done"]
            iterations = "" if arm == WARMUP else f"{len(updates)}/{plan.iterations}"
            there = [number for number in updates if _policy(root, seed, arm, number) not in gone]
            now = _now(own if arm == WARMUP or updates else {**shared, **own})
            rows.append(
                [
                    f"seed {seed}, {arm}",
                    iterations,
                    _ranges(there),
                    now,
                    _sampled(root, seed, arm),
                    _evaluated(root, seed, arm),
                ]
            )
    rows.append(["report", "", "", next(state for job, state in states.items() if job.stage == "report"), "", ""])
    return header, rows


def _policy(root: Path, seed: int, arm: str, iteration: int) -> Path:
    return iteration_folder(root, seed, arm, iteration) / "policy" / FOLDER_MANIFEST


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in short: 1-3 5."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return " ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _now(states: Mapping[Job, State]) -> str:
    """Return in a few words what happens: the job that is under way or was left, else how far it is."""
    for state in ("running", "failed", "stopped"):
        for job, its in states.items():
            if its == state:
                return f"{state}: {job.stage}" + (f" {job.iteration}" if job.iteration else "")
    return next((state for state in ("to come", "done") if state in states.values()), "")


def _sampled(root: Path, seed: int, arm: str) -> str:
    """Return the success of the trajectories that the arm's latest iteration learnt from."""
    for file in sorted(root.glob(f"seed-{seed}/{arm}/iteration-*/advantages.json"), reverse=True):
        metrics = _read_json(file)
        success = metrics.get("drawn_success_rate", metrics.get("success_rate"))
        if isinstance(success, float):
            return f"{100 * success:.1f} % (iteration {int(file.parent.name[10:])})"
    return ""


def _evaluated(root: Path, seed: int, arm: str) -> str:
    """Return the success of the arm's latest evaluation, by split."""
    home = root / f"seed-{seed}" / arm
    files = [home / "evaluation" / SUMMARY, *sorted(home.glob(f"*/evaluation/{SUMMARY}"), reverse=True)]
    for file in files:
        if PLACE.search(file.as_posix()):
            with suppress(KeyError, TypeError, AttributeError, ValueError):
                splits = _read_json(file)["splits"]
                return ", ".join(f"{name} {100 * found['success']:.1f} %" for name, found in splits.items())
    return ""


def _last_word(root: Path, job: Job) -> str:
    """Return a job, and the last line of its log with its age."""
    age = max(0, round(time.time() - (_modified(job.log) or 0)))
    ago = f"{age} s" if age < 120 else f"{age // 60} min" if age < 7200 else f"{age // 3600} h"
    return f"{job.log.relative_to(root / 'logs').with_suffix('')} ({ago} ago): {_tail(job.log) or 'nothing said yet'}"


def _disk(root: Path) -> str:
    """Return the disk use in words, all and by parts."""
    total, parts = 0, dict.fromkeys(PARTS, 0)
    for path in root.rglob("*"):
        with suppress(OSError):
            size = path.stat().st_size if path.is_file() else 0
            total += size
            for name, piece in PARTS.items():
                if piece in f"/{path.relative_to(root).as_posix()}":
                    parts[name] += size
                    break
    listed = ", ".join(f"{name} {size / 1e6:.0f}" for name, size in parts.items() if size >= 5e5)
    return f"disk: {total / 1e6:.0f} MB" + (f" ({listed})" if listed else "")


def _tail(log: Path) -> str:
    """Return the last line of a log that says something; a bar that was redrawn is as it was last."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _modified(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _read_json(file: Path) -> dict[str, Any]:
    """Read JSON that may be away, or be made at this moment: then there is nothing in it."""
    with suppress(OSError, ValueError):
        found = json.loads(file.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}
