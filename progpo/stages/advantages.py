"""Stage `advantages`: all shards of an iteration in, one advantage a step out."""

import sys
from collections.abc import Sequence
from pathlib import Path

from progpo.advantages.columns import REPORTED, needed_columns
from progpo.advantages.estimate import estimate
from progpo.advantages.table import write_advantages
from progpo.artifacts import clean_partial, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.settings.advantages import AdvantageSettings
from progpo.trajectories.read import read_shards


def run(settings: AdvantageSettings, shards: Sequence[Path], output: Path, metrics: Path, strict: bool = False) -> None:
    """Estimate the advantages of one iteration.

    Only the columns that the arm reads, or the metrics report on, are read; tokens never are.

    Args:
        settings: the arm.
        shards: all shards of the iteration, in any order.
        output: the Parquet file of advantages, of `progpo.advantages.SCHEMA`.
        metrics: the JSON file of metrics (`progpo.advantages.metrics.describe`).
        strict: whether shards must have metadata and manifests.

    Raises:
        ProgpoError: shards that cannot be read, do not belong together or are not of `progpo rollout`; see
            `read_shards` and `estimate`.
    """
    clean_partial(output)
    clean_partial(metrics)
    # In the order of their names, so that the order of arguments leaves no trace in the files.
    shards = sorted(shards)
    table, metadata = read_shards(shards, needed_columns(settings), strict=strict, encoded=True, optional=REPORTED)
    for path, item in zip(shards, metadata, strict=True):
        if item is not None and item.kind != "rollout":
            raise ProgpoError(f"{path}: holds {item.kind}s, not rollouts; advantages are of `progpo rollout`'s shards")
    known = next((item for item in metadata if item is not None), None)
    seed, iteration = (known.seed, known.iteration) if known else (0, 0)
    result = estimate(table, settings, seed, iteration)
    facts = {"seed": seed, "iteration": iteration, "policy": known.policy if known else None}
    recorded = settings.model_dump(mode="json")
    write_advantages(output, result.table, {"settings": recorded, **facts})
    write_json(metrics, result.metrics)
    write_manifest(output, "advantages", recorded, files=[output, metrics], inputs=shards, facts=facts)
    print(_summary(result.metrics), file=sys.stderr)


def _summary(metrics: dict) -> str:
    weight = metrics["progress_weight"]
    progress = "" if weight is None else f", progress weight {weight:.3g} in {metrics['triggered_groups']} groups"
    return (
        f"advantages: {metrics['groups']} groups, {metrics['trajectories']} trajectories, {metrics['steps']} steps; "
        f"success {metrics['success_rate']:.1%}, all-failed groups {metrics['failed_fraction']:.1%}{progress}"
    )
