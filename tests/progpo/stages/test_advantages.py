"""The advantages stage: files in, files out."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from plain_advantages import Rows, as_table, make_rows

from progpo.advantages import SCHEMA, estimate, read_advantages
from progpo.artifacts import manifest_path, read_manifest, verify, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.settings.advantages import AdvantageSettings
from progpo.stages.advantages import run
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_table

META = Metadata("rollout", policy="aaaa", seed=3, iteration=2, shards=2)
PROGPO = AdvantageSettings(base="gigpo", progress={})


@pytest.fixture
def rows() -> Rows:
    return make_rows(8, groups=6)


@pytest.fixture
def shards(tmp_path: Path, rows: Rows) -> list[Path]:
    """Two shards with manifests, and with just the columns that the estimators read."""
    groups = sorted({row["group"] for row in rows})
    paths = []
    for shard in range(2):
        path = tmp_path / "rollouts" / f"shard-{shard}.parquet"
        table = as_table([row for row in rows if row["group"] in groups[shard::2]])
        metadata = replace(META, shard=shard)
        write_table(path, table.replace_schema_metadata(metadata.encode()))
        write_manifest(path, "rollout", {}, [path])
        paths.append(path)
    return paths


@pytest.fixture
def outputs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "arm" / "advantages.parquet", tmp_path / "arm" / "metrics.json"


def test_gathers_all_shards(rows: Rows, shards: list[Path], outputs: tuple[Path, Path]) -> None:
    run(PROGPO, shards, *outputs, strict=True)
    expected = estimate(as_table(rows), PROGPO, seed=3, iteration=2)
    table, facts = read_advantages(outputs[0], strict=True)
    assert table.replace_schema_metadata(None).equals(expected.table)
    assert table.schema.remove_metadata() == SCHEMA
    written = json.loads(outputs[1].read_text())
    assert written.items() >= json.loads(json.dumps(expected.metrics)).items()
    assert (written["seed"], written["iteration"], written["drawn_groups"], written["dropped_groups"]) == (3, 2, 6, 0)
    assert written["drawn_success_rate"] == written["success_rate"]
    assert facts["settings"] == PROGPO.model_dump(mode="json")
    assert (facts["seed"], facts["iteration"], facts["policy"]) == (3, 2, "aaaa")


def test_dropped_groups_count_where_success_is_counted(
    rows: Rows, shards: list[Path], outputs: tuple[Path, Path]
) -> None:
    by_trajectory = {(row["group"], row["trajectory"]): row for row in rows}
    for row in by_trajectory.values():
        row.setdefault("task", "here")
    for number, (shard, dropped) in enumerate(
        zip(shards, [[("gone", "pick", 4, 4), ("here", "pick", 4, 0)], []], strict=True)
    ):
        table = pq.read_table(shard)
        for name, value in (("task", "here"), ("task_type", "pick")):
            if name in table.column_names:
                table = table.drop_columns(name)
            table = table.append_column(name, [[value] * table.num_rows])
        write_table(shard, table.replace_schema_metadata(replace(META, shard=number, dropped=dropped).encode()))
        write_manifest(shard, "rollout", {}, [shard])
    run(PROGPO, shards, *outputs, strict=True)
    found = json.loads(outputs[1].read_text())
    kept, won = len(by_trajectory), round(found["success_rate"] * len(by_trajectory))
    assert found["tasks_by_id"] == {
        "here": {"task_type": "pick", "episodes": kept + 4, "successes": won},
        "gone": {"task_type": "pick", "episodes": 4, "successes": 4},
    }
    assert (found["drawn_groups"], found["dropped_groups"], found["dropped_solved"]) == (8, 2, 1)
    assert found["drawn_success_rate"] == pytest.approx((won + 4) / (kept + 8))


def test_alarms_compare_with_the_first_iteration(
    shards: list[Path], outputs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    first = tmp_path / "first" / "advantages.json"
    write_json(first, {"valid_action_rate": 2.0, "no_signal_fraction": 0.0})
    write_manifest(first.with_name("advantages.parquet"), "advantages", {}, [first])
    run(PROGPO, shards, *outputs, strict=True, first=first)
    assert [alarm["alarm"] for alarm in json.loads(outputs[1].read_text())["alarms"]] == ["valid_actions"]
    assert capsys.readouterr().err.count("advantages: ALARM: valid actions fell from 200.0% to") == 1
    run(PROGPO, shards, *outputs, strict=True)
    assert json.loads(outputs[1].read_text())["alarms"] == []
    first.write_text("{}")
    with pytest.raises(ProgpoError, match=r"first/advantages\.json: changed"):
        run(PROGPO, shards, *outputs, strict=True, first=first)


def test_the_manifest_lists_outputs_and_inputs(shards: list[Path], outputs: tuple[Path, Path], tmp_path: Path) -> None:
    run(PROGPO, shards, *outputs)
    manifest = read_manifest(outputs[0])
    assert sorted(manifest.files) == ["advantages.parquet", "metrics.json"]
    assert sorted(manifest.inputs) == [f"../rollouts/shard-{shard}.parquet.manifest.json" for shard in range(2)]
    assert verify(tmp_path) == ([], [])
    outputs[1].write_text("{}")
    with pytest.raises(ProgpoError, match=r"metrics\.json: changed"):
        read_advantages(outputs[0], strict=True)


def test_the_order_of_shards_leaves_no_trace(shards: list[Path], outputs: tuple[Path, Path]) -> None:
    files = [*outputs, manifest_path(outputs[0])]
    run(PROGPO, shards, *outputs)
    before = [file.read_bytes() for file in files]
    run(PROGPO, shards[::-1], *outputs)
    assert [file.read_bytes() for file in files] == before
    assert sorted(outputs[0].parent.iterdir()) == sorted(files)


def test_the_shards_seed_and_iteration_shuffle(shards: list[Path], rows: Rows, outputs: tuple[Path, Path]) -> None:
    arm = AdvantageSettings(base="grpo", progress={"shuffle": True, "always_on": True})
    run(arm, shards, *outputs)
    found = pq.read_table(outputs[0])["advantage"]
    assert found.equals(estimate(as_table(rows), arm, seed=3, iteration=2).table["advantage"])
    assert not found.equals(estimate(as_table(rows), arm, seed=4, iteration=2).table["advantage"])


def test_columns_that_the_arm_does_not_read_may_be_absent(shards: list[Path], outputs: tuple[Path, Path]) -> None:
    for path in shards:
        table = pq.read_table(path, columns=["group", "trajectory", "step", "outcome", "reward"])
        write_table(path, table.replace_schema_metadata(None))
        manifest_path(path).unlink()
    with pytest.warns(UserWarning, match="no metadata"):
        run(AdvantageSettings(base="grpo"), shards, *outputs)
    assert json.loads(outputs[1].read_text())["first_visit_rate"] is None
    with pytest.raises(ProgpoError, match=rf"{shards[0]}: no column 'observation'"):
        run(AdvantageSettings(base="gigpo"), shards, *outputs)


@pytest.mark.parametrize("damage", ["truncated", "missing", "another policy", "edited"])
def test_a_refusal_leaves_earlier_artifacts_untouched(
    shards: list[Path], outputs: tuple[Path, Path], damage: str
) -> None:
    run(PROGPO, shards, *outputs, strict=True)
    before = {path: path.read_bytes() for path in outputs[0].parent.iterdir()}
    given = shards
    if damage == "truncated":
        shards[0].write_bytes(shards[0].read_bytes()[:100])
        manifest_path(shards[0]).unlink()
    elif damage == "missing":
        given = shards[1:]
    else:
        policy = "bbbb" if damage == "another policy" else "aaaa"
        table = pq.read_table(shards[0]).replace_schema_metadata(replace(META, policy=policy).encode())
        pq.write_table(table, shards[0])
        if damage == "another policy":
            write_manifest(shards[0], "rollout", {}, [shards[0]])
    reason = {"truncated": "truncated", "missing": "missing: 0", "edited": "changed since"}.get(damage, damage)
    with pytest.raises(ProgpoError, match=reason):
        run(AdvantageSettings(base="grpo"), given, *outputs, strict=damage != "truncated")
    assert {path: path.read_bytes() for path in outputs[0].parent.iterdir()} == before


def test_strict_wants_manifests(shards: list[Path], outputs: tuple[Path, Path]) -> None:
    manifest_path(shards[1]).unlink()
    with pytest.raises(ProgpoError, match=r"shard-1\.parquet\.manifest\.json: missing"):
        run(PROGPO, shards, *outputs, strict=True)
    assert not outputs[0].exists()


@pytest.mark.parametrize("kind", ["evaluation", "demonstration"])
def test_other_trajectories_than_rollouts_are_refused(
    shards: list[Path], outputs: tuple[Path, Path], kind: str
) -> None:
    for shard, path in enumerate(shards):
        metadata = replace(META, kind=kind, shard=shard)
        write_table(path, pq.read_table(path).replace_schema_metadata(metadata.encode()))
        write_manifest(path, kind, {}, [path])
    with pytest.raises(ProgpoError, match=rf"shard-0\.parquet: holds {kind}s, not rollouts"):
        run(PROGPO, shards, *outputs)
    assert not outputs[0].exists()


@pytest.mark.parametrize("reader", ["duckdb", "polars", "pandas"])
def test_the_table_opens_elsewhere(shards: list[Path], outputs: tuple[Path, Path], reader: str) -> None:
    module = pytest.importorskip(reader)
    run(PROGPO, shards, *outputs)
    expected = pq.read_table(outputs[0])["advantage"].to_pylist()
    if reader == "duckdb":
        query = f"select advantage from '{outputs[0]}' order by \"group\", trajectory, step"
        assert [value for (value,) in module.sql(query).fetchall()] == expected
    else:
        assert list(module.read_parquet(outputs[0])["advantage"]) == expected


def test_an_unreadable_table_is_refused(shards: list[Path], outputs: tuple[Path, Path]) -> None:
    run(PROGPO, shards, *outputs)
    manifest_path(outputs[0]).unlink()
    with pytest.raises(ProgpoError, match="no column 'first_visit', 'progress'"):
        read_advantages(shards[0])
    outputs[0].write_bytes(outputs[0].read_bytes()[:-9])
    with pytest.raises(ProgpoError, match=r"advantages\.parquet: truncated"):
        read_advantages(outputs[0])
    with pytest.raises(ProgpoError, match="no such file"):
        read_advantages(outputs[0].with_name("none.parquet"))
