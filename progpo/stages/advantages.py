"""Stage `advantages`: all shards of an iteration in, one advantage a step out."""

import sys
from collections.abc import Sequence
from pathlib import Path

from progpo.advantages.columns import REPORTED, needed_columns
from progpo.advantages.estimate import estimate
from progpo.advantages.metrics import count_tasks
from progpo.advantages.table import write_advantages
from progpo.alarms import of_rollouts, print_alarms
from progpo.artifacts import clean_partial, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.results import read_metrics
from progpo.settings.advantages import AdvantageSettings
from progpo.trajectories.read import read_shards


def run(
    settings: AdvantageSettings,
    shards: Sequence[Path],
    output: Path,
    metrics: Path,
    strict: bool = False,
    first: Path | None = None,
) -> None:
    """Estimate the advantages of one iteration.

    Only the columns that the arm reads, or the metrics report on, are read; tokens never are.

    Args:
        settings: the arm.
        shards: all shards of the iteration, in any order.
        output: the Parquet file of advantages, of `progpo.advantages.SCHEMA`.
        metrics: the JSON file of metrics (`progpo.advantages.metrics.describe`), of the tasks' successes
            (`count_tasks`), and of the alarms (`progpo.alarms`).
        strict: whether shards must have metadata and manifests.
        first: the metrics of the arm's first iteration, for the alarms that compare with them.

    Raises:
        ProgpoError: shards that cannot be read, do not belong together or are not of `progpo rollout`; see
            `read_shards` and `estimate`.
    """
    clean_partial(output)
    clean_partial(metrics)
    # In the order of their names, so that the order of arguments leaves no trace in the files.
    shards = sorted(shards)
    table, metadata = read_shards(
        shards, needed_columns(settings), strict=strict, encoded=True, optional=(*REPORTED, "task")
    )
    for path, item in zip(shards, metadata, strict=True):
        if item is not None and item.kind != "rollout":
            raise ProgpoError(f"{path}: holds {item.kind}s, not rollouts; advantages are of `progpo rollout`'s shards")
    known = next((item for item in metadata if item is not None), None)
    seed, iteration = (known.seed, known.iteration) if known else (0, 0)
    result = estimate(table, settings, seed, iteration)
    facts = {"seed": seed, "iteration": iteration, "policy": known.policy if known else None}
    recorded = settings.model_dump(mode="json")
    write_advantages(output, result.table, {"settings": recorded, **facts})
    found = {"seed": seed, "iteration": iteration} | result.metrics
    found |= count_tasks(table, [group for item in metadata if item for group in item.dropped])
    found["alarms"] = of_rollouts(found, read_metrics(first, strict))
    write_json(metrics, found)
    write_manifest(output, "advantages", recorded, files=[output, metrics], inputs=shards, facts=facts)
    print(_summary(found), file=sys.stderr)
    print_alarms("advantages", found["alarms"])


def _summary(metrics: dict) -> str:
    weight = metrics["progress_weight"]
    progress = "" if weight is None else f", progress weight {weight:.3g} in {metrics['triggered_groups']} groups"
    return (
        f"advantages: {metrics['groups']} groups, {metrics['trajectories']} trajectories, {metrics['steps']} steps; "
        f"success {metrics['success_rate']:.1%}, all-failed groups {metrics['failed_fraction']:.1%}{progress}"
    )
