"""What a portable run comes to: `python portable_run.py FOLDER` trains on the corridor there, and prints digests."""

import hashlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import corridor

from progpo.settings.advantages import AdvantageSettings
from progpo.settings.base import validate
from progpo.settings.experiment import DemonstrateStage, RolloutStage, TasksStage, WarmupStage
from progpo.settings.stages import UpdateSettings
from progpo.stages import advantages, demonstrate, rollout, tasks, update, warmup
from progpo.trajectories.read import read_shard

POLICY = {"hidden_size": 48, "layers": 2, "heads": 2, "intermediate_size": 96}
WARMUP = {"tokens": 4000, "batch_tokens": 300, "warmup_steps": 3, "augment": False, "precision": "portable"}
ROLLOUT = {"tasks": 4, "group_size": 4, "shards": 1, "precision": "portable"}
UPDATE = {"minibatches": 2, "learning_rate": 1e-3, "precision": "portable"}


def digest(parts: Iterable[bytes]) -> str:
    """Return the beginning of a hash of all parts."""
    found = hashlib.sha256()
    for part in parts:
        found.update(part)
    return found.hexdigest()[:16]


def weights(policy: Path) -> str:
    """Return a digest of a policy's weights alone; its fingerprint is of the config too, which names a version."""
    from safetensors.numpy import load_file

    loaded = load_file(policy / "model.safetensors")
    return digest(loaded[name].tobytes() for name in sorted(loaded))


def main(folder: Path) -> dict[str, str]:
    """Warm a policy up, sample an iteration and update on it; return digests of what each made."""
    name = corridor.ENTRY.name
    played = {"environment": {"name": name}}
    tasks.run(validate(TasksStage, {"environment": name}, "tasks"), folder / "tasks")
    shown, shard = folder / "demonstrations.parquet", folder / "shard-00.parquet"
    demonstrate.run(
        validate(DemonstrateStage, played, "demonstrate"), folder / "tasks", shown, folder / "demonstrations.json"
    )
    settings = {"environment": name, "policy": POLICY, "warmup": WARMUP}
    warmed, updated = folder / "warmup", folder / "policy"
    warmup.run(validate(WarmupStage, settings, "warmup"), [shown], 0, warmed, folder / "warmup.json")
    settings = {**played, "rollout": ROLLOUT}
    rollout.run(validate(RolloutStage, settings, "rollout"), folder / "tasks", warmed, 0, 1, 0, shard)
    estimated = folder / "advantages.parquet"
    recipe = validate(AdvantageSettings, {"base": "gigpo", "progress": {}}, "arm")
    advantages.run(recipe, [shard], estimated, folder / "advantages.json")
    how = validate(UpdateSettings, UPDATE, "update")
    update.run(how, warmed, warmed, [shard], estimated, 0, 1, updated, folder / "update.json")
    table = read_shard(shard, ("response_tokens", "response_logprobs"))[0]
    return {
        "warmup": weights(warmed),
        "rollout": digest([json.dumps(table.to_pydict()).encode()]),
        "update": weights(updated),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
