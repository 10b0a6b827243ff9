"""Reading shards: one file, or all of an iteration; what is wrong is refused, with file and reason."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from progpo import artifacts
from progpo.errors import ProgpoError
from progpo.trajectories.order import check_rows, time_order
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import KEYS, SCHEMA, Metadata

#: Metadata entries in which the shards of one gather must agree.
COMMON = ("kind", "policy", "tokenizer", "settings", "seed", "iteration", "layout", "choices", "temperature", "shards")


def read_shard(
    path: Path,
    columns: Sequence[str] | None = None,
    strict: bool = False,
    encoded: bool = False,
    optional: Sequence[str] = (),
) -> tuple[pa.Table, Metadata | None]:
    """Read one shard, in the order of its rows.

    Args:
        path: the Parquet file.
        columns: those to read, beside the keys `group, trajectory, step`, which always are; a column that is not
            asked for may be absent from the file. None: all columns of `SCHEMA` that the file has.
        strict: whether metadata and a manifest are required. A manifest that is there is always checked.
        encoded: whether text comes as dictionaries (Arrow's DictionaryArray), for work on codes.
        optional: columns to read beside `columns` where the file has them.

    Returns:
        table: (rows, columns), typed as `SCHEMA` says (but for `encoded`).
        metadata: None where the file has none.

    Raises:
        ProgpoError: no such file, truncated or damaged, another format version, a missing column, a column of
            another type, nulls where there may be none, duplicate rows, steps that are not 0..T-1.
    """
    path = Path(path)
    artifacts.check(path, strict=strict)
    try:
        footer = pq.read_metadata(path)
        schema = footer.schema.to_arrow_schema()
        metadata = Metadata.decode(schema.metadata, path)
        there = schema.names
        wanted = [name for name in SCHEMA.names if name in there] if columns is None else list(columns)
        wanted = list(dict.fromkeys((*KEYS, *wanted, *(name for name in optional if name in there))))
        absent = [name for name in wanted if name not in there]
        if absent:
            raise ProgpoError(f"{path}: no column {', '.join(map(repr, absent))}, which is needed here")
        text = [name for name in wanted if encoded and pa.types.is_string(SCHEMA.field(name).type)]
        with pq.ParquetFile(path, metadata=footer, read_dictionary=text, page_checksum_verification=True) as file:
            table = file.read(columns=wanted)
    except FileNotFoundError:
        raise ProgpoError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise ProgpoError(f"{path}: truncated, damaged or not Parquet ({reason}); make it anew") from None
    if strict and metadata is None:
        raise ProgpoError(f"{path}: no progpo metadata; make the shard anew with `progpo rollout`")
    table = _conform(table.select(wanted), path, encoded)
    keys = [table[name].to_numpy() for name in KEYS]
    order = time_order(*keys)
    check_rows(*(keys if order is None else [key[order] for key in keys]), where=str(path))
    return table, metadata


def read_shards(
    paths: Sequence[Path],
    columns: Sequence[str] | None = None,
    strict: bool = False,
    encoded: bool = False,
    optional: Sequence[str] = (),
) -> tuple[pa.Table, list[Metadata | None]]:
    """Gather all shards of an iteration into one table.

    Args:
        paths: the files, all shards, in any order.
        columns, strict, encoded, optional: see `read_shard`. A file without metadata gets a warning, if not
            `strict`; metadata that is there must always agree. An optional column that one file lacks is left out.

    Returns:
        table: the shards' rows, one shard after another, in the order of `paths`.
        metadata: of each file.

    Raises:
        ProgpoError: whatever `read_shard` refuses; shards of different policies, settings, seeds, ...; a
            missing or double shard; a group that is in two shards; no shard at all.
    """
    paths = [Path(path) for path in paths]
    if not paths:
        raise ProgpoError("no shard given: name all the shard files of one iteration")
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise ProgpoError(f"{path}: given twice")
        seen.add(path.resolve())
    read = [read_shard(path, columns, strict, encoded, optional) for path in paths]
    metadata = [item for _, item in read]
    _check_metadata(paths, metadata)
    _check_groups(paths, [table for table, _ in read])
    without = [str(path) for path, item in zip(paths, metadata, strict=True) if item is None]
    if without:
        warnings.warn(
            f"no metadata in {', '.join(without)}: cannot check that all shards are there, of one policy",
            stacklevel=2,
        )
    tables = [table for table, _ in read]
    common = [name for name in tables[0].column_names if all(name in table.column_names for table in tables)]
    return pa.concat_tables([table.select(common) for table in tables]), metadata


def to_trajectories(table: pa.Table) -> list[Trajectory]:
    """Return a table's rows as trajectories, sorted by (group, trajectory), steps in time order.

    Columns that the table lacks take the record's default.

    Raises:
        ProgpoError: the table lacks a column that a record must have.
    """
    needed = ("task", "task_type", "observation", "next_observation", "action", "valid", "reward")
    for name in (*KEYS, *needed, "terminated", "truncated"):
        if name not in table.column_names:
            raise ProgpoError(f"no column {name!r}, which trajectories need")
    table = table.sort_by([(name, "ascending") for name in KEYS])
    values = {name: table[name].to_pylist() for name in table.column_names}
    of_step = [name for name in Step.__dataclass_fields__ if name in values]
    of_trajectory = [name for name in Trajectory.__dataclass_fields__ if name in values]
    trajectories: list[Trajectory] = []
    for row in range(table.num_rows):
        group, number = values["group"][row], values["trajectory"][row]
        if not trajectories or (trajectories[-1].group, trajectories[-1].trajectory) != (group, number):
            trajectories.append(Trajectory(**{name: values[name][row] for name in of_trajectory}))
        given = {name: values[name][row] for name in of_step}
        trajectories[-1].steps.append(Step(**{name: value for name, value in given.items() if value is not None}))
    return trajectories


def _conform(table: pa.Table, path: Path, encoded: bool) -> pa.Table:
    """Give each column its type of `SCHEMA`, where nothing is lost by it; refuse nulls in required ones."""
    columns, fields = [], []
    for name in table.column_names:
        column = table[name]
        field = SCHEMA.field(name)
        kind = field.type
        if column.null_count and not field.nullable:
            raise ProgpoError(f"{path}: column {name!r} holds nulls")
        if encoded and pa.types.is_string(kind):
            kind = pa.dictionary(pa.int32(), pa.string())
            if not pa.types.is_dictionary(column.type):
                own = pa.dictionary(pa.int32(), column.type)
                column = pa.chunked_array([chunk.dictionary_encode() for chunk in column.chunks], own)
        if column.type != kind:
            try:
                column = column.cast(kind)
            except pa.ArrowException as error:
                raise ProgpoError(f"{path}: column {name!r} is {column.type}, not {field.type} ({error})") from None
        columns.append(column)
        fields.append(field.with_type(kind))
    return pa.table(columns, schema=pa.schema(fields))


def _check_metadata(paths: Sequence[Path], metadata: Sequence[Metadata | None]) -> None:
    """Refuse shards that do not belong together, a shard twice, and an incomplete set."""
    known = [(path, item) for path, item in zip(paths, metadata, strict=True) if item is not None]
    if not known:
        return
    first_path, first = known[0]
    for path, item in known[1:]:
        for name in COMMON:
            if getattr(item, name) != getattr(first, name):
                what, its, other = _difference(name, getattr(item, name), getattr(first, name))
                raise ProgpoError(
                    f"{path}: another {what} than {first_path} ({its!r}, not {other!r}); "
                    "gather shards of one iteration of one policy only"
                )
    by_shard: dict[int, Path] = {}
    for path, item in known:
        if item.shard in by_shard:
            raise ProgpoError(f"{path}: shard {item.shard} twice, it is {by_shard[item.shard]} too")
        if not 0 <= item.shard < item.shards:
            raise ProgpoError(f"{path}: shard {item.shard} of {item.shards}: no such shard")
        by_shard[item.shard] = path
    missing = sorted(set(range(first.shards)) - set(by_shard))
    unknown = len(paths) - len(known)
    if len(missing) > unknown:
        names = ", ".join(map(str, missing))
        raise ProgpoError(f"{first_path}: is one of {first.shards} shards, of which missing: {names}; name all of them")
    if unknown > len(missing):
        raise ProgpoError(f"{first_path}: is one of {first.shards} shards, but {len(paths)} files were given")


def _difference(name: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """Return where two unequal settings differ first: the dotted name, the one value, the other."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            if one.get(key) != other.get(key):
                return _difference(f"{name}.{key}", one.get(key), other.get(key))
    return name, one, other


def _check_groups(paths: Sequence[Path], tables: Sequence[pa.Table]) -> None:
    """Refuse a group that two shards hold."""
    groups = [np.unique(table["group"].to_numpy()) for table in tables]
    every = np.concatenate(groups)
    origin = np.repeat(np.arange(len(paths)), [len(item) for item in groups])
    order = np.argsort(every, kind="stable")
    every, origin = every[order], origin[order]
    cut = np.flatnonzero(every[1:] == every[:-1])
    if cut.size:
        first, second = paths[origin[cut[0]]], paths[origin[cut[0] + 1]]
        raise ProgpoError(f"{second}: group {every[cut[0]]} is cut: {first} holds rows of it too")
