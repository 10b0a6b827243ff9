"""Stage `correct`: policy and expert take turns in playing train tasks, for the policy to learn from its mistakes."""

import sys
from pathlib import Path
from typing import Any

import envs
from progpo.artifacts import clean_partial, recorded_input, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.policy.backends import open_backend
from progpo.policy.checkpoint import SETTINGS_FILE
from progpo.policy.play import Episode, play_with
from progpo.policy.tutor import Tutor
from progpo.seeds import stream
from progpo.settings.experiment import CorrectStage
from progpo.stages.rollout import check_tasks
from progpo.tasks import load_shown
from progpo.trajectories.records import Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard


def run(
    settings: CorrectStage,
    tasks: Path,
    policy: Path,
    seed: int,
    number: int,
    output: Path,
    metrics: Path,
    strict: bool = False,
) -> None:
    """Play one round.

    A task is a group, by its index among those that the expert shows, and its one trajectory has the round's number.
    Steps in which the policy did not do what the expert wanted are not to be imitated. Episodes are kept whether they
    were won or not, since the expert's steps are as right in those that were not.

    Args:
        settings: the environment, how to correct, and how the expert searches.
        tasks: the folder of the task list, or its manifest.
        policy: the folder of the policy, or its manifest.
        seed, number: of the random streams; rounds count from 1.
        output: the Parquet file, of demonstrations.
        metrics: JSON file: episodes, success, and the share of the policy's steps that were the expert's too.
        strict: whether inputs must have manifests.

    Raises:
        ProgpoError: damaged inputs, or a backend that is missing or cannot hold the policy.
        EnvironmentDataError: a game that cannot be played, or an environment without an expert.
    """
    how = settings.corrections
    source = check_tasks(tasks, strict)
    clean_partial(output)
    clean_partial(metrics)
    shown = load_shown(tasks)
    order = stream("correct", seed, number).permutation(len(shown))[: how.tasks].tolist()
    make_expert = envs.entry(settings.environment.name).load("expert")
    tutors: list[Tutor] = []

    def tutor(episode: Episode) -> Tutor:
        key = (seed, number, episode.group)
        made = Tutor(make_expert(stream("search", *key), settings.search), stream("turns", *key), how.share, how.switch)
        tutors.append(made)
        return made

    with open_backend(policy, how, how.temperature, strict) as backend:
        loaded = backend.policy
        episodes = [Episode(group, number, shown[group]) for group in order]
        make = settings.environment.make
        played = play_with(
            backend, episodes, make, batch=how.batch, seed=seed, iteration=0, label="correct", tutor=tutor
        )
        facts = backend.facts()
    kept = [item for item in played if any(step.imitate for step in item.steps)]
    if not kept:
        raise ProgpoError(f"corrections: the expert came to play in none of {len(played)} episodes; lower `share`")
    recorded = settings.model_dump(mode="json")
    metadata = Metadata(
        kind="demonstration",
        policy=loaded.fingerprint,
        tokenizer=loaded.tokenizer_fingerprint,
        settings=recorded,
        seed=seed,
        temperature=how.temperature,
    )
    write_shard(output, kept, metadata)
    found = _describe(played, kept, tutors)
    write_json(metrics, found)
    inputs = [source, recorded_input(policy, SETTINGS_FILE)]
    facts |= {"seed": seed, "round": number}
    write_manifest(output, "correct", recorded, files=[output, metrics], inputs=inputs, facts=facts)
    print(
        f"correct: round {number}: {len(kept)} episodes, {found['success']:.1%} won; the policy did what the expert "
        f"would have done in {found['agreement']:.1%} of its {found['policy_steps']} steps",
        file=sys.stderr,
    )


def _describe(played: list[Trajectory], kept: list[Trajectory], tutors: list[Tutor]) -> dict[str, Any]:
    turns = sum(item.turns for item in tutors)
    return {
        "episodes": len(played),
        "kept": len(kept),
        "steps": sum(len(item.steps) for item in played),
        "success": sum(item.score == 1.0 for item in played) / len(played),
        "policy_steps": turns,
        "agreement": sum(item.agreed for item in tutors) / turns if turns else 0.0,
    }
