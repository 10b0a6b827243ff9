"""The estimators against a plain reference, and what must hold of them whatever the numbers."""

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from plain_advantages import Rows, as_table, make_rows, plain_advantages

from progpo.advantages import SCHEMA, estimate
from progpo.advantages.columns import needed_columns
from progpo.errors import ProgpoError
from progpo.settings.advantages import AdvantageSettings

ARMS: dict[str, dict[str, Any]] = {
    "grpo": {"base": "grpo"},
    "grpo mean": {"base": "grpo", "normalise": "mean"},
    "rloo": {"base": "rloo"},
    "gigpo": {"base": "gigpo"},
    "gigpo undiscounted": {"base": "gigpo", "gamma": 1.0, "step_weight": 0.25},
    "gigpo myopic": {"base": "gigpo", "gamma": 0.0, "normalise": "mean"},
    "hgpo": {"base": "hgpo"},
    "hgpo short": {"base": "hgpo", "history": 0},
    "hgpo long": {"base": "hgpo", "history": 30, "alpha": 2.5, "gamma": 0.8},
    "hgpo flat weights": {"base": "hgpo", "alpha": 0.0, "normalise": "mean"},
    "progpo": {"base": "grpo", "progress": {}},
    "progpo rloo": {"base": "rloo", "progress": {"schedule": "fixed", "weight": 1.5}},
    "progpo hgpo step": {"base": "hgpo", "progress": {"level": "step"}},
    "progpo gigpo both": {"base": "gigpo", "step_weight": 0.5, "gamma": 0.7, "progress": {"level": "both"}},
    "progpo state": {"base": "gigpo", "progress": {"key": "state", "level": "both"}},
    "always": {"base": "gigpo", "progress": {"always_on": True, "level": "both"}},
    "always state": {"base": "grpo", "progress": {"always_on": True, "key": "state"}},
    "penalty": {"base": "hgpo", "progress": {"weight": 0.0}, "invalid_penalty": 0.1},
}
NUMBERS = ("trajectory_advantage", "step_advantage", "advantage")


def run(rows: Rows | pa.Table, arm: dict[str, Any], **more: int) -> pa.Table:
    table = rows if isinstance(rows, pa.Table) else as_table(rows)
    return estimate(table, AdvantageSettings.model_validate(arm), **more).table


def episode(group: int, trajectory: int, length: int, outcome: float = 0.0, walk: str = "abcdefghij") -> Rows:
    """A trajectory that walks in circles over the letters of `walk`."""
    return [
        {
            "group": group,
            "trajectory": trajectory,
            "step": step,
            "observation": walk[step % len(walk)],
            "next_observation": walk[(step + 1) % len(walk)],
            "valid": True,
            "reward": outcome if step == length - 1 else 0.0,
            "outcome": outcome,
        }
        for step in range(length)
    ]


def of(table: pa.Table, column: str, group: int, trajectory: int) -> list[Any]:
    rows = table.to_pylist()
    return [row[column] for row in rows if (row["group"], row["trajectory"]) == (group, trajectory)]


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("kind", ["success", "score", "dense"])
def test_agrees_with_a_plain_program(name: str, kind: str) -> None:
    shapes = [{}, {"places": 2, "longest": 20}, {"groups": 1, "longest": 1}, {"places": 40}]
    for seed in range(16):
        rows = make_rows(seed, kind=kind, **shapes[seed % len(shapes)])
        expected = plain_advantages(rows, ARMS[name])
        found = run(rows, ARMS[name]).to_pylist()
        assert [(row["group"], row["trajectory"], row["step"]) for row in found] == sorted(expected)
        for row in found:
            key = (row.pop("group"), row.pop("trajectory"), row.pop("step"))
            for column, value in expected[key].items():
                close = row[column] == value if column == "branch" else abs(row[column] - value) < 1e-10
                assert close, (seed, key, column, row[column], value)


@pytest.mark.parametrize("name", ARMS)
def test_neither_row_order_nor_chunks_nor_encoding_matter(name: str) -> None:
    rows = make_rows(3, groups=6)
    expected = run(rows, ARMS[name])
    random.Random(1).shuffle(rows)
    pieces = [as_table(rows[:7]), as_table(rows[7:])]
    encoded = [
        pa.table(
            {
                column: piece[column].dictionary_encode() if pa.types.is_string(piece[column].type) else piece[column]
                for column in piece.column_names
            }
        )
        for piece in pieces
    ]
    assert run(pa.concat_tables(pieces), ARMS[name]).equals(expected)
    assert run(pa.concat_tables(encoded), ARMS[name]).equals(expected)
    assert expected.schema.equals(SCHEMA)


def test_a_dictionary_that_holds_a_text_twice_means_the_same_text() -> None:
    table = as_table(episode(0, 0, 4, walk="ab"))
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1], pa.int32()), ["a", "b", "a"])
    table = table.set_column(table.column_names.index("observation"), "observation", twice)
    assert run(table, {"base": "grpo"})["first_visit"].to_pylist() == [True, False, False, False]


def test_the_scale_is_of_rewards_and_not_of_the_penalty() -> None:
    rows = [row for number, outcome in enumerate((1.0, 0.0, 0.0, 0.0)) for row in episode(0, number, 2, outcome)]
    rows[2]["valid"] = False
    arm = {"base": "grpo", "normalise": "mean", "reward_scale": 10, "invalid_penalty": 0.1}
    assert run(rows, arm)["advantage"].to_pylist() == [7.5, 7.5, -2.6, -2.5, -2.5, -2.5, -2.5, -2.5]


@pytest.mark.parametrize("name", [name for name, arm in ARMS.items() if "always_on" not in arm.get("progress", {})])
def test_the_scale_is_as_if_the_environment_had_paid_more(name: str) -> None:
    """... and what is credited for coverage, and when, stays as it is."""
    rows = make_rows(5, groups=6)
    paid = [{**row, "reward": 10 * row["reward"], "outcome": 10 * row["outcome"]} for row in rows]
    scaled = run(rows, {**ARMS[name], "reward_scale": 10.0})
    assert scaled.equals(run(paid, ARMS[name]))
    failed = pc.is_in(scaled["branch"], pa.array(["progress", "none"]))
    assert scaled.filter(failed).equals(run(rows, ARMS[name]).filter(failed))


@pytest.mark.parametrize("level", ["trajectory", "both"])
@pytest.mark.parametrize("base", ["grpo", "gigpo"])
def test_the_gate_on_success_takes_groups_that_were_paid_for_less(base: str, level: str) -> None:
    """Where outcomes are scores, a group without a score of 1 has failed: as if its outcomes were 0, to the bit."""
    paid = {0: (1.0, 0.5, 0.0), 1: (0.5, 0.0, 0.75), 2: (0.0, 0.0, 0.0), 3: (0.25, 1.0, 1.0)}
    rows = [
        {**row, "score": row["outcome"]}
        for group, outcomes in paid.items()
        for number, outcome in enumerate(outcomes)
        for row in episode(group, number, 4, outcome, walk="abcd"[: 2 + number])
    ]
    won, nearly = {0, 3}, {1}
    zero = [row if row["group"] in won else {**row, "outcome": 0.0, "reward": 0.0} for row in rows]
    arm = {"base": base, "progress": {"gate": "success", "level": level}}
    found, expected = run(rows, arm), run(zero, {"base": base, "progress": {"level": level}})
    assert found.equals(expected)
    metrics = estimate(as_table(rows), AdvantageSettings.model_validate(arm)).metrics
    assert metrics["failed_fraction"] == 0.5
    ungated = run(rows, {"base": base, "progress": {"level": level}}).to_pylist()
    assert {row["branch"] for row in ungated if row["group"] in nearly} == {"outcome"}
    with pytest.raises(ProgpoError, match="'score'"):
        run([{key: value for key, value in row.items() if key != "score"} for row in rows], arm)


@pytest.mark.parametrize("base", ["grpo", "rloo", "gigpo", "hgpo"])
def test_progress_leaves_groups_that_did_not_fail_untouched_to_the_bit(base: str) -> None:
    seen = {"outcome": 0, "other": 0}
    for seed in range(20):
        rows = make_rows(seed, kind="dense")
        plain = run(rows, {"base": base}).to_pylist()
        under = run(rows, {"base": base, "progress": {}}).to_pylist()
        for before, after in zip(plain, under, strict=True):
            seen["outcome" if after["branch"] == "outcome" else "other"] += 1
            if after["branch"] == "outcome":
                assert before == after
    assert min(seen.values()) > 50


@pytest.mark.parametrize("base", ["grpo", "rloo", "gigpo", "hgpo"])
@pytest.mark.parametrize("level", ["trajectory", "step", "both"])
def test_without_an_all_failed_group_the_result_is_the_base_s_to_the_bit(base: str, level: str) -> None:
    rows = make_rows(11, groups=6, kind="score")
    alive = {row["group"] for row in rows if row["outcome"] > 0}
    rows = [row for row in rows if row["group"] in alive]
    assert len(alive) > 1
    plain, under = run(rows, {"base": base}), run(rows, {"base": base, "progress": {"level": level}})
    for column in SCHEMA.names:
        before, after = plain[column].combine_chunks(), under[column].combine_chunks()
        assert before.equals(after)
        if column in NUMBERS:
            assert before.to_numpy().tobytes() == after.to_numpy().tobytes()


@pytest.mark.parametrize("name", ["grpo", "rloo", "gigpo", "hgpo", "progpo rloo", "always"])
def test_a_group_s_result_depends_to_the_bit_on_nothing_outside_it(name: str) -> None:
    rows = make_rows(5, groups=6, kind="dense")
    every = run(rows, ARMS[name]).to_pylist()
    for group in {row["group"] for row in rows}:
        alone = run([row for row in rows if row["group"] == group], ARMS[name]).to_pylist()
        assert alone == [row for row in every if row["group"] == group]


def test_the_baseline_counts_each_trajectory_once_however_long() -> None:
    """Over step rows, one 10-step success among seven 50-step failures would get +5.91, the others -0.17."""
    rows = episode(0, 0, 10, outcome=1.0)
    for trajectory in range(1, 8):
        rows += episode(0, trajectory, 50)
    table = run(rows, {"base": "grpo"})
    assert of(table, "advantage", 0, 0) == pytest.approx([2.4749] * 10, abs=1e-4)
    assert of(table, "advantage", 0, 3) == pytest.approx([-0.3536] * 50, abs=1e-4)
    over_rows = np.repeat([1.0] + [0.0] * 7, [10] + [50] * 7)
    assert (1 - over_rows.mean()) / over_rows.std(ddof=1) == pytest.approx(5.91, abs=0.01)


@pytest.mark.parametrize("arm", [{"base": base} for base in ("grpo", "rloo", "gigpo", "hgpo")])
@pytest.mark.parametrize("size", [3, 7, 8])
def test_a_flat_group_gets_zero_not_the_noise_of_its_mean(arm: dict, size: int) -> None:
    rows = [row for trajectory in range(size) for row in episode(0, trajectory, 6, outcome=np.float32(0.7))]
    scores = np.full(size, 0.7, np.float32)
    assert size != 7 or scores.std() > 0, "in float32 the deviation of this flat group is noise"
    assert set(run(rows, arm)["advantage"].to_pylist()) == {0.0}


def test_a_penalised_step_among_zeros_costs_the_penalty_and_opens_no_scale() -> None:
    """Mixed into the statistics, one penalty among 400 zeros would become -19.9."""
    rows = [row for trajectory in range(8) for row in episode(0, trajectory, 50)]
    rows[123]["valid"] = False
    arm = {"base": "grpo", "invalid_penalty": 0.1}
    advantage = run(rows, arm)["advantage"].to_numpy()
    assert advantage[123] == -0.1
    assert np.count_nonzero(advantage) == 1
    mixed = np.zeros(400)
    mixed[123] = -0.1
    assert (mixed[123] - mixed.mean()) / (mixed.std(ddof=1) + 1e-6) == pytest.approx(-19.9, abs=0.1)


def test_a_penalty_neither_closes_the_gate_nor_enters_the_parts() -> None:
    rows = episode(0, 0, 6) + episode(0, 1, 6, walk="ab")
    rows[2]["valid"] = False
    clean = run(rows, {"base": "gigpo", "progress": {}})
    penal = run(rows, {"base": "gigpo", "progress": {}, "invalid_penalty": 0.1})
    assert set(penal["branch"].to_pylist()) == {"progress"}
    assert penal.drop_columns(["advantage"]).equals(clean.drop_columns(["advantage"]))
    difference = clean["advantage"].to_numpy() - penal["advantage"].to_numpy()
    assert np.flatnonzero(difference).tolist() == [2]
    assert difference[2] == pytest.approx(0.1)


def test_duplicate_rows_and_cut_trajectories_are_refused() -> None:
    rows = episode(0, 0, 6, outcome=1.0) + episode(0, 1, 6)
    with pytest.raises(ProgpoError, match=r"duplicate rows \(1\).*group 0, trajectory 1, step 5"):
        run([*rows, rows[-1]], {"base": "grpo"})
    with pytest.raises(ProgpoError, match="group 0, trajectory 0 is cut"):
        run(rows[1:], {"base": "grpo"})
    with pytest.raises(ProgpoError, match="no rows"):
        run(as_table(rows).slice(0, 0), {"base": "grpo"})


def test_ragged_groups_are_not_padded() -> None:
    """A longer trajectory changes its own steps' returns, and nobody's baseline of outcomes."""
    short = run(episode(0, 0, 3, outcome=1.0) + episode(0, 1, 3), {"base": "grpo"})
    long = run(episode(0, 0, 3, outcome=1.0) + episode(0, 1, 40), {"base": "grpo"})
    assert of(short, "advantage", 0, 0) == of(long, "advantage", 0, 0)
    assert len(set(of(long, "advantage", 0, 1))) == 1


def test_returns_go_by_step_not_by_row() -> None:
    rows = episode(0, 0, 5, outcome=1.0, walk="aaaaaa") + episode(0, 1, 5, walk="aaaaaa")
    forward = run(rows, {"base": "gigpo"})
    assert run(rows[::-1], {"base": "gigpo"}).equals(forward)
    steps = of(forward, "step_advantage", 0, 0)
    assert steps == sorted(steps)
    assert len(set(steps)) == 5


def test_first_visits_count_from_the_start_and_read_the_next_observation() -> None:
    rows = episode(0, 0, 7, walk="abacb")
    assert of(run(rows, {"base": "grpo"}), "first_visit", 0, 0) == [True, False, True, False, False, False, False]
    assert of(run(rows, {"base": "grpo"}), "progress", 0, 0) == pytest.approx([2 / 7] * 7)


def test_observations_are_compared_as_exact_text() -> None:
    rows = episode(0, 0, 3, walk="abcd")
    for row, text in zip(rows, ["Shelf 1", "shelf 1", "shelf 1 "], strict=True):
        row["next_observation"] = text
    rows[1]["observation"], rows[2]["observation"] = "Shelf 1", "shelf 1"
    assert run(rows, {"base": "grpo"})["first_visit"].to_pylist() == [True, True, True]


def test_the_failed_fraction_is_of_the_whole_iteration() -> None:
    rows = episode(0, 0, 4, outcome=1.0) + episode(1, 0, 4) + episode(1, 1, 4, walk="ab") + episode(2, 0, 4)
    found = estimate(as_table(rows), AdvantageSettings(base="grpo", progress={}))
    assert found.metrics["failed_fraction"] == pytest.approx(2 / 3)
    assert found.metrics["progress_weight"] == pytest.approx(0.2)
    assert of(found.table, "advantage", 1, 0) == pytest.approx([0.2] * 4)
    assert of(found.table, "advantage", 1, 1) == pytest.approx([-0.2] * 4)
    assert set(of(found.table, "branch", 2, 0)) == {"none"}


@pytest.mark.parametrize(("lengths", "branch"), [((200, 201), "none"), ((50, 60), "progress")])
def test_coverage_that_hardly_differs_tells_nothing(lengths: tuple[int, int], branch: str) -> None:
    """1/200 and 1/201 have a deviation of 1.2e-5, below the 1e-4 that counts; 1/50 and 1/60 one of 1.7e-3."""
    rows = [row for i, length in enumerate(lengths) for row in episode(0, i, length, walk="ab")]
    table = run(rows, {"base": "grpo", "progress": {}})
    assert set(table["branch"].to_pylist()) == {branch}
    assert (np.abs(table["advantage"].to_numpy()).max() > 0) == (branch == "progress")


@pytest.mark.parametrize(("outcome", "branch"), [(0.0009, "progress"), (-0.0009, "progress"), (0.0011, "outcome")])
def test_an_outcome_near_zero_is_a_failure(outcome: float, branch: str) -> None:
    rows = episode(0, 0, 5, outcome=outcome) + episode(0, 1, 5, walk="ab")
    assert set(run(rows, {"base": "grpo", "progress": {}})["branch"].to_pylist()) == {branch}


def test_shuffling_permutes_coverage_inside_the_group_by_seed_iteration_and_group() -> None:
    walks = ["abcdefghij", "ab", "abc", "abcd", "abcde", "abcdefg"]
    rows = [row for g in (4, -9) for i, walk in enumerate(walks) for row in episode(g, i, 9, walk=walk)]
    arm = {"base": "grpo", "progress": {"shuffle": True}}
    straight = run(rows, {"base": "grpo", "progress": {}})
    first = run(rows, arm, seed=1, iteration=2)
    assert first.equals(run(rows[::-1], arm, seed=1, iteration=2))
    assert first["progress"].equals(straight["progress"])

    def parts(table: pa.Table, group: int) -> list[float]:
        return [of(table, "trajectory_advantage", group, i)[0] for i in range(len(walks))]

    for group in (4, -9):
        assert sorted(parts(first, group)) == pytest.approx(sorted(parts(straight, group)))
        assert parts(first, group) != pytest.approx(parts(straight, group))
    assert parts(first, 4) != pytest.approx(parts(first, -9))
    for other in ({"seed": 2, "iteration": 2}, {"seed": 1, "iteration": 3}):
        assert parts(run(rows, arm, **other), 4) != pytest.approx(parts(first, 4))
    alone = [row for row in rows if row["group"] == 4]
    assert parts(run(alone, arm, seed=1, iteration=2), 4) == parts(first, 4)


@pytest.mark.parametrize("name", ARMS)
def test_an_arm_needs_no_more_columns_than_it_reads(name: str) -> None:
    settings = AdvantageSettings.model_validate(ARMS[name])
    table = as_table(make_rows(2))
    needed = needed_columns(settings)
    least = estimate(table.select(list(needed)), settings)
    every = estimate(table, settings)
    assert least.table["advantage"].equals(every.table["advantage"])
    for column in needed:
        with pytest.raises(ProgpoError, match=f"no column '{column}'"):
            estimate(table.drop_columns([column]), settings)


def test_without_observations_first_visits_are_null() -> None:
    table = run(as_table(make_rows(2)).drop_columns(["observation"]), {"base": "grpo"})
    assert table["first_visit"].null_count == table["progress"].null_count == table.num_rows


@pytest.mark.parametrize("column", ["state_key", "next_state_key"])
def test_a_missing_state_key_is_an_error_that_names_it(column: str) -> None:
    rows = make_rows(2)
    rows[3][column] = None
    with pytest.raises(ProgpoError, match=f"'{column}' holds nulls"):
        run(rows, {"base": "grpo", "progress": {"key": "state"}})
    run(rows, {"base": "grpo", "progress": {}})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("column", ["outcome", "reward"])
def test_numbers_that_are_not_finite_are_refused(column: str, value: float) -> None:
    rows = make_rows(2)
    rows[0][column] = value
    with pytest.raises(ProgpoError, match=f"'{column}' holds a number that is not finite"):
        run(rows, {"base": "gigpo"})


def test_an_outcome_that_changes_within_a_trajectory_is_refused() -> None:
    rows = episode(3, 1, 4)
    rows[2]["outcome"] = 1.0
    with pytest.raises(ProgpoError, match="group 3, trajectory 1: 'outcome' is not the same"):
        run(rows, {"base": "grpo"})


def test_metrics_tell_what_happened_overall_and_by_task_type() -> None:
    rows = episode(0, 0, 2, outcome=1.0, walk="abc") + episode(0, 1, 4, walk="ab")
    rows += episode(1, 0, 3, walk="ab") + episode(1, 1, 3, walk="ab")
    for row in rows:
        row["task_type"] = "pick" if row["group"] == 0 else "heat"
        row["score"] = 0.5 * row["outcome"]
    rows[0]["valid"] = False
    metrics = estimate(as_table(rows), AdvantageSettings(base="grpo", progress={})).metrics
    kinds = metrics.pop("by_task_type")
    assert metrics == pytest.approx(
        {
            "progress_weight": 0.15,
            "groups": 2,
            "trajectories": 4,
            "steps": 12,
            "failed_fraction": 0.5,
            "solved_fraction": 0.0,
            "no_signal_fraction": 0.5,
            "triggered_groups": 1,
            "degenerate_groups": 1,
            "success_rate": 0.0,
            "mean_outcome": 0.25,
            "mean_steps": 3.0,
            "valid_action_rate": 11 / 12,
            "cut_prompts": None,
            "first_visit_rate": 5 / 12,
            "mean_anchor_size": 3.0,
            "singleton_share": 0.0,
        }
    )
    assert list(kinds) == ["heat", "pick"]
    assert (kinds["pick"]["failed_fraction"], kinds["heat"]["failed_fraction"]) == (0.0, 1.0)
    assert (kinds["pick"]["steps"], kinds["heat"]["steps"]) == (6, 6)
    assert kinds["heat"]["degenerate_groups"] == 1


def test_cut_prompts_are_counted_where_prompts_are_windows() -> None:
    rows = [{**row, "history_cut": row["step"] % 3} for row in episode(0, 0, 4) + episode(1, 0, 2)]
    for row in rows:
        row["task_type"] = f"of group {row['group']}"
    metrics = estimate(as_table(rows), AdvantageSettings(base="grpo")).metrics
    assert metrics["cut_prompts"] == 3
    assert metrics["by_task_type"]["of group 1"]["cut_prompts"] == 1
    rows[0]["history_cut"] = None
    assert estimate(as_table(rows), AdvantageSettings(base="grpo")).metrics["cut_prompts"] is None


def test_success_is_judged_on_the_outcome_where_there_is_no_score() -> None:
    rows = episode(0, 0, 2, outcome=1.0) + episode(0, 1, 2)
    assert estimate(as_table(rows), AdvantageSettings(base="grpo")).metrics["success_rate"] == 0.5


def test_a_task_type_without_rows_has_no_metrics() -> None:
    rows = make_rows(2)
    for row in rows:
        row["task_type"] = "early" if row["group"] < 2 else "late"
    table = as_table(rows)
    table = table.set_column(table.column_names.index("task_type"), "task_type", table["task_type"].dictionary_encode())
    late = estimate(table.filter(pc.greater_equal(table["group"], 2)), AdvantageSettings(base="grpo")).metrics
    assert list(late["by_task_type"]) == ["late"]


def test_importing_the_estimators_imports_no_torch() -> None:
    code = "import sys, progpo.advantages, progpo.trajectories.read; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
