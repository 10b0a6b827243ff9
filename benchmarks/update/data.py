"""The trajectories that the update is timed on: those of one real iteration of the default pipeline."""

from pathlib import Path

from progpo.settings.advantages import AdvantageSettings
from progpo.settings.experiment import DemonstrateStage, RolloutStage, TasksStage, WarmupStage
from progpo.stages import advantages, demonstrate, rollout, tasks, warmup

#: Enough for a policy whose episodes look as they do in training: some won, most long.
WARMUP_TOKENS = 400_000
SEED = 0


def make_iteration(folder: Path) -> None:
    """Run the stages up to the first advantages into a folder, those that are there already left out."""
    stages = [
        ("tasks/manifest.json", lambda place: tasks.run(TasksStage.model_validate({"tasks": {}}), place)),
        (
            "demonstrations.parquet",
            lambda place: demonstrate.run(DemonstrateStage(), folder / "tasks", place, folder / "demonstrations.json"),
        ),
        (
            "policy/manifest.json",
            lambda place: warmup.run(
                WarmupStage.model_validate({"warmup": {"tokens": WARMUP_TOKENS, "batch_tokens": 1024}}),
                [folder / "demonstrations.parquet"],
                SEED,
                place,
                folder / "warmup.json",
            ),
        ),
        *(
            (
                f"shard-{shard:02d}.parquet",
                lambda place, shard=shard: rollout.run(
                    RolloutStage(), folder / "tasks", folder / "policy", SEED, 1, shard, place
                ),
            )
            for shard in range(RolloutStage().rollout.shards)
        ),
        (
            "advantages.parquet",
            lambda place: advantages.run(
                AdvantageSettings.model_validate({"base": "gigpo", "progress": {}, "invalid_penalty": 0.1}),
                shards_of(folder),
                place,
                folder / "advantages.json",
            ),
        ),
    ]
    for name, make in stages:
        if not (folder / name).exists():
            make(folder / name)


def shards_of(folder: Path) -> list[Path]:
    """Return the shards in a folder."""
    return sorted(folder.glob("shard-??.parquet"))
