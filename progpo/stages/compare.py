"""Stage `compare`: all arms and seeds of one or more experiments in one table, with intervals."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from progpo.artifacts import SUFFIX, clean_partial, read_manifest, write_manifest, write_text
from progpo.comparison import ALL, DIFFICULTIES, SUCCESS, Arm, Study, compare
from progpo.errors import ProgpoError
from progpo.results import WARMUP, Results, existing, expected, iteration_folder, load, make_curves
from progpo.settings.experiment import CompareStage, ReportStage
from progpo.tables import to_csv, to_markdown
from progpo.trajectories.write import write_table

#: Iterations of a curve that the Markdown shows, where none are named.
SHOWN = 5
#: Columns that are whole numbers, and those that are text; the others are rates.
WHOLE, TEXT = ("iteration", "seeds", "tasks"), ("experiment", "arm", "against", "measure", "split", "subset")

Row = Mapping[str, Any]


def run(settings: CompareStage, folders: Sequence[Path], output: Path, strict: bool = False) -> str:
    """Write `compare.md`, `compare.csv` and `compare.parquet`; return the Markdown.

    Args:
        settings: how to compare; and, for one experiment's folder, which of its files are meant. Without that all
            are: all arms by name, and of each the latest iteration that was evaluated.
        folders: of experiments (`artifacts/<experiment>`).
        output: `compare.md`, or the folder it goes to.
        strict: whether inputs must be listed in manifests.

    Raises:
        ProgpoError: a folder without results, two of one name, damaged files, or a named base that is no arm.
    """
    output = output if output.suffix == ".md" else output / "compare.md"
    clean_partial(output)
    names = [folder.resolve().name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise ProgpoError(f"compare: two folders are called {name!r}; arms are told apart by it: rename one")
    if settings.experiment is not None and len(folders) > 1:
        raise ProgpoError("compare: `experiment` in the settings is of one folder; leave it out for several")
    studies, inputs = [], []
    for folder in folders:
        files = existing(folder) if settings.experiment is None else expected(folder, settings.experiment)
        inputs += files
        studies.append(study_of(folder, load(files, strict), settings.experiment))
    rows, text, written = write_tables(studies, settings, output)
    write_manifest(output, "compare", settings.model_dump(mode="json"), written, inputs)
    print(f"compare: {len(rows)} rows of {len(studies)} experiments, {output.with_suffix('.csv')}", file=sys.stderr)
    return text


def write_tables(
    studies: Sequence[Study], settings: CompareStage, output: Path
) -> tuple[Sequence[Row], str, list[Path]]:
    """Compare, and write what was found as `output` (Markdown), and as CSV and Parquet beside it.

    Returns:
        The rows, the Markdown, and the files.
    """
    rows = compare(studies, settings.compare.base, settings.confidence, settings.compare.resamples)
    text = _markdown(rows, settings)
    written = [output, output.with_suffix(".csv"), output.with_suffix(".parquet")]
    write_text(written[1], to_csv(rows))
    _write_parquet(written[2], rows)
    write_text(output, text)
    return rows, text, written


def study_of(folder: Path, results: Results, settings: ReportStage | None) -> Study:
    """Return an experiment's results as a study; its arms' recipes stand in the manifests of their advantages.

    Args:
        folder: of the experiment.
        results: what its files hold.
        settings: which of its arms, in which order; None: all.
    """
    order = results.order(settings.arms if settings else ())
    seeds = {name: min(seed for arm, seed in results.evaluations if arm == name) for name, _ in results.evaluations}
    arms = []
    for name in order:
        if name != WARMUP:
            first = iteration_folder(folder, seeds.get(name, 0), name, 1) / f"advantages.parquet{SUFFIX}"
            recipe = read_manifest(first).settings if first.exists() else None
            arms.append(Arm(folder.resolve().name, name, recipe))
    return Study(folder.resolve().name, tuple(arms), results, make_curves(results, order))


def _write_parquet(path: Path, rows: Sequence[Row]) -> None:
    import pyarrow as pa

    kinds = {**dict.fromkeys(WHOLE, pa.int32()), **dict.fromkeys(TEXT, pa.string())}
    schema = pa.schema([pa.field(name, kinds.get(name, pa.float64())) for name in rows[0]])
    write_table(path, pa.Table.from_pylist(list(rows), schema=schema))


def _markdown(rows: Sequence[Row], settings: CompareStage) -> str:
    experiments = list(dict.fromkeys(row["experiment"] for row in rows))
    confidence = f"{100 * settings.confidence:g} %"
    lines = [f"# Comparison of {', '.join(experiments)}", ""]
    lines += [
        f"Success in %, differences in points. In brackets {confidence} bootstrap intervals: [over seeds], and, where "
        "success is by task, {over seeds and, within each, tasks}. With one seed there is none over seeds, and the "
        "other is over tasks alone. Of few seeds, the intervals tend to be too narrow. Differences are paired by seed "
        "and task. hard, middle, easy: thirds of a split's tasks by the warm-up's success.",
        "",
    ]
    for title, header, cells in [*_success(rows), *_areas(rows), *_curves(rows, settings.compare.iterations)]:
        lines += [f"## {title}", "", *to_markdown(header, cells), ""]
    return "\n".join(lines)


Table = tuple[str, list[str], list[list[str]]]


def _success(rows: Sequence[Row]) -> Iterable[Table]:
    """Yield the tables of evaluations: the arms' values, and their differences."""
    chosen = [row for row in rows if row["measure"] == SUCCESS]
    for split in dict.fromkeys(row["split"] for row in chosen):
        of_split = [row for row in chosen if row["split"] == split]
        there = list(dict.fromkeys(row["subset"] for row in of_split))
        kinds = sorted(set(there) - {ALL, *DIFFICULTIES})
        subsets = [ALL, *(name for name in DIFFICULTIES if name in there), *kinds]
        for title, differences in ((f"Success at the end on {split}", False), (f"Difference on {split}", True)):
            cells = []
            for (experiment, arm, against), found in _by_arm(of_split, differences).items():
                by_subset = {row["subset"]: row for row in found}
                overall = by_subset[ALL]
                iteration = "" if overall["iteration"] is None else str(overall["iteration"])
                cells.append(
                    [
                        _label(rows, experiment, arm, against),
                        str(overall["seeds"]),
                        iteration,
                        *(_cell(by_subset.get(subset), subset not in kinds, differences) for subset in subsets),
                    ]
                )
            if cells:
                yield title, ["arm", "seeds", "iteration", *subsets], cells


def _areas(rows: Sequence[Row]) -> Iterable[Table]:
    """Yield the tables of areas under the learning curves, as mean success over the iterations."""
    measures = [name for name in ("training_area", "validation_area") if any(row["measure"] == name for row in rows)]
    for title, differences in (("Area under the learning curve: mean success", False), ("Difference in area", True)):
        found = _by_arm([row for row in rows if row["measure"] in measures], differences)
        cells = []
        for (experiment, arm, against), of_arm in found.items():
            by_measure = {row["measure"]: row for row in of_arm}
            shown = [_cell(by_measure.get(measure), True, differences) for measure in measures]
            cells.append([_label(rows, experiment, arm, against), str(of_arm[0]["seeds"]), *shown])
        if cells:
            yield title, ["arm", "seeds", *(name.removesuffix("_area") for name in measures)], cells


def _curves(rows: Sequence[Row], wanted: Sequence[int] | None) -> Iterable[Table]:
    """Yield the tables of success and failure at some iterations."""
    titles = {
        "validation_success": "Success on {split} during training",
        "training_success": "Success of the trajectories sampled in training",
        "failed_fraction": "Share of groups that failed whole",
    }
    for measure, title in titles.items():
        of_measure = [row for row in rows if row["measure"] == measure]
        for split in dict.fromkeys(row["split"] for row in of_measure):
            there = sorted({row["iteration"] for row in of_measure})
            shown = [number for number in there if wanted is None or number in wanted]
            if wanted is None and len(shown) > SHOWN:
                shown = [shown[place * (len(shown) - 1) // (SHOWN - 1)] for place in range(SHOWN)]
            for differences in (False, True):
                cells = []
                for (experiment, arm, against), found in _by_arm(of_measure, differences).items():
                    if arm != WARMUP:
                        by_number = {row["iteration"]: row for row in found}
                        cells.append(
                            [
                                _label(rows, experiment, arm, against),
                                *(_cell(by_number.get(number), True, differences) for number in shown),
                            ]
                        )
                if cells and shown:
                    header = ["arm", *(f"iteration {number}" for number in shown)]
                    yield title.format(split=split) + (": difference" if differences else ""), header, cells


def _by_arm(rows: Sequence[Row], differences: bool) -> dict[tuple[str, str, str | None], list[Row]]:
    grouped: dict[tuple[str, str, str | None], list[Row]] = {}
    for row in rows:
        if (row["against"] is not None) == differences:
            grouped.setdefault((row["experiment"], row["arm"], row["against"]), []).append(row)
    return grouped


def _label(rows: Sequence[Row], experiment: str, arm: str, against: str | None) -> str:
    name = f"{experiment}/{arm}" if len({row["experiment"] for row in rows}) > 1 else arm
    return name if against is None else f"{name} - {against}"


def _cell(row: Row | None, intervals: bool, signed: bool) -> str:
    if row is None:
        return "-"
    text = f"{100 * row['estimate']:{'+' if signed else ''}.1f}"
    if intervals and row["low"] is not None:
        text += f" [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"
    if intervals and row["low_nested"] is not None:
        text += f" {{{100 * row['low_nested']:.1f}, {100 * row['high_nested']:.1f}}}"
    return text
