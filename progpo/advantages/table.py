"""The advantages table on disk."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from progpo import artifacts
from progpo.errors import ProgpoError
from progpo.trajectories.schema import METADATA_KEY
from progpo.trajectories.write import write_table

FORMAT = 1
#: What decided a group's advantages, and the codes for it.
BRANCHES = ("none", "outcome", "progress")
NONE, OUTCOME, PROGRESS = range(3)

#: One row a step, joined to the trajectories by key. `first_visit` and `progress` are null where the shards lacked the
#: observations, and the arm did not read them. `step_advantage` is before `step_weight`.
SCHEMA = pa.schema(
    [
        pa.field("group", pa.int32(), nullable=False),
        pa.field("trajectory", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("first_visit", pa.bool_()),
        pa.field("progress", pa.float64()),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("trajectory_advantage", pa.float64(), nullable=False),
        pa.field("step_advantage", pa.float64(), nullable=False),
        pa.field("advantage", pa.float64(), nullable=False),
    ]
)


def write_advantages(path: Path, table: pa.Table, facts: Mapping[str, Any]) -> None:
    """Write the table, atomically; `facts` (JSON-able) stand in the file's metadata."""
    metadata = {METADATA_KEY: json.dumps({"kind": "advantages", "format": FORMAT, **facts}, sort_keys=True)}
    write_table(path, table.replace_schema_metadata(metadata))


def read_advantages(path: Path, strict: bool = False) -> tuple[pa.Table, dict[str, Any]]:
    """Read the table.

    Args:
        strict: whether a manifest is required; one that is there is always checked.

    Returns:
        table: of `SCHEMA`.
        facts: the file's metadata; empty where it has none.

    Raises:
        ProgpoError: no such file, damaged, of another format.
    """
    artifacts.check(path, strict=strict)
    try:
        table = pq.read_table(path)
        facts = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ProgpoError(f"{path}: truncated, damaged or not an advantages table ({reason}); make it anew") from None
    if facts.get("format", FORMAT) != FORMAT:
        raise ProgpoError(f"{path}: advantages format {facts['format']}, this version reads {FORMAT}; make it anew")
    absent = [name for name in SCHEMA.names if name not in table.column_names]
    if absent:
        raise ProgpoError(f"{path}: no column {', '.join(map(repr, absent))}: not an advantages table")
    return table.select(SCHEMA.names).cast(SCHEMA), facts
