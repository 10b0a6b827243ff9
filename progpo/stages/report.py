"""Stage `report`: success by arm, split and task type, and the curves of training: tables, figures, and a page."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from progpo.artifacts import clean_partial, write_manifest, write_text
from progpo.errors import ProgpoError
from progpo.report.collect import Content, Table, recorded_settings, root_of, usage
from progpo.results import WARMUP, Data, Results, expected, load, make_curves
from progpo.settings.experiment import ReportStage
from progpo.statistics import wilson
from progpo.tables import to_csv, to_markdown, to_text

Rows = list[dict[str, Any]]
#: What is written beside the tables.
PAGE, FIGURES = "report.html", "figures"


def run(settings: ReportStage, inputs: Sequence[Path], output: Path, strict: bool = False, page: bool = True) -> str:
    """Write `results.md`, `results.txt`, `results.csv` and `curves.csv`; `report.html` and `figures/`; return the text.

    Args:
        settings: the experiment's name, arms and seeds, and what else says which files of its folder are meant.
        inputs: the experiment's folder; or JSON files of its stages (`progpo.results.OWNERS`), in its folders
            (`.../seed-<seed>/<arm>/...`).
        output: `results.md`, or the folder it goes to.
        strict: whether inputs must be listed in a manifest.
        page: whether the page and the figures are written, which takes seconds.

    Raises:
        ProgpoError: an input that is not what it should be, two of the same arm, seed and iteration, or no evaluation
            among them.
    """
    output = output if output.suffix == ".md" else output / "results.md"
    clean_partial(output)
    content, files = read(settings, inputs, strict)
    folder = output.parent
    recorded = settings.model_dump(mode="json")
    if page:
        # The page has a manifest of its own: it tells the time, and so is another one each time.
        place = folder / PAGE
        clean_partial(place)
        write_manifest(place, "report", recorded, write_page(content, place), files)
    text = _text(content.title, content.tables)
    write_text(folder / "results.csv", to_csv(content.results))
    write_text(folder / "curves.csv", to_csv(content.curves))
    write_text(folder / "results.txt", text)
    write_text(output, to_page(f"Results of {settings.experiment}", content))
    written = [output, *(folder / name for name in ("results.csv", "curves.csv", "results.txt"))]
    write_manifest(output, "report", recorded, written, files)
    return text


def read(settings: ReportStage, inputs: Sequence[Path], strict: bool = False) -> tuple[Content, list[Path]]:
    """Return what a report is made of, and the files that it was read from; arguments and errors as in `run`."""
    files = [file for path in inputs for file in (expected(path, settings) if path.is_dir() else [path])]
    found = load(files, strict)
    if not found.evaluations:
        raise ProgpoError("report: no evaluation among the inputs (summary.json of `progpo evaluate`)")
    arms = found.order(settings.arms)
    results = _results(found.evaluations, arms, settings.confidence)
    curves = make_curves(found, arms)
    root = root_of(inputs[0])
    content = Content(
        settings=settings,
        title=_title(settings, results),
        arms=arms,
        found=found,
        results=results,
        curves=curves,
        tables=[*_tables(results, curves, found), *_signs(found, arms)],
        usage=usage(root, settings),
        **recorded_settings(root, settings),
    )
    return content, files


def write_page(content: Content, place: Path) -> list[Path]:
    """Write the page, and the figures into a folder beside it; return the files."""
    # Not with the module: the tables alone need no plotting library.
    from progpo.report.figures import draw
    from progpo.report.page import render

    figures = draw(content, place.parent / FIGURES)
    write_text(place, render(content, place.parent / FIGURES))
    return [place, *figures]


def _results(
    evaluations: Mapping[tuple[str, int], tuple[int | None, Data]], arms: Sequence[str], confidence: float
) -> Rows:
    """Return one row an arm, split and task type ("all" first), pooled over seeds."""
    pooled: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for (arm, _), (_, summary) in sorted(evaluations.items(), key=lambda item: item[0]):
        for split, of_split in summary["splits"].items():
            pooled[split, arm, "all"].append(of_split)
            for kind, of_type in of_split["types"].items():
                pooled[split, arm, kind].append(of_type)
    order = {arm: place for place, arm in enumerate(arms)}
    rows = []
    for (split, arm, kind), parts in sorted(
        pooled.items(),
        key=lambda item: (item[0][0], order.get(item[0][1], len(order)), item[0][2] != "all", item[0][2]),
    ):
        episodes = sum(part["episodes"] for part in parts)
        successes = sum(part["successes"] for part in parts)
        low, high = wilson(successes, episodes, confidence)
        by_seed = [part["successes"] / part["episodes"] for part in parts]
        rows.append(
            {
                "split": split,
                "arm": arm,
                "task_type": kind,
                "seeds": len(parts),
                "episodes": episodes,
                "successes": successes,
                "success": successes / episodes,
                "low": low,
                "high": high,
                "seed_min": min(by_seed),
                "seed_max": max(by_seed),
                "score": sum(_score(part) * part["episodes"] for part in parts) / episodes,
                "steps": fmean(part["steps"] for part in parts),
            }
        )
    return rows


def _score(part: Mapping[str, Any]) -> float:
    """Return the mean score of evaluated episodes: their success, where nothing else was recorded."""
    return part.get("score", part["successes"] / part["episodes"])


def _tables(results: Rows, curves: Rows, found: Results) -> Iterable[Table]:
    """Yield the tables of success."""
    kinds = list(dict.fromkeys(row["task_type"] for row in results))
    for split in dict.fromkeys(row["split"] for row in results):
        cells = []
        of_split = [row for row in results if row["split"] == split]
        # An environment that also scores what is nearly right.
        partial = any(abs(row["score"] - row["success"]) > 1e-9 for row in of_split)
        for arm in dict.fromkeys(row["arm"] for row in of_split):
            by_kind = {row["task_type"]: row for row in of_split if row["arm"] == arm}
            overall = by_kind["all"]
            cells.append(
                [
                    arm,
                    f"{overall['seeds']}",
                    f"{overall['episodes']}",
                    f"{100 * overall['success']:.1f} [{100 * overall['low']:.1f}, {100 * overall['high']:.1f}]",
                    *([f"{100 * overall['score']:.1f}"] if partial else []),
                    *(f"{100 * by_kind[kind]['success']:.0f}" if kind in by_kind else "-" for kind in kinds[1:]),
                ]
            )
        header = ["arm", "seeds", "episodes", "all", *(["score"] if partial else []), *map(_short, kinds[1:])]
        yield f"Success % on {split}{' (score: mean, of 100)' if partial else ''}", header, cells
    trained = [row for row in curves if row["iteration"]]
    arms = list(dict.fromkeys(row["arm"] for row in trained))
    cells = []
    for iteration in sorted({row["iteration"] for row in trained}):
        line = [str(iteration)]
        for arm in arms:
            here = [row for row in trained if row["arm"] == arm and row["iteration"] == iteration]
            line += [_mean(here, column) for column in ("success", "failed_fraction")]
        cells.append(line)
    if cells:
        header = ["iteration", *(f"{arm} {what}" for arm in arms for what in ("success", "failed"))]
        yield (
            "Training: success % of the sampled trajectories, and % of groups that failed whole",
            header,
            cells,
        )
    if found.validations:
        yield _validation_table(curves, found)
        if found.best:
            yield (
                "Best iteration by validation",
                ["arm", "seed", "iteration", "success"],
                [
                    [arm, str(seed), str(iteration), _mean(_at(curves, arm, iteration, seed), "validation")]
                    for (arm, seed), iteration in sorted(
                        found.best.items(), key=lambda item: (arms.index(item[0][0]), item)
                    )
                ],
            )


def _validation_table(curves: Rows, found: Results) -> Table:
    """Return success by validated iteration and arm, over seeds; * where it is some seed's best."""
    rows = [row for row in curves if row["validation"] is not None]
    arms = list(dict.fromkeys(row["arm"] for row in rows if row["iteration"]))
    cells = []
    for iteration in sorted({row["iteration"] for row in rows}):
        line = [str(iteration)]
        for arm in arms:
            # All arms begin as the warm-up.
            best = any(found.best.get((arm, row["seed"])) == iteration for row in rows)
            line.append(_mean(_at(rows, arm if iteration else WARMUP, iteration), "validation") + "*" * best)
        cells.append(line)
    splits = sorted({split for summary in found.validations.values() for split in summary["splits"]})
    return f"Validation: success % on {', '.join(splits)} (*: the best of a seed)", ["iteration", *arms], cells


def _at(rows: Rows, arm: str, iteration: int, seed: int | None = None) -> Rows:
    return [row for row in rows if (row["arm"], row["iteration"]) == (arm, iteration) and seed in (None, row["seed"])]


def _mean(rows: Rows, column: str) -> str:
    values = [row[column] for row in rows if row[column] is not None]
    return f"{100 * fmean(values):.0f}" if values else "-"


def _signs(found: Results, arms: Sequence[str]) -> Iterable[Table]:
    """Yield the table of alarms, if there were any: how many of each, and the first."""
    raised: dict[tuple[str, int, str], list[tuple[int, str]]] = defaultdict(list)
    for table in (found.rollouts, found.updates):
        for (arm, seed, iteration), metrics in table.items():
            for alarm in metrics.get("alarms", ()):
                raised[arm, seed, alarm["alarm"]].append((iteration, alarm["message"]))
    cells = [
        [arm, str(seed), name, str(len(cases)), str(min(cases)[0]), min(cases)[1]]
        for (arm, seed, name), cases in sorted(raised.items(), key=lambda item: (arms.index(item[0][0]), item[0]))
    ]
    if cells:
        yield "Alarms", ["arm", "seed", "alarm", "iterations", "first", "then"], cells


def _short(kind: str) -> str:
    return kind.removesuffix("_then_place_in_recep").removesuffix("_simple").removesuffix("_obj_and_place")


def _title(settings: ReportStage, results: Rows) -> str:
    several = results[0]["seeds"]
    judged = "; of each arm the best iteration by validation" if settings.of == "best" else ""
    return (
        f"{settings.experiment}: {several} training seed{'s' if several > 1 else ''}{judged}; in brackets the "
        f"{100 * settings.confidence:g} % Wilson interval over the evaluated episodes"
    )


def to_page(heading: str, content: Content) -> str:
    """Return the tables as a Markdown page."""
    lines = [f"# {heading}", "", content.title, ""]
    for name, header, cells in content.tables:
        lines += [f"## {name}", "", *to_markdown(header, cells), ""]
    return "\n".join(lines)


def _text(title: str, tables: Sequence[Table]) -> str:
    lines = [title]
    for name, header, cells in tables:
        lines += ["", name, *to_text(header, cells)]
    return "\n".join(lines) + "\n"
