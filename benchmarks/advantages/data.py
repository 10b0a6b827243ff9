"""Made-up rollouts of any size, with text like ALFWorld's: some of it everywhere, most of it of one game only."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from progpo.trajectories.schema import SCHEMA, Metadata
from progpo.trajectories.write import write_table

GROUP = 8
STEPS = 50
#: Distinct observations of one game, beside those that all games share.
OWN = 90
EVERYWHERE = 30
SHARED_SHARE = 0.25
TYPES = ("pick", "examine", "clean", "heat", "cool", "pick_two")
TOKENS = ("context_tokens", "response_tokens", "response_logprobs", "admissible")


def make_shards(folder: Path, rows: int, shards: int, seed: int = 0) -> list[Path]:
    """Write shards of `rows` steps in all: groups of 8 trajectories of 50 steps, no token columns.

    A third of the groups is all-failed; in the others half of the trajectories succeed.
    """
    rng = np.random.default_rng(seed)
    groups = rows // (GROUP * STEPS)
    paths = []
    for shard, members in enumerate(np.array_split(np.arange(groups), shards)):
        path = folder / f"shard-{shard:02}.parquet"
        metadata = Metadata("rollout", policy="0" * 16, shard=shard, shards=shards)
        write_table(path, _table(members.astype(np.int32), rng).replace_schema_metadata(metadata.encode()))
        paths.append(path)
    return paths


def _table(groups: np.ndarray, rng: np.random.Generator) -> pa.Table:
    per_group = GROUP * STEPS
    rows = len(groups) * per_group
    index = np.repeat(np.arange(len(groups)), per_group)
    step = np.tile(np.arange(STEPS, dtype=np.int32), len(groups) * GROUP)
    own = EVERYWHERE + index * OWN + rng.integers(OWN, size=rows)
    seen = np.where(rng.random(rows) < SHARED_SHARE, rng.integers(EVERYWHERE, size=rows), own)
    seen[step == 0] = EVERYWHERE + index[step == 0] * OWN
    after = np.roll(seen, -1)
    last = step == STEPS - 1
    after[last] = own[last]
    texts = pa.array(
        [*(_text(-1, place) for place in range(EVERYWHERE)), *(_text(g, p) for g in groups for p in range(OWN))]
    )
    success = (rng.random(len(groups) * GROUP) < 0.5) & np.repeat(rng.random(len(groups)) > 1 / 3, GROUP)
    outcome = np.repeat(success, STEPS).astype(np.float32)
    columns = {
        "group": groups[index],
        "trajectory": np.tile(np.repeat(np.arange(GROUP, dtype=np.int32), STEPS), len(groups)),
        "step": step,
        "task": pa.array([f"game-{group}" for group in groups]).take(pa.array(index)),
        "task_type": pa.array(TYPES).take(pa.array(groups[index] % len(TYPES))),
        "observation": texts.take(pa.array(seen)),
        "next_observation": texts.take(pa.array(after)),
        "state_key": pa.nulls(rows, pa.string()),
        "next_state_key": pa.nulls(rows, pa.string()),
        "action": pa.array([f"go to shelf {number}" for number in range(40)]).take(
            pa.array(rng.integers(40, size=rows))
        ),
        "valid": rng.random(rows) < 0.9,
        "reward": np.where(last, outcome, np.float32(0)),
        "outcome": outcome,
        "score": outcome,
        "terminated": last & (outcome > 0),
        "truncated": last & (outcome == 0),
        "imitate": np.ones(rows, bool),
        "history_cut": pa.nulls(rows, pa.int32()),
    }
    names = [name for name in SCHEMA.names if name not in TOKENS]
    return pa.table([columns[name] for name in names], schema=pa.schema([SCHEMA.field(name) for name in names]))


def _text(group: int, place: int) -> str:
    """About 90 letters that only this place of this game shows (group -1: of all games)."""
    things = f"a mug {group}, a plate {place}, a soapbar {group + place}"
    return f"You arrive at cabinet {place}. On the cabinet {place}, you see {things}."
