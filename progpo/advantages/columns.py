"""From Arrow columns to arrays: rows in time order, trajectories and groups as segments, text as codes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from progpo.advantages.partition import Partition
from progpo.errors import ProgpoError
from progpo.settings.advantages import AdvantageSettings
from progpo.trajectories.order import check_rows, time_order
from progpo.trajectories.schema import KEYS

#: Columns that the metrics report on, where the shards have them.
REPORTED = ("task_type", "observation", "next_observation", "valid", "score", "history_cut")


def needed_columns(settings: AdvantageSettings) -> tuple[str, ...]:
    """Return the columns that an arm cannot do without."""
    columns = [*KEYS, "outcome"]
    progress = settings.progress
    step_progress = progress is not None and progress.level != "trajectory"
    if settings.base in ("gigpo", "hgpo"):
        columns.append("reward")
    if settings.base in ("gigpo", "hgpo") or step_progress:
        columns.append("observation")
    if progress is not None:
        columns += ["state_key", "next_state_key"] if progress.key == "state" else ["observation", "next_observation"]
        columns += ["score"] if progress.gate == "success" else []
    if settings.invalid_penalty:
        columns.append("valid")
    return tuple(dict.fromkeys(columns))


@dataclass(frozen=True)
class Batch:
    """The steps of an iteration, sorted by (group, trajectory, step).

    S steps of N trajectories of G groups; what the table lacks is None.

    Attributes:
        group, trajectory, step: (S,) int32, the keys.
        of_trajectory: trajectories: the partition of the S steps.
        of_group: groups: the partition of the N trajectories.
        outcome: (N,) float64.
        score: (N,) float64.
        task_type: (N,) codes into `task_types`.
        task_types: the names.
        reward: (S,) float64.
        valid: (S,) bool.
        cut: (S,) bool, prompts that left out steps for want of room; None too where prompts are no windows.
        observation: (S,) codes: equal codes, equal text.
        here, there: (S,) codes of what was visited before and after the action, of one numbering.
    """

    group: np.ndarray
    trajectory: np.ndarray
    step: np.ndarray
    of_trajectory: Partition
    of_group: Partition
    outcome: np.ndarray
    score: np.ndarray | None
    task_type: np.ndarray
    task_types: tuple[str, ...]
    reward: np.ndarray | None
    valid: np.ndarray | None
    cut: np.ndarray | None
    observation: np.ndarray | None
    here: np.ndarray | None
    there: np.ndarray | None

    @cached_property
    def group_of_step(self) -> np.ndarray:
        """(S,) index of the step's group."""
        return self.of_group.ids[self.of_trajectory.ids]

    @cached_property
    def remaining(self) -> np.ndarray:
        """(S,) steps from this one to the trajectory's last, both included."""
        return self.of_trajectory.sizes[self.of_trajectory.ids] - self.step

    @cached_property
    def anchors(self) -> Partition | None:
        """Anchor groups: the partition of the S steps by (group, observation)."""
        if self.observation is None:
            return None
        return Partition.of(pair(self.group_of_step, self.observation))


def pair(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return one int64 for each pair of non-negative numbers below 2^31: equal pairs, equal numbers."""
    return (first.astype(np.int64) << 31) | second


def make_batch(table: pa.Table, settings: AdvantageSettings) -> Batch:
    """Take an arm's columns out of a table.

    Args:
        table: rows in any order; text plain or dictionary-encoded.
        settings: of the arm.

    Raises:
        ProgpoError: a missing column, no rows, duplicate rows, a cut trajectory, nulls, numbers that are not finite,
            an outcome that is not the same on all rows of its trajectory.
    """
    needed = needed_columns(settings)
    for name in needed:
        if name not in table.column_names:
            raise ProgpoError(f"no column {name!r}, which this arm ({settings.base}) reads")
    if not table.num_rows:
        raise ProgpoError("no trajectories: the shards hold no rows")
    keys = [_numbers(table, name) for name in KEYS]
    order = time_order(*keys)
    if order is not None:
        keys = [key[order] for key in keys]
    group, trajectory, step = keys
    check_rows(group, trajectory, step, "trajectories")

    def sorted_numbers(name: str) -> np.ndarray | None:
        if name not in needed and (name not in REPORTED or name not in table.column_names):
            return None
        numbers = _numbers(table, name)
        return numbers if order is None else numbers[order]

    def sorted_codes(*names: str) -> tuple[list[np.ndarray | None], pa.Array]:
        found = {name: table[name] for name in names if name in table.column_names}
        codes, texts = encode(found)
        if order is not None:
            codes = {name: code[order] for name, code in codes.items()}
        return [codes.get(name) for name in names], texts

    starts = np.flatnonzero(step == 0)
    of_trajectory = Partition(np.cumsum(step == 0) - 1, len(starts))
    first_group = group[starts]
    changes = np.concatenate(([True], first_group[1:] != first_group[:-1]))
    of_group = Partition(np.cumsum(changes) - 1, int(changes.sum()))

    def constant(name: str) -> np.ndarray | None:
        values = sorted_numbers(name)
        if values is None:
            return None
        firsts = values[starts]
        wrong = np.flatnonzero(values != firsts[of_trajectory.ids])
        if wrong.size:
            where = f"group {group[wrong[0]]}, trajectory {trajectory[wrong[0]]}"
            raise ProgpoError(f"{where}: {name!r} is not the same on all its rows")
        return firsts

    cut = None
    if "history_cut" in table.column_names and not table["history_cut"].null_count:
        cut = sorted_numbers("history_cut") > 0
    state = settings.progress is not None and settings.progress.key == "state"
    (observation, next_observation), _ = sorted_codes("observation", "next_observation")
    if state:
        (here, there), _ = sorted_codes("state_key", "next_state_key")
    else:
        here, there = (observation, next_observation) if next_observation is not None else (None, None)
    (task_type,), task_types = sorted_codes("task_type")
    return Batch(
        group=group,
        trajectory=trajectory,
        step=step,
        of_trajectory=of_trajectory,
        of_group=of_group,
        outcome=constant("outcome"),
        score=constant("score"),
        task_type=np.zeros(len(starts), np.int64) if task_type is None else task_type[starts],
        task_types=tuple(task_types.to_pylist()),
        reward=sorted_numbers("reward"),
        valid=sorted_numbers("valid"),
        cut=cut,
        observation=observation,
        here=here,
        there=there if here is not None else None,
    )


def encode(columns: Mapping[str, pa.ChunkedArray]) -> tuple[dict[str, np.ndarray], pa.Array]:
    """Give every distinct text of some columns one number.

    Dictionaries are unified by their values: two chunks, or two shards, may number one text differently, and a
    dictionary may hold it twice.

    Returns:
        codes: by column, (rows,) int64.
        texts: by code.

    Raises:
        ProgpoError: a null, naming the column.
    """
    chunks: list[tuple[str, pa.DictionaryArray]] = []
    for name, column in columns.items():
        # Chunk by chunk: encoded as a whole, each chunk would carry the whole column's dictionary.
        plain = not pa.types.is_dictionary(column.type)
        encoded = [chunk.dictionary_encode() if plain else chunk for chunk in column.chunks]
        if column.null_count or any(chunk.dictionary.null_count for chunk in encoded):
            raise ProgpoError(f"column {name!r} holds nulls; this arm needs a value on every row")
        chunks += ((name, chunk) for chunk in encoded)
    if not chunks:
        return {}, pa.array([], pa.string())
    # One array, so that each text is hashed once; large, so that its offsets cannot overflow.
    texts = pa.concat_arrays([chunk.dictionary.cast(pa.large_string()) for _, chunk in chunks]).dictionary_encode()
    numbers = texts.indices.to_numpy().astype(np.int64)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in columns}
    start = 0
    for name, chunk in chunks:
        end = start + len(chunk.dictionary)
        parts[name].append(numbers[start:end][chunk.indices.to_numpy()])
        start = end
    return {name: np.concatenate(part) for name, part in parts.items()}, texts.dictionary


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    """Return a column as numbers: bool, int32 (keys), else float64.

    Raises:
        ProgpoError: nulls, or a number that is not finite.
    """
    column = table[name]
    if column.null_count:
        raise ProgpoError(f"column {name!r} holds nulls")
    values = column.to_numpy()
    if name in KEYS or values.dtype == bool:
        return values
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise ProgpoError(f"column {name!r} holds a number that is not finite")
    return values
