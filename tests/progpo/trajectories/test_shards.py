"""Shards: what is written is read, by us and by others; what does not belong together is refused."""

import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from progpo.artifacts import write_manifest
from progpo.errors import ProgpoError
from progpo.trajectories.read import read_shard, read_shards, to_trajectories
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import METADATA_KEY, SCHEMA, Metadata
from progpo.trajectories.write import write_shard

META = Metadata("rollout", policy="aaaa", tokenizer="bbbb", settings={"rollout": {"group": 2}}, seed=3, shards=2)


def make_trajectory(group: int, trajectory: int, length: int = 3) -> Trajectory:
    steps = [
        Step(
            observation=f"place {step}",
            next_observation=f"place {step + 1}",
            action="go on",
            valid=step != 1,
            reward=0.5,
            terminated=step == length - 1,
            truncated=False,
            context_tokens=[group, step, 7],
            response_tokens=[1, 2],
            response_logprobs=[-0.5, -0.25],
            admissible=["go on", "wait"],
            imitate=step != 1,
        )
        for step in range(length)
    ]
    return Trajectory(group, trajectory, f"game-{group}", "walk", outcome=0.5, score=0.25, steps=steps)


@pytest.fixture
def pair(tmp_path: Path) -> list[Path]:
    """Two good shards, of the groups 0, 2 and 1, 3."""
    paths = [tmp_path / f"shard-{shard}.parquet" for shard in range(2)]
    for shard, path in enumerate(paths):
        groups = [make_trajectory(group, item) for group in (shard, shard + 2) for item in range(2)]
        write_shard(path, groups, replace(META, shard=shard))
    return paths


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change a shard's table and leave its metadata."""
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def restate(path: Path, **changes: object) -> None:
    """Change a shard's metadata and leave its table."""
    table = pq.read_table(path)
    data = json.loads(table.schema.metadata[METADATA_KEY]) | changes
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(data)}), path)


def bare(path: Path) -> None:
    """Take a shard's metadata away."""
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)


def test_what_is_written_is_read(pair: list[Path]) -> None:
    table, metadata = read_shards(pair[::-1])
    assert table.schema.remove_metadata() == SCHEMA
    assert metadata == [replace(META, shard=1), META]
    assert to_trajectories(table) == [make_trajectory(group, item) for group in range(4) for item in range(2)]


def test_rows_are_put_in_time_order_whatever_order_they_stand_in(pair: list[Path]) -> None:
    rewrite(pair[0], lambda table: table.take(list(range(table.num_rows))[::-1]))
    assert to_trajectories(read_shards(pair)[0])[0] == make_trajectory(0, 0)


def test_what_was_not_recorded_is_null(tmp_path: Path) -> None:
    trajectory = Trajectory(0, 0, "game", "walk", steps=[Step("a", "b", "go", True, 0.0, False, True)])
    write_shard(tmp_path / "shard.parquet", [trajectory], Metadata("demonstration"))
    table, _ = read_shard(tmp_path / "shard.parquet")
    for name in ("state_key", "context_tokens", "response_logprobs", "admissible"):
        assert table[name].null_count == 1
    assert to_trajectories(table) == [trajectory]


def test_a_shard_may_be_empty(tmp_path: Path) -> None:
    write_shard(tmp_path / "shard.parquet", [], Metadata("rollout"))
    table, _ = read_shards([tmp_path / "shard.parquet"])
    assert table.num_rows == 0
    assert to_trajectories(table) == []


def test_writing_the_same_twice_makes_the_same_bytes(pair: list[Path]) -> None:
    before = pair[0].read_bytes()
    groups = [make_trajectory(group, item) for group in (2, 0) for item in (1, 0)]
    write_shard(pair[0], groups, META)
    assert pair[0].read_bytes() == before
    assert sorted(path.name for path in pair[0].parent.iterdir()) == ["shard-0.parquet", "shard-1.parquet"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda item: item.steps.clear(), "group 0, trajectory 1: no steps"),
        (lambda item: setattr(item, "trajectory", 0), "group 0, trajectory 0: there twice"),
        (lambda item: setattr(item.steps[2], "response_logprobs", [0.0]), "step 2: 1 log-probabilities of 2 tokens"),
    ],
)
def test_records_that_cannot_be_rows_are_refused(tmp_path: Path, change: Callable, reason: str) -> None:
    items = [make_trajectory(0, 0), make_trajectory(0, 1)]
    change(items[1])
    with pytest.raises(ValueError, match=reason):
        write_shard(tmp_path / "shard.parquet", items, META)
    assert not list(tmp_path.iterdir())


def test_columns_are_projected_and_others_may_be_absent(pair: list[Path]) -> None:
    for path in pair:
        rewrite(path, lambda table: table.drop_columns(["response_tokens", "score"]))
    table, _ = read_shards(pair, ["reward"])
    assert table.column_names == ["group", "trajectory", "step", "reward"]
    with pytest.raises(ProgpoError, match=rf"{pair[0]}: no column 'score'"):
        read_shards(pair, ["reward", "score"])


def test_an_optional_column_is_read_where_all_shards_have_it(pair: list[Path]) -> None:
    rewrite(pair[1], lambda table: table.drop_columns(["score"]))
    table, _ = read_shards(pair, ["reward"], optional=["score", "valid"])
    assert table.column_names == ["group", "trajectory", "step", "reward", "valid"]


def test_text_comes_encoded_where_asked_for(pair: list[Path]) -> None:
    plain, _ = read_shards(pair, ["observation", "reward"])
    encoded, _ = read_shards(pair, ["observation", "reward"], encoded=True)
    assert pa.types.is_dictionary(encoded["observation"].type)
    assert encoded["observation"].to_pylist() == plain["observation"].to_pylist()


def test_other_writers_types_are_taken_where_nothing_is_lost(pair: list[Path]) -> None:
    expected, _ = read_shards(pair)

    def widen(table: pa.Table) -> pa.Table:
        kinds = {
            pa.int32(): pa.int64(),
            pa.string(): pa.large_string(),
            pa.list_(pa.int32()): pa.large_list(pa.int64()),
        }
        fields = [pa.field(field.name, kinds.get(field.type, field.type)) for field in table.schema]
        table = table.cast(pa.schema(fields))
        return table.set_column(3, "task", table["task"].cast(pa.string()).dictionary_encode())

    for path in pair:
        rewrite(path, widen)
    assert read_shards(pair)[0].equals(expected)
    text = ["task", "task_type", "observation"]
    encoded, _ = read_shards(pair, text, encoded=True)
    for name in text:
        assert encoded[name].type == pa.dictionary(pa.int32(), pa.string())
        assert encoded[name].to_pylist() == expected[name].to_pylist()


def _truncate(paths: list[Path]) -> list[Path]:
    paths[1].write_bytes(paths[1].read_bytes()[:-200])
    return paths


def _flip_a_bit(paths: list[Path]) -> list[Path]:
    data = bytearray(paths[1].read_bytes())
    data[len(data) // 8] ^= 4
    paths[1].write_bytes(data)
    return paths


def _repeat_a_row(paths: list[Path]) -> list[Path]:
    rewrite(paths[1], lambda table: pa.concat_tables([table, table.slice(4, 1)]))
    return paths


def _drop_a_step(paths: list[Path]) -> list[Path]:
    rewrite(paths[1], lambda table: pa.concat_tables([table.slice(0, 4), table.slice(5)]))
    return paths


def _cut_a_group(paths: list[Path]) -> list[Path]:
    table = pq.read_table(paths[0])
    rewrite(paths[1], lambda other: pa.concat_tables([other, table.slice(6)]))
    rewrite(paths[0], lambda own: own.slice(0, 9))
    return paths


def _null(paths: list[Path]) -> list[Path]:
    rewrite(
        paths[1],
        lambda table: table.set_column(
            table.column_names.index("reward"), "reward", pa.nulls(table.num_rows, pa.float32())
        ),
    )
    return paths


def _text_for_numbers(paths: list[Path]) -> list[Path]:
    rewrite(
        paths[1],
        lambda table: table.set_column(
            table.column_names.index("reward"), "reward", pa.array(["much"] * table.num_rows)
        ),
    )
    return paths


def _restate(**changes: object) -> Callable[[list[Path]], list[Path]]:
    def change(paths: list[Path]) -> list[Path]:
        restate(paths[1], **changes)
        return paths

    return change


def _garble(paths: list[Path]) -> list[Path]:
    rewrite(paths[1], lambda table: table)
    table = pq.read_table(paths[1])
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: "{"}), paths[1])
    return paths


def _twin(paths: list[Path]) -> list[Path]:
    twin = paths[1].with_name("twin.parquet")
    write_shard(twin, [make_trajectory(9, 0)], replace(META, shard=1))
    return [*paths, twin]


def _surplus(paths: list[Path]) -> list[Path]:
    extra = paths[1].with_name("extra.parquet")
    write_shard(extra, [make_trajectory(9, 0)], META)
    bare(extra)
    return [*paths, extra]


#: What is done to two good shards; what the message must say, of which file.
REFUSALS: dict[str, tuple[Callable[[list[Path]], list[Path]], str, str]] = {
    "truncated": (_truncate, "shard-1", "truncated, damaged or not Parquet"),
    "a flipped bit": (_flip_a_bit, "shard-1", "truncated, damaged or not Parquet"),
    "not there": (lambda paths: [paths[0], paths[1].with_name("shard-9.parquet")], "shard-9", "no such file"),
    "another format": (_restate(format=2), "shard-1", "shard format 2, this version of progpo .* reads 1"),
    "unknown metadata": (_restate(mood="fair"), "shard-1", "metadata is not as format 1 has it"),
    "garbled metadata": (_garble, "shard-1", "its metadata cannot be read"),
    "another policy": (_restate(policy="cccc"), "shard-1", r"another policy than .*shard-0.* \('cccc', not 'aaaa'\)"),
    "another tokenizer": (_restate(tokenizer="c"), "shard-1", "another tokenizer"),
    "other settings": (
        _restate(settings={"rollout": {"group": 4}}),
        "shard-1",
        r"another settings\.rollout\.group than .* \(4, not 2\)",
    ),
    "another seed": (_restate(seed=4), "shard-1", "another seed"),
    "another iteration": (_restate(iteration=1), "shard-1", "another iteration"),
    "another layout": (_restate(layout="window"), "shard-1", "another layout"),
    "another temperature": (_restate(temperature=0.4), "shard-1", "another temperature"),
    "another kind": (_restate(kind="evaluation"), "shard-1", "another kind"),
    "another shard count": (_restate(shards=3), "shard-1", "another shards"),
    "no such shard": (_restate(shard=2), "shard-1", "shard 2 of 2: no such shard"),
    "a missing shard": (lambda paths: paths[:1], "shard-0", "one of 2 shards, of which missing: 1"),
    "a shard twice": (_twin, "twin", "shard 1 twice, it is .*shard-1"),
    "a file twice": (lambda paths: [*paths, paths[1]], "shard-1", "given twice"),
    "a file too many": (_surplus, "shard-0", "one of 2 shards, but 3 files were given"),
    "a cut group": (_cut_a_group, "shard-1", "group 2 is cut: .*shard-0.* holds rows of it too"),
    "a missing step": (_drop_a_step, "shard-1", "group 1, trajectory 1 is cut: its steps are not 0, 1, 2"),
    "duplicate rows": (_repeat_a_row, "shard-1", r"duplicate rows \(1\).*group 1, trajectory 1, step 1"),
    "nulls": (_null, "shard-1", "column 'reward' holds nulls"),
    "another type": (_text_for_numbers, "shard-1", "column 'reward' is string, not float"),
}


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.filterwarnings("ignore:no metadata")
def test_refusals_name_file_and_reason(pair: list[Path], name: str) -> None:
    damage, file, reason = REFUSALS[name]
    with pytest.raises(ProgpoError, match=rf"^\S*/{file}\.parquet: .*{reason}"):
        read_shards(damage(pair))


def test_no_shard_at_all_is_refused() -> None:
    with pytest.raises(ProgpoError, match="no shard given"):
        read_shards([])


def test_the_format_is_checked_before_the_columns(pair: list[Path]) -> None:
    rewrite(pair[0], lambda table: table.drop_columns(["reward"]))
    restate(pair[0], format=2)
    with pytest.raises(ProgpoError, match="shard format 2"):
        read_shards(pair, ["reward"])


def test_files_without_metadata_get_one_warning(pair: list[Path]) -> None:
    for path in pair:
        bare(path)
    with pytest.warns(UserWarning, match="no metadata") as caught:
        _, metadata = read_shards(pair)
    assert len(caught) == 1
    assert all(str(path) in str(caught[0].message) for path in pair)
    assert metadata == [None, None]


def test_metadata_that_is_there_must_agree_even_where_some_is_not(pair: list[Path]) -> None:
    bare(pair[1])
    with pytest.warns(UserWarning, match="no metadata"):
        read_shards(pair)
    with pytest.raises(ProgpoError, match="missing: 1"):
        read_shards(pair[:1])


def test_strict_wants_manifests_and_metadata(pair: list[Path]) -> None:
    with pytest.raises(ProgpoError, match=r"manifest\.json: missing"):
        read_shards(pair, strict=True)
    for path in pair:
        write_manifest(path, "rollout", {}, [path])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_shards(pair, strict=True)[0].num_rows == 24
    bare(pair[1])
    write_manifest(pair[1], "rollout", {}, [pair[1]])
    with pytest.raises(ProgpoError, match=r"shard-1\.parquet: no progpo metadata"):
        read_shards(pair, strict=True)


@pytest.mark.parametrize("strict", [False, True])
def test_a_manifest_that_is_there_is_checked(pair: list[Path], strict: bool) -> None:
    for path in pair:
        write_manifest(path, "rollout", {}, [path])
    restate(pair[1], temperature=None)
    with pytest.raises(ProgpoError, match=r"shard-1\.parquet: changed since `progpo rollout` wrote it"):
        read_shards(pair, strict=strict)


def test_records_name_the_column_that_they_lack(pair: list[Path]) -> None:
    table, _ = read_shards(pair)
    with pytest.raises(ProgpoError, match="no column 'action'"):
        to_trajectories(table.drop_columns(["action"]))
    least = to_trajectories(table.drop_columns(["context_tokens", "admissible", "score"]))
    assert least[0].steps[0].context_tokens == ()


def test_metadata_is_one_readable_json_object(pair: list[Path]) -> None:
    assert json.loads(pq.read_schema(pair[0]).metadata[METADATA_KEY]) == asdict(META)


def test_opens_in_duckdb(pair: list[Path]) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = f"select task_type, count(*), sum(reward), sum(len(context_tokens)) from '{pair[0]}' group by task_type"
    assert duckdb.sql(query).fetchall() == [("walk", 12, 6.0, 36)]


def test_opens_in_polars(pair: list[Path]) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(pair[0])
    assert frame["observation"].to_list() == [f"place {step}" for _ in range(4) for step in range(3)]
    assert frame["response_logprobs"].to_list()[0] == [-0.5, -0.25]


def test_opens_in_pandas(pair: list[Path]) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(pair[0])
    assert frame.groupby("group")["reward"].sum().to_dict() == {0: 3.0, 2: 3.0}


def test_opens_in_datasets(pair: list[Path], tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    read = datasets.Dataset.from_parquet([str(path) for path in pair], cache_dir=str(tmp_path / "cache"))
    assert read.num_rows == 24
    assert read[0]["response_tokens"] == [1, 2]
