"""Stage `demonstrate`: the environment's expert shows train tasks; what it won is kept to imitate."""

import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import envs
from envs import Expert, Task, listed_commands, was_valid
from progpo.artifacts import check, clean_partial, recorded_input, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.progress import Progress
from progpo.seeds import stream
from progpo.settings.experiment import DemonstrateStage
from progpo.settings.stages import DemonstrationSettings, DitherSettings
from progpo.tasks import TASK_LIST, load_shown
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

#: Most tasks that a process is handed at once.
CHUNK = 32


def run(
    settings: DemonstrateStage, tasks: Path, output: Path, metrics: Path, workers: int = 1, strict: bool = False
) -> None:
    """Play each task that is to be shown `variants` times and write the episodes that were won.

    A task is a group and a variant is a trajectory in it, by their indices; those of lost episodes are left out. All
    random numbers derive from (seed, task's index, variant): the number of workers changes nothing.

    Args:
        settings: the environment, and how to demonstrate.
        tasks: the folder of the task list, or its manifest.
        output: the Parquet file of demonstrations.
        metrics: the JSON file of success and steps, by task type, of clean and of noisy variants.
        workers: processes.
        strict: whether `tasks` must have a manifest.

    Raises:
        ProgpoError: damaged tasks, not one episode won, or an action of `dither` that is never admissible.
        EnvironmentDataError: a game that cannot be played.
    """
    check(tasks, strict)
    clean_partial(output)
    clean_partial(metrics)
    shown = _show_all(settings, load_shown(tasks), workers)
    _check_dither(settings.demonstrations.dither, shown)
    won = [item.trajectory for item in shown if item.trajectory is not None]
    if not won:
        raise ProgpoError(
            f"{tasks}: the expert won none of {len(shown)} episodes; allow more steps (the `environment` section), "
            "or make the tasks easier (the `tasks` section)"
        )
    recorded = settings.model_dump(mode="json")
    seed = settings.demonstrations.seed
    write_shard(output, won, Metadata(kind="demonstration", settings=recorded, seed=seed))
    summary = describe(shown)
    write_json(metrics, summary)
    facts = {"seed": seed, "played": len(shown), "kept": len(won)}
    source = recorded_input(tasks, TASK_LIST)
    write_manifest(output, "demonstrate", recorded, files=[output, metrics], inputs=[source], facts=facts)
    for name, by_type in summary["variants"].items():
        total = by_type["all"]
        steps = f", {total['mean_steps']:.1f} steps on average" if total["won"] else ""
        print(f"demonstrate: {name}: won {total['won']} of {total['played']}{steps}", file=sys.stderr)


@dataclass(frozen=True)
class Shown:
    """One episode of the expert's.

    Attributes:
        task_type: the family of its task.
        noisy: whether noise was injected.
        won: whether the task was done.
        steps: its length.
        trajectory: the episode, if it was won.
        could_dither: the actions of `dither` that were admissible at some step.
    """

    task_type: str
    noisy: bool
    won: bool
    steps: int
    trajectory: Trajectory | None
    could_dither: frozenset[str] = frozenset()


def demonstrate(
    environment: Any,
    expert: Expert,
    task: Task,
    group: int,
    variant: int,
    settings: DemonstrationSettings,
    rng: np.random.Generator,
) -> Trajectory:
    """Play one episode.

    Args:
        environment: as `envs.make` makes it.
        expert: plays; it is told of noise by `info["last_action"]`.
        task: what to play.
        group: index of the task.
        variant: index of the demonstration; the first one, 0, gets no noise.
        settings: of the noise.
        rng: of the noise.

    Returns:
        the episode; its outcome is the sum of rewards.
    """
    observation, info = environment.reset(options=dict(task.options))
    told = dict(info)
    expert.reset(observation, told)
    trajectory = Trajectory(group, variant, task.id, task.task_type)
    noise = settings.noise if variant else 0.0
    known: dict[str, None] = {}  # the commands that were admissible at some time; a dict keeps their order
    ended = False
    while not ended:
        action = expert.act(observation, told)
        admissible = info["admissible_commands"]
        imitate = True
        if lost := _dither(admissible, settings.dither, rng):
            action = lost
        elif noise:
            if rng.random() < noise and admissible:
                action, imitate = _noise(admissible, known, settings.invalid, rng), False
            known.update(dict.fromkeys(admissible))
        following, reward, terminated, truncated, after = environment.step(action)
        trajectory.steps.append(
            Step(
                observation=observation,
                next_observation=following,
                action=action,
                valid=was_valid(action, info, after),
                reward=float(reward),
                terminated=bool(terminated),
                truncated=bool(truncated),
                state_key=info.get("state_key"),
                next_state_key=after.get("state_key"),
                admissible=listed_commands(info),
                imitate=imitate,
            )
        )
        observation, info = following, after
        told = {**info, "last_action": action}
        ended = terminated or truncated
    trajectory.outcome = sum(step.reward for step in trajectory.steps)
    trajectory.score = float(info["score"])
    return trajectory


def _noise(admissible: Sequence[str], known: dict[str, None], invalid: float, rng: np.random.Generator) -> str:
    """Draw a random action: an admissible one, or, with probability `invalid`, one that was so earlier."""
    choices = list(admissible)
    if rng.random() < invalid:
        now = set(admissible)
        choices = [command for command in known if command not in now] or choices
    return choices[int(rng.integers(len(choices)))]


def _dither(admissible: Sequence[str], dither: DitherSettings | None, rng: np.random.Generator) -> str | None:
    """Draw whether time is lost, and how."""
    if dither is None or rng.random() >= dither.share:
        return None
    choices = [action for action in dither.actions if action in admissible]
    return choices[int(rng.integers(len(choices)))] if choices else None


def _check_dither(dither: DitherSettings | None, shown: Sequence["Shown"]) -> None:
    """Refuse an action that could be executed in no episode: it is misspelt, most likely."""
    for action in dither.actions if dither else ():
        if not any(action in item.could_dither for item in shown):
            raise ProgpoError(
                f"demonstrations.dither.actions: {action!r} was admissible at no step of {len(shown)} episodes; name "
                "one as the environment lists it (`progpo play`)"
            )


class _Player:
    """What one process needs to play: an environment and the means to make experts."""

    def __init__(self, settings: DemonstrateStage) -> None:
        self._settings = settings.demonstrations
        self._environment = settings.environment.make(self._settings.max_steps)
        self._make_expert = envs.entry(settings.environment.name).load("expert")

    def play(self, group: int, task: Task) -> list[Shown]:
        """Play all variants of one task."""
        shown = []
        for variant in range(self._settings.variants):
            key = (self._settings.seed, group, variant)
            expert = self._make_expert(stream("search", *key), self._settings.search_of(variant))
            noise = stream("noise", *key)
            episode = demonstrate(self._environment, expert, task, group, variant, self._settings, noise)
            won = episode.steps[-1].terminated and episode.score == 1.0
            could = frozenset(
                action
                for action in (self._settings.dither.actions if self._settings.dither else ())
                if any(action in step.admissible for step in episode.steps)
            )
            shown.append(Shown(task.task_type, variant > 0, won, len(episode.steps), episode if won else None, could))
        return shown


def _show_all(settings: DemonstrateStage, tasks: Sequence[Task], workers: int) -> list[Shown]:
    """Play all tasks, in order; with several workers, in that many processes."""
    numbered = list(enumerate(tasks))
    total = len(tasks) * settings.demonstrations.variants
    size = max(1, min(CHUNK, len(tasks) // (4 * workers)))
    chunks = [numbered[start : start + size] for start in range(0, len(numbered), size)]
    if workers == 1:
        player = _Player(settings)
        return _gather(
            ([item for group, task in chunk for item in player.play(group, task)] for chunk in chunks), total
        )
    # Spawned, not forked: a fork of a process in which threads run may hang.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=_start, initargs=(settings,)) as pool:
        return _gather(pool.map(_play_chunk, chunks), total)


def _gather(parts: Iterable[list[Shown]], total: int) -> list[Shown]:
    """Put the parts together, reporting progress."""
    shown: list[Shown] = []
    with Progress("demonstrate", total, "episodes") as progress:
        for part in parts:
            shown += part
            progress.update(len(shown))
    return shown


_settings_of_process: DemonstrateStage


def _start(settings: DemonstrateStage) -> None:
    """Start a worker process. The player is made with its first chunk, whose errors reach the parent as they are."""
    global _settings_of_process
    _settings_of_process = settings


@cache
def _player_of_process() -> _Player:
    return _Player(_settings_of_process)


def _play_chunk(chunk: Sequence[tuple[int, Task]]) -> list[Shown]:
    player = _player_of_process()
    return [item for group, task in chunk for item in player.play(group, task)]


def describe(shown: Sequence[Shown]) -> dict[str, Any]:
    """Return the metrics: episodes played and kept, then success and steps by variant (clean, noisy) and task type.

    Steps are those of the episodes won; null where there is none.
    """
    groups: dict[str, dict[str, list[Shown]]] = {"clean": defaultdict(list), "noisy": defaultdict(list)}
    for item in shown:
        for name in ("all", item.task_type):
            groups["noisy" if item.noisy else "clean"][name].append(item)
    return {
        "played": len(shown),
        "kept": sum(item.won for item in shown),
        "variants": {
            variant: {name: _figures(items) for name, items in by_type.items()}
            for variant, by_type in groups.items()
            if by_type
        },
    }


def _figures(items: Sequence[Shown]) -> dict[str, Any]:
    steps = [item.steps for item in items if item.won]
    return {
        "played": len(items),
        "won": len(steps),
        "success": len(steps) / len(items),
        "mean_steps": float(np.mean(steps)) if steps else None,
        "max_steps": max(steps, default=None),
    }
