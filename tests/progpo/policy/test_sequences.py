"""Sequences: what is joined with what, and how they are divided."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from progpo.errors import ProgpoError
from progpo.policy.sequences import make_sequences, micro_batches, minibatches

ROWS = [
    # group, trajectory, step, context, response, logprobs, advantage
    (0, 0, 0, [1, 2], [3, 4], [-0.1, -0.2], 1.0),
    (0, 0, 1, [5], [6], [-0.3], 2.0),
    (0, 1, 0, [1, 2], [7], [-0.4], 0.0),
    (2, 0, 0, [8, 9, 10], [11], [-0.5], -1.0),
    (2, 0, 1, [12], [13, 14], [-0.6, -0.7], 0.0),
]


def tables(rows: list[tuple], **changes: Any) -> tuple[pa.Table, pa.Table]:
    names = ("group", "trajectory", "step", "context_tokens", "response_tokens", "response_logprobs", "advantage")
    table = pa.table({name: [row[index] for row in rows] for index, name in enumerate(names)})
    for name, values in changes.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table.drop("advantage"), table.select(["group", "trajectory", "step", "advantage"])


def test_append_joins_a_trajectory_by_key_whatever_the_order() -> None:
    shards, advantages = tables(ROWS)
    shuffled = advantages.take([4, 2, 0, 3, 1])
    sequences, trajectories = make_sequences(shards.take([3, 1, 4, 0, 2]), shuffled, "append")
    assert trajectories == 3
    assert [item.owner for item in sequences] == [0, 1, 2]
    first, _, last = sequences
    assert first.tokens.tolist() == [1, 2, 3, 4, 5, 6]
    assert first.positions.tolist() == [2, 3, 5]
    assert first.logprobs.tolist() == pytest.approx([-0.1, -0.2, -0.3])
    assert first.advantages.tolist() == [1, 1, 2]
    assert last.tokens.tolist() == [8, 9, 10, 11, 12, 13, 14]
    assert last.advantages.tolist() == [-1, 0, 0]


def test_window_makes_a_sequence_of_each_step() -> None:
    sequences, trajectories = make_sequences(*tables(ROWS), "window")
    assert trajectories == 3
    assert [item.owner for item in sequences] == [0, 0, 1, 2, 2]
    assert [item.tokens.tolist() for item in sequences][:2] == [[1, 2, 3, 4], [5, 6]]
    assert sequences[4].positions.tolist() == [1, 2]


def test_only_what_leads_to_an_advantage_is_live() -> None:
    sequences, _ = make_sequences(*tables(ROWS), "append")
    first, second, last = (item.live() for item in sequences)
    assert first.tokens.tolist() == [1, 2, 3, 4, 5, 6]
    assert second is None
    assert last.tokens.tolist() == [8, 9, 10, 11]
    assert last.positions.tolist() == [3]
    assert last.logprobs.tolist() == pytest.approx([-0.5])


def test_a_constrained_policy_s_places_know_what_might_have_stood_there() -> None:
    names = [["a", "b"], ["c"], ["d"], ["e"], ["f", "g"]]
    said = {"a": (3, 4), "b": (3, 5), "c": (6,), "d": (7,), "e": (11,), "f": (13, 14), "g": (15,)}
    shards, advantages = tables(ROWS)
    columns = {"admissible": names, "observation": list("vwxyz"), "action": ["a", "c", "d", "e", "f"]}
    for name, values in columns.items():
        shards = shards.append_column(name, pa.array(values))
    asked = []

    def choices(admissible: list[str], history: list[tuple[str, str]], observation: str) -> list[tuple[int, ...]]:
        asked.append((history, observation))
        return [said[name] for name in admissible]

    sequences, _ = make_sequences(shards.take([3, 1, 4, 0, 2]), advantages, "append", choices)
    assert sequences[0].allowed.tokens.tolist() == [3, 4, 5, 6]
    assert sequences[0].allowed.counts.tolist() == [1, 2, 1]
    assert sequences[2].allowed.tokens.tolist() == [11, 13, 15, 14]
    assert sequences[2].live().allowed.tokens.tolist() == [11]
    # What was done before is told, of the same trajectory alone.
    told = [([], "v"), ([("v", "a")], "w"), ([], "x"), ([], "y"), ([("y", "e")], "z")]
    assert asked == told
    make_sequences(shards, advantages, "window", choices)
    assert asked == 2 * told
    said["c"] = (16,)
    with pytest.raises(ProgpoError, match="group 0, trajectory 0, step 1: its response is none of the actions that"):
        make_sequences(shards, advantages, "append", choices)


def test_a_missing_surplus_or_double_advantage_is_refused() -> None:
    shards, advantages = tables(ROWS)
    with pytest.raises(ProgpoError, match="group 2, trajectory 0, step 1: no advantage for it"):
        make_sequences(shards, advantages.slice(0, 4), "append")
    with pytest.raises(ProgpoError, match="group 0, trajectory 0, step 0: not in the shards"):
        make_sequences(shards.slice(1), advantages, "append")
    with pytest.raises(ProgpoError, match="group 0, trajectory 1, step 0: twice in the advantages"):
        make_sequences(shards, pa.concat_tables([advantages, advantages.slice(2, 1)]), "append")


def test_steps_without_what_an_update_needs_are_refused() -> None:
    probabilities = [None, [-0.3], [-0.4], [-0.5], [-0.6, -0.7]]
    with pytest.raises(ProgpoError, match="without log-probabilities"):
        make_sequences(*tables(ROWS, response_logprobs=probabilities), "append")
    with pytest.raises(ProgpoError, match="group 0, trajectory 1, step 0: an action without a context"):
        make_sequences(*tables(ROWS, context_tokens=[[1, 2], [5], [], [8, 9, 10], [12]]), "append")
    nothing = pa.array([None] * 5, pa.list_(pa.int32()))
    with pytest.raises(ProgpoError, match="no sampled token"):
        make_sequences(*tables(ROWS, response_tokens=nothing, response_logprobs=nothing), "append")


def test_minibatches_divide_the_trajectories_by_a_stream_of_their_own() -> None:
    parts = minibatches(10, 3, seed=1, iteration=2, epoch=0)
    assert sorted(len(part) for part in parts) == [3, 3, 4]
    assert sorted(np.concatenate(parts).tolist()) == list(range(10))
    again = minibatches(10, 3, seed=1, iteration=2, epoch=0)
    assert [part.tolist() for part in parts] == [part.tolist() for part in again]
    other = minibatches(10, 3, seed=1, iteration=2, epoch=1)
    assert [part.tolist() for part in parts] != [part.tolist() for part in other]
    assert len(minibatches(2, 3, seed=1, iteration=2, epoch=0)) == 2


def test_micro_batches_keep_to_their_budget() -> None:
    lengths = [3, 50, 7, 20, 20, 1]
    passes = micro_batches(lengths, 40)
    assert passes == [[1], [3, 4], [2, 0, 5]]
