"""Writing shards."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from progpo.artifacts import atomic
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import SCHEMA, Metadata

#: Small enough that a reader of a row group with tokens stays far below a gigabyte, large enough to compress.
ROW_GROUP_ROWS = 1 << 16
#: A dictionary of observations soon outgrows Parquet's default of one MiB, and would fall back to plain text.
DICTIONARY_BYTES = 16 << 20
LIST_COLUMNS = ("context_tokens", "response_tokens", "response_logprobs", "admissible")


def to_table(trajectories: Sequence[Trajectory]) -> pa.Table:
    """Return trajectories as a table of `SCHEMA`, sorted by (group, trajectory, step).

    Raises:
        ValueError: a trajectory without steps (no row could stand for it), one that is there twice, or
            log-probabilities that are not one to a response token.
    """
    ordered = sorted(trajectories, key=lambda item: (item.group, item.trajectory))
    for before, after in pairwise(ordered):
        if (before.group, before.trajectory) == (after.group, after.trajectory):
            raise ValueError(f"group {after.group}, trajectory {after.trajectory}: there twice")
    for item in ordered:
        if not item.steps:
            raise ValueError(f"group {item.group}, trajectory {item.trajectory}: no steps")
        for number, step in enumerate(item.steps):
            if len(step.response_logprobs) not in (0, len(step.response_tokens)):
                raise ValueError(
                    f"group {item.group}, trajectory {item.trajectory}, step {number}: "
                    f"{len(step.response_logprobs)} log-probabilities of {len(step.response_tokens)} tokens"
                )

    def rows() -> Iterator[tuple[Trajectory, int, Step]]:
        for item in ordered:
            for number, step in enumerate(item.steps):
                yield item, number, step

    columns = {}
    for name in SCHEMA.names:
        if name == "step":
            values = [number for _, number, _ in rows()]
        elif name in Trajectory.__dataclass_fields__:
            values = [getattr(item, name) for item, _, _ in rows()]
        elif name in LIST_COLUMNS:
            values = [getattr(step, name) if len(getattr(step, name)) else None for _, _, step in rows()]
        else:
            values = [getattr(step, name) for _, _, step in rows()]
        columns[name] = pa.array(values, SCHEMA.field(name).type)
    return pa.table(columns, schema=SCHEMA)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as Parquet, atomically: zstd, page checksums, dictionary-encoded text."""
    encoded = []
    for field in table.schema:
        of_list = pa.types.is_list(field.type)
        kind = field.type.value_type if of_list else field.type
        if not pa.types.is_floating(kind) and not pa.types.is_boolean(kind):
            encoded.append(f"{field.name}.list.element" if of_list else field.name)
    with atomic(path) as temporary:
        pq.write_table(
            table,
            temporary,
            row_group_size=ROW_GROUP_ROWS,
            compression="zstd",
            use_dictionary=encoded,
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            write_page_checksum=True,
        )


def write_shard(path: Path, trajectories: Sequence[Trajectory], metadata: Metadata) -> None:
    """Write one shard, atomically.

    Args:
        path: the file.
        trajectories: whole groups, in any order; none at all makes an empty shard.
        metadata: what the file says about itself.

    Raises:
        ValueError: see `to_table`.
    """
    write_table(path, to_table(trajectories).replace_schema_metadata(metadata.encode()))
