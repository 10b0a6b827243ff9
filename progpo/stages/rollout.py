"""Stage `rollout`: one shard of an iteration's groups of trajectories, sampled by the policy."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from envs import Task
from progpo import __version__
from progpo.advantages.metrics import SUCCESS, Dropped
from progpo.artifacts import check, clean_partial, recorded_input, sha256, write_json, write_manifest
from progpo.curriculum import choose_tasks, replacements, without_signal
from progpo.errors import ProgpoError
from progpo.policy.backends import open_backend
from progpo.policy.checkpoint import SETTINGS_FILE
from progpo.results import read_json
from progpo.settings.experiment import RolloutStage
from progpo.tasks import TASK_LIST, load_tasks
from progpo.trajectories.read import read_shard, to_trajectories
from progpo.trajectories.records import Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

if TYPE_CHECKING:
    from progpo.policy.backends.base import Backend

SPLIT = "train"
#: What the progress was made from, beside it.
PROGRESS_KEY = "made-from.json"


def run(
    settings: RolloutStage,
    tasks: Path,
    policy: Path,
    seed: int,
    iteration: int,
    shard: int,
    output: Path,
    strict: bool = False,
    history: Sequence[Path] = (),
) -> None:
    """Sample one shard.

    The iteration's groups 0, 1, ... are those of `choose_tasks`, in its order; each shard has a contiguous part of
    them. With `save_groups`, finished groups are kept in `<output>.progress/` and taken from there after a kill.

    With `dynamic`, a group without signal is replaced by one of another task, fixed by the group's number and the
    round, so that the number of shards changes none. The shard's metadata lists what was dropped.

    Args:
        settings: the environment, and how to sample.
        tasks: the folder of the task list, or its manifest.
        policy: the folder of the policy, or its manifest.
        seed, iteration: of the random streams; iterations count from 1.
        shard: index among `settings.rollout.shards`.
        output: the Parquet file.
        strict: whether inputs must have manifests.
        history: `advantages.json` of all the arm's earlier iterations; needed, after the first, where
            `rollout.sampling` is not "uniform".

    Raises:
        ProgpoError: damaged inputs, no train tasks, no such shard, not the history of all earlier iterations, or a
            backend that is missing or cannot hold the policy.
        EnvironmentDataError: a game that cannot be played.
    """
    sampling = settings.rollout
    if not 0 <= shard < sampling.shards:
        raise ProgpoError(f"--shard {shard}: there are {sampling.shards} (rollout.shards), counted from 0")
    if iteration < 1:
        raise ProgpoError(f"--iteration {iteration}: iterations count from 1")
    source = check_tasks(tasks, strict)
    every = load_tasks(tasks, SPLIT)
    known = _read_history(history, sampling.sampling, iteration, strict)
    chosen = choose_tasks(every, sampling.sampling, known, seed, iteration, sampling.tasks)
    spare = replacements(every, chosen, sampling.sampling, known, seed, iteration) if sampling.dynamic else []
    first, end = (sampling.tasks * number // sampling.shards for number in (shard, shard + 1))
    with open_backend(policy, sampling, sampling.temperature, strict) as backend:
        loaded = backend.policy
        clean_partial(output)
        metadata = Metadata(
            kind="rollout",
            policy=loaded.fingerprint,
            tokenizer=loaded.tokenizer_fingerprint,
            settings=settings.model_dump(mode="json"),
            seed=seed,
            iteration=iteration,
            shard=shard,
            shards=sampling.shards,
            layout=loaded.settings.resolved_layout,
            choices=loaded.settings.choices,
            temperature=sampling.temperature,
        )
        rollout = _Rollout(settings, backend, chosen, spare, metadata)
        progress = output.with_name(f"{output.name}.progress")
        if sampling.save_groups is None:
            trajectories, dropped = rollout.play(range(first, end))
        else:
            made_from = {
                "metadata": asdict(metadata),
                "tasks": sha256(source),
                "history": sorted(map(sha256, history)),
                "version": __version__,
            }
            groups, size = range(first, end), sampling.save_groups
            trajectories, dropped = rollout.play_with_progress(groups, size, progress, made_from)
        facts = backend.facts()
    if sampling.dynamic:
        wanted = sampling.dynamic.rounds * sampling.tasks
        if len(spare) < wanted:
            print(
                f"rollout: beside the iteration's {sampling.tasks} tasks there are {len(spare)}; to replace every "
                f"group {sampling.dynamic.rounds} times takes {wanted}",
                file=sys.stderr,
            )
        print(f"rollout: {len(dropped)} groups without signal were replaced", file=sys.stderr)
    write_shard(output, trajectories, replace(metadata, dropped=dropped))
    write_manifest(
        output,
        "rollout",
        settings.model_dump(mode="json"),
        files=[output],
        inputs=[source, recorded_input(policy, SETTINGS_FILE), *history],
        facts={
            **facts,
            "fingerprint": loaded.fingerprint,
            "seed": seed,
            "iteration": iteration,
            "shard": shard,
            "trajectories": len(trajectories),
            "dropped_groups": len(dropped),
            "cut_prompts": sum(bool(step.history_cut) for trajectory in trajectories for step in trajectory.steps),
            "success": fmean(trajectory.score == 1.0 for trajectory in trajectories),
        },
    )
    shutil.rmtree(progress, ignore_errors=True)


def check_tasks(tasks: Path, strict: bool) -> Path:
    """Check a task folder against its manifest; return what a manifest of ours records as input.

    Raises:
        ProgpoError: damaged, or (strict) without manifest.
    """
    check(tasks, strict)
    return recorded_input(tasks, TASK_LIST)


def _read_history(paths: Sequence[Path], sampling: str, iteration: int, strict: bool) -> list[Mapping[str, Any]]:
    """Read the metrics of the arm's earlier iterations."""
    wanted = 0 if sampling == "uniform" else iteration - 1
    if len(paths) != wanted:
        raise ProgpoError(
            f"--history: iteration {iteration} with `rollout.sampling: {sampling}` reads {wanted} files, one "
            f"advantages.json of each earlier iteration; {len(paths)} were given"
        )
    return [read_json(path, strict) for path in paths]


@dataclass(frozen=True)
class _Rollout:
    settings: RolloutStage
    backend: "Backend"
    tasks: Sequence[Task]
    spare: Sequence[Task]
    metadata: Metadata

    def play(self, groups: Sequence[int]) -> tuple[list[Trajectory], list[Dropped]]:
        """Play groups of the iteration; return their trajectories, and the groups that were replaced."""
        dynamic = self.settings.rollout.dynamic
        kept: list[Trajectory] = []
        dropped: list[Dropped] = []
        playing = {group: self.tasks[group] for group in groups}
        for turn in range(1 + (dynamic.rounds if dynamic else 0)):
            played = self._play(playing, turn)
            again = {}
            for group, task in playing.items():
                found = played[group]
                # No task comes twice: a group for which none is left stays.
                place = turn * len(self.tasks) + group
                last = dynamic is None or turn == dynamic.rounds or place >= len(self.spare)
                if not last and without_signal(found, dynamic.drop):
                    successes = sum(item.score >= SUCCESS for item in found)
                    dropped.append((task.id, task.task_type, len(found), successes))
                    again[group] = self.spare[place]
                else:
                    kept += found
            playing = again
            if not playing:
                break
        return kept, dropped

    def _play(self, groups: Mapping[int, Task], turn: int) -> dict[int, list[Trajectory]]:
        """Play one group of each task; replacements draw from streams of their own."""
        from progpo.policy.play import Episode, play_with

        sampling = self.settings.rollout
        shift = turn * len(self.tasks)
        episodes = [
            Episode(group + shift, number, task)
            for group, task in groups.items()
            for number in range(sampling.group_size)
        ]
        played: dict[int, list[Trajectory]] = {group: [] for group in groups}
        for trajectory in play_with(
            self.backend,
            episodes,
            self.settings.environment.make,
            batch=sampling.batch,
            seed=self.metadata.seed,
            iteration=self.metadata.iteration,
            label="rollout",
        ):
            trajectory.group -= shift
            played[trajectory.group].append(trajectory)
        return played

    def play_with_progress(
        self, groups: range, size: int, place: Path, made_from: Mapping[str, Any]
    ) -> tuple[list[Trajectory], list[Dropped]]:
        """Play `size` groups at a time, and save each such part; parts saved earlier are taken as they are."""
        _open_progress(place, made_from)
        trajectories: list[Trajectory] = []
        dropped: list[Dropped] = []
        for first in range(groups.start, groups.stop, size):
            part = range(first, min(first + size, groups.stop))
            file = place / f"groups-{part.start:05d}-{part.stop - 1:05d}.parquet"
            clean_partial(file)
            if file.exists():
                print(f"rollout: groups {part.start} to {part.stop - 1} were done before", file=sys.stderr)
            else:
                played, replaced = self.play(part)
                write_shard(file, played, replace(self.metadata, dropped=replaced))
            # From the file in either case, so that a resumed shard cannot differ.
            table, metadata = read_shard(file)
            trajectories += to_trajectories(table)
            dropped += metadata.dropped
        return trajectories, dropped


def _open_progress(place: Path, made_from: Mapping[str, Any]) -> None:
    """Make the folder of the progress; what lies there of another making is removed."""
    key = place / PROGRESS_KEY
    if place.exists():
        with suppress(OSError, ValueError):
            if json.loads(key.read_text(encoding="utf-8")) == made_from:
                return
        print(f"rollout: {place} was made with other settings or inputs; starting anew", file=sys.stderr)
        shutil.rmtree(place)
    write_json(key, made_from)
