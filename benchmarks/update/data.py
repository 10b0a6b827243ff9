"""The trajectories that the update is timed on: those of one iteration, sampled by the default config's warm-up."""

from pathlib import Path

from progpo.settings import load_json
from progpo.settings.advantages import AdvantageSettings
from progpo.settings.experiment import DemonstrateStage, RolloutStage, TasksStage, WarmupStage, load_experiment
from progpo.settings.stages import PolicySettings
from progpo.stages import advantages, demonstrate, rollout, tasks, warmup

CONFIG = Path(__file__).parents[2] / "config" / "config.yaml"
SEED = 0
#: An arm in which every trajectory has an advantage, if only by a penalty.
ARM = AdvantageSettings.model_validate({"base": "gigpo", "progress": {}, "invalid_penalty": 0.1})


def make_iteration(folder: Path) -> None:
    """Run the stages up to the first advantages into a folder; what is there already stays.

    Tasks, demonstrations and warm-up are those of the embedded default, but the policy and the rollout have the
    settings' own defaults: 0.86 M parameters; 16 tasks by 8 trajectories of at most 50 steps.
    """
    default = load_experiment(CONFIG).model_copy(update={"policy": PolicySettings()})
    place = folder / "tasks" / "manifest.json"
    if not place.exists():
        tasks.run(load_json(TasksStage, default.stage("tasks")), place)
    shown = folder / "demonstrations.parquet"
    if not shown.exists():
        settings = load_json(DemonstrateStage, default.stage("demonstrate"))
        demonstrate.run(settings, folder / "tasks", shown, folder / "demonstrations.json")
    policy = folder / "policy" / "manifest.json"
    if not policy.exists():
        warmup.run(load_json(WarmupStage, default.stage("warmup")), [shown], SEED, policy, folder / "warmup.json")
    settings = RolloutStage()
    shards = [folder / f"shard-{shard:02d}.parquet" for shard in range(settings.rollout.shards)]
    for number, shard in enumerate(shards):
        if not shard.exists():
            rollout.run(settings, folder / "tasks", folder / "policy", SEED, 1, number, shard)
    if not (folder / "advantages.parquet").exists():
        advantages.run(ARM, shards, folder / "advantages.parquet", folder / "advantages.json")


def shards_of(folder: Path) -> list[Path]:
    """Return the shards in a folder."""
    return sorted(folder.glob("shard-??.parquet"))
