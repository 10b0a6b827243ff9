"""Stage `rollout`: one shard of an iteration's groups of trajectories, sampled by the policy."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from envs import Task
from progpo import __version__
from progpo.artifacts import check, clean_partial, recorded_input, sha256, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import SETTINGS_FILE, Policy, load_policy
from progpo.settings.experiment import RolloutStage
from progpo.tasks import TASK_LIST, load_tasks, tasks_of_iteration
from progpo.trajectories.read import read_shard, to_trajectories
from progpo.trajectories.records import Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

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
) -> None:
    """Sample one shard.

    The iteration's groups 0, 1, ... are those of `tasks_of_iteration`, in its order; each shard has a contiguous part
    of them. With `save_groups`, finished groups are kept in `<output>.progress/` and taken from there after a kill.

    Args:
        settings: the environment, and how to sample.
        tasks: the folder of the task list, or its manifest.
        policy: the folder of the policy, or its manifest.
        seed, iteration: of the random streams; iterations count from 1.
        shard: index among `settings.rollout.shards`.
        output: the Parquet file.
        strict: whether inputs must have manifests.

    Raises:
        ProgpoError: damaged inputs, no train tasks, or no such shard.
        EnvironmentDataError: a game that cannot be played.
    """
    sampling = settings.rollout
    if not 0 <= shard < sampling.shards:
        raise ProgpoError(f"--shard {shard}: there are {sampling.shards} (rollout.shards), counted from 0")
    if iteration < 1:
        raise ProgpoError(f"--iteration {iteration}: iterations count from 1")
    source = check_tasks(tasks, strict)
    chosen = tasks_of_iteration(load_tasks(tasks, SPLIT), seed, iteration, sampling.tasks)
    first, end = (sampling.tasks * number // sampling.shards for number in (shard, shard + 1))
    loaded = load_policy(policy, strict)
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
        temperature=sampling.temperature,
    )
    rollout = _Rollout(settings, loaded, chosen, metadata)
    progress = output.with_name(f"{output.name}.progress")
    if sampling.save_groups is None:
        trajectories = rollout.play(range(first, end))
    else:
        made_from = {"metadata": asdict(metadata), "tasks": sha256(source), "version": __version__}
        trajectories = rollout.play_with_progress(range(first, end), sampling.save_groups, progress, made_from)
    write_shard(output, trajectories, metadata)
    write_manifest(
        output,
        "rollout",
        settings.model_dump(mode="json"),
        files=[output],
        inputs=[source, recorded_input(policy, SETTINGS_FILE)],
        facts={
            "fingerprint": loaded.fingerprint,
            "seed": seed,
            "iteration": iteration,
            "shard": shard,
            "trajectories": len(trajectories),
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


@dataclass(frozen=True)
class _Rollout:
    settings: RolloutStage
    policy: Policy
    tasks: Sequence[Task]
    metadata: Metadata

    def play(self, groups: Sequence[int]) -> list[Trajectory]:
        """Play groups of the iteration."""
        import torch

        from progpo.policy.play import Episode, play

        sampling = self.settings.rollout
        torch.set_num_threads(sampling.threads)
        return play(
            self.policy,
            [Episode(group, number, self.tasks[group]) for group in groups for number in range(sampling.group_size)],
            self.settings.environment.make,
            temperature=sampling.temperature,
            batch=sampling.batch,
            seed=self.metadata.seed,
            iteration=self.metadata.iteration,
            precision=sampling.precision,
            label="rollout",
        )

    def play_with_progress(
        self, groups: range, size: int, place: Path, made_from: Mapping[str, Any]
    ) -> list[Trajectory]:
        """Play `size` groups at a time, and save each such part; parts saved earlier are taken as they are."""
        _open_progress(place, made_from)
        trajectories = []
        for first in range(groups.start, groups.stop, size):
            part = range(first, min(first + size, groups.stop))
            file = place / f"groups-{part.start:05d}-{part.stop - 1:05d}.parquet"
            clean_partial(file)
            if file.exists():
                print(f"rollout: groups {part.start} to {part.stop - 1} were done before", file=sys.stderr)
            else:
                write_shard(file, self.play(part), self.metadata)
            # From the file in either case, so that a resumed shard cannot differ.
            trajectories += to_trajectories(read_shard(file)[0])
        return trajectories


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
