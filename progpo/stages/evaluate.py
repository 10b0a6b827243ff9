"""Stage `evaluate`: every listed task once for each evaluation seed; success by split, seed and task type."""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from envs import Task
from progpo.artifacts import clean_partial, recorded_input, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.policy.backends import open_backend
from progpo.policy.checkpoint import SETTINGS_FILE
from progpo.results import BEST, read_json
from progpo.settings.experiment import EvaluateStage
from progpo.stages.rollout import check_tasks
from progpo.statistics import wilson
from progpo.tasks import load_tasks
from progpo.trajectories.records import Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard


def run(settings: EvaluateStage, tasks: Path, policy: Path, output: Path, summary: Path, strict: bool = False) -> None:
    """Evaluate a policy.

    In the trajectories' file a group is a task, by its index among those evaluated (all splits, in the settings'
    order), and a trajectory is an evaluation seed, by its index.

    Args:
        settings: the environment, and how to evaluate.
        tasks: the folder of the task list, or its manifest.
        policy: the folder of the policy, or its manifest; or the `best.json` that names it.
        output: the Parquet file of the episodes.
        summary: the JSON file of the results.
        strict: whether inputs must have manifests.

    Raises:
        ProgpoError: damaged inputs, no task of a split, or a backend that is missing or cannot hold the policy.
        EnvironmentDataError: a game that cannot be played.
    """
    evaluation = settings.evaluation
    source = check_tasks(tasks, strict)
    listed = [task for split in evaluation.splits for task in _thin(load_tasks(tasks, split), evaluation.tasks)]
    policy = _best_policy(policy, strict) if policy.name == BEST else policy
    from progpo.policy.play import Episode, play_with

    trajectories: list[Trajectory] = []
    with open_backend(policy, evaluation, evaluation.temperature, strict) as backend:
        loaded, facts = backend.policy, backend.facts()
        clean_partial(output)
        clean_partial(summary)
        for number, seed in enumerate(evaluation.seeds):
            # No iteration of training is 0: these random numbers are no rollout's.
            trajectories += play_with(
                backend,
                [Episode(group, number, task) for group, task in enumerate(listed)],
                settings.environment.make,
                batch=evaluation.batch,
                seed=seed,
                iteration=0,
                label=f"evaluate: seed {seed}",
            )
    recorded = settings.model_dump(mode="json")
    metadata = Metadata(
        kind="evaluation",
        policy=loaded.fingerprint,
        tokenizer=loaded.tokenizer_fingerprint,
        settings=recorded,
        seed=evaluation.seeds[0],
        layout=loaded.settings.resolved_layout,
        temperature=evaluation.temperature,
    )
    write_shard(output, trajectories, metadata)
    results = summarise(listed, trajectories, evaluation.seeds, evaluation.confidence)
    write_json(summary, {"policy": loaded.fingerprint, "temperature": evaluation.temperature, **results})
    write_manifest(
        output,
        "evaluate",
        recorded,
        files=[output, summary],
        inputs=[source, recorded_input(policy, SETTINGS_FILE)],
        facts={**facts, "fingerprint": loaded.fingerprint, "seeds": list(evaluation.seeds)},
    )
    for split, found in results["splits"].items():
        print(
            f"evaluate: {split}: {found['successes']} of {found['episodes']} "
            f"({100 * found['success']:.1f} % [{100 * found['low']:.1f}, {100 * found['high']:.1f}])",
            file=sys.stderr,
        )


def summarise(
    tasks: Sequence[Task], trajectories: Sequence[Trajectory], seeds: Sequence[int], confidence: float
) -> dict[str, Any]:
    """Sum up evaluated episodes.

    Args:
        tasks: by the trajectories' `group`.
        trajectories: the episodes.
        seeds: evaluation seeds, by the trajectories' `trajectory`.
        confidence: of the intervals.

    Returns:
        By split, over all its episodes, by task type ("types") and by evaluation seed ("seeds"): tasks, episodes,
        successes, their rate with Wilson's interval, mean score, mean steps, the share of valid actions, and the
        prompts that left out steps for want of room; and by task ("tasks_by_id"): its type, episodes and successes.
    """
    by_split: dict[str, list[Trajectory]] = defaultdict(list)
    for trajectory in trajectories:
        by_split[tasks[trajectory.group].split].append(trajectory)
    splits = {}
    for split, episodes in by_split.items():
        by_type: dict[str, list[Trajectory]] = defaultdict(list)
        by_seed: dict[str, list[Trajectory]] = defaultdict(list)
        by_task: dict[str, list[Trajectory]] = defaultdict(list)
        for trajectory in episodes:
            by_type[trajectory.task_type].append(trajectory)
            by_seed[str(seeds[trajectory.trajectory])].append(trajectory)
            by_task[trajectory.task].append(trajectory)
        splits[split] = {
            **_figures(episodes, confidence),
            "types": {name: _figures(part, confidence) for name, part in by_type.items()},
            "seeds": {name: _figures(part, confidence) for name, part in by_seed.items()},
            "tasks_by_id": {name: _task_figures(part) for name, part in by_task.items()},
        }
    return {"confidence": confidence, "splits": splits}


def _figures(episodes: Sequence[Trajectory], confidence: float) -> Mapping[str, float]:
    successes = sum(episode.score == 1.0 for episode in episodes)
    low, high = wilson(successes, len(episodes), confidence)
    return {
        "tasks": len({episode.group for episode in episodes}),
        "episodes": len(episodes),
        "successes": successes,
        "success": successes / len(episodes),
        "low": low,
        "high": high,
        "score": fmean(episode.score for episode in episodes),
        "steps": fmean(len(episode.steps) for episode in episodes),
        "valid_rate": fmean(step.valid for episode in episodes for step in episode.steps),
        "cut_prompts": sum(bool(step.history_cut) for episode in episodes for step in episode.steps),
    }


def _best_policy(file: Path, strict: bool) -> Path:
    """Return the folder of the policy that a `best.json` names."""
    named = read_json(file, strict).get("policy")
    if not isinstance(named, str):
        raise ProgpoError(f"{file}: names no policy; rerun `progpo best`")
    return file.parent / named


def _task_figures(episodes: Sequence[Trajectory]) -> Mapping[str, Any]:
    return {
        "task_type": episodes[0].task_type,
        "episodes": len(episodes),
        "successes": sum(episode.score == 1.0 for episode in episodes),
    }


def _thin(tasks: Sequence[Task], most: int | None) -> list[Task]:
    """Return at most so many tasks, evenly over the list."""
    count = len(tasks) if most is None else min(most, len(tasks))
    return [tasks[number * len(tasks) // count] for number in range(count)]
