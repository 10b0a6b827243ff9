"""Stage `report`: success by arm, split and task type, and the curves of training, as tables."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from progpo.artifacts import check, clean_partial, write_manifest, write_text
from progpo.errors import ProgpoError
from progpo.settings.experiment import ReportStage
from progpo.statistics import wilson

WARMUP = "warmup"
#: Where an input lies tells which seed, arm and iteration it is of.
PLACE = re.compile(r"seed-(?P<seed>\d+)/(?P<arm>[^/]+)(/iteration-(?P<iteration>\d+))?(/evaluation)?/[^/]+$")

Rows = list[dict[str, Any]]


def run(settings: ReportStage, inputs: Sequence[Path], output: Path, strict: bool = False) -> str:
    """Write `results.md`, `results.txt`, `results.csv` and `curves.csv`; return the text.

    Args:
        settings: the experiment's name, arms and seeds.
        inputs: `summary.json` of evaluations and `advantages.json` of iterations, in an experiment's folders
            (`.../seed-<seed>/<arm>/...`).
        output: `results.md`, or the folder it goes to.
        strict: whether inputs must be listed in a manifest. (Their manifests stand beside the tables they sum up.)

    Raises:
        ProgpoError: an input that is not what it should be, two of the same arm, seed and iteration, or no evaluation
            among them.
    """
    output = output if output.suffix == ".md" else output / "results.md"
    clean_partial(output)
    evaluations: dict[tuple[str, int], Mapping[str, Any]] = {}
    curves: Rows = []
    sources: dict[tuple[str, str, int, int | None], Path] = {}
    for path in inputs:
        place = PLACE.search(path.as_posix())
        if place is None:
            raise ProgpoError(f"{path}: not in an experiment's folders (…/seed-0/<arm>/…): whose is it?")
        arm, seed = place["arm"], int(place["seed"])
        data = _load(path, strict)
        iteration = int(place["iteration"] or 0)
        # An arm is judged once a seed, by whichever iteration was evaluated; its curve has a point an iteration.
        key = (path.name, arm, seed, None if path.name == "summary.json" else iteration)
        if key in sources:
            raise ProgpoError(f"{sources[key]}, {path}: both are of {arm}, seed {seed}; give one of them")
        sources[key] = path
        if path.name == "summary.json":
            _check_summary(path, data)
            evaluations[arm, seed] = data
        else:
            curves.append({"arm": arm, "seed": seed, "iteration": iteration, **_curve(path, data)})
    if not evaluations:
        raise ProgpoError("report: no evaluation among the inputs (summary.json of `progpo evaluate`)")

    arms = [WARMUP, *settings.arms]
    results = _results(evaluations, arms, settings.confidence)
    order = {arm: place for place, arm in enumerate(arms)}
    curves.sort(key=lambda row: (order.get(row["arm"], len(order)), row["arm"], row["seed"], row["iteration"]))
    text = _text(settings, results, curves)
    folder = output.parent
    write_text(folder / "results.csv", _csv(results))
    write_text(folder / "curves.csv", _csv(curves))
    write_text(folder / "results.txt", text)
    write_text(output, _markdown(settings, results, curves))
    files = [output, *(folder / name for name in ("results.csv", "curves.csv", "results.txt"))]
    write_manifest(output, "report", settings.model_dump(mode="json"), files, inputs)
    return text


def _load(path: Path, strict: bool) -> Mapping[str, Any]:
    """Read a JSON input, after a check of the manifest that lists it."""
    beside = {"summary.json": "trajectories.parquet", "advantages.json": "advantages.parquet"}.get(path.name)
    if beside is None:
        raise ProgpoError(f"{path}: neither an evaluation's summary.json nor an iteration's advantages.json")
    check(path.with_name(beside), strict)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ProgpoError(f"{path}: not readable ({error}); rerun its stage") from None


def _check_summary(path: Path, data: Any) -> None:
    """Refuse a summary that lacks what `_results` reads."""
    try:
        for of_split in data["splits"].values():
            for part in (of_split, *of_split["types"].values()):
                if not (0 <= part["successes"] <= part["episodes"] > 0 <= part["steps"]):
                    raise ValueError(f"{part['successes']} successes in {part['episodes']} episodes")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ProgpoError(f"{path}: not an evaluation's summary ({what}); rerun `progpo evaluate`") from None


def _curve(path: Path, data: Mapping[str, Any]) -> Mapping[str, float]:
    try:
        return {
            "success": data["success_rate"],
            "failed_fraction": data["failed_fraction"],
            "first_visit_rate": data["first_visit_rate"],
            "valid_rate": data["valid_action_rate"],
        }
    except (KeyError, TypeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else "holds no metrics"
        raise ProgpoError(f"{path}: {what}; was it made by `progpo advantages`?") from None


def _results(evaluations: Mapping[tuple[str, int], Mapping[str, Any]], arms: Sequence[str], confidence: float) -> Rows:
    """Return one row an arm, split and task type ("all" first), pooled over seeds."""
    pooled: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for (arm, _), summary in sorted(evaluations.items()):
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
                "steps": fmean(part["steps"] for part in parts),
            }
        )
    return rows


def _csv(rows: Rows) -> str:
    file = io.StringIO()
    if rows:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return file.getvalue()


def _tables(results: Rows, curves: Rows) -> Iterable[tuple[str, list[str], list[list[str]]]]:
    """Yield title, header and cells of each table."""
    kinds = list(dict.fromkeys(row["task_type"] for row in results))
    for split in dict.fromkeys(row["split"] for row in results):
        cells = []
        of_split = [row for row in results if row["split"] == split]
        for arm in dict.fromkeys(row["arm"] for row in of_split):
            by_kind = {row["task_type"]: row for row in of_split if row["arm"] == arm}
            overall = by_kind["all"]
            cells.append(
                [
                    arm,
                    f"{overall['seeds']}",
                    f"{overall['episodes']}",
                    f"{100 * overall['success']:.1f} [{100 * overall['low']:.1f}, {100 * overall['high']:.1f}]",
                    *(f"{100 * by_kind[kind]['success']:.0f}" if kind in by_kind else "-" for kind in kinds[1:]),
                ]
            )
        yield f"Success % on {split}", ["arm", "seeds", "episodes", "all", *map(_short, kinds[1:])], cells
    arms = list(dict.fromkeys(row["arm"] for row in curves))
    cells = []
    for iteration in sorted({row["iteration"] for row in curves}):
        line = [str(iteration)]
        for arm in arms:
            here = [row for row in curves if row["arm"] == arm and row["iteration"] == iteration]
            for column in ("success", "failed_fraction"):
                line.append(f"{100 * fmean(row[column] for row in here):.0f}" if here else "-")
        cells.append(line)
    if cells:
        header = ["iteration", *(f"{arm} {what}" for arm in arms for what in ("success", "failed"))]
        yield (
            "Training: success % of the sampled trajectories, and % of groups that failed whole",
            header,
            cells,
        )


def _short(kind: str) -> str:
    return kind.removesuffix("_then_place_in_recep").removesuffix("_simple").removesuffix("_obj_and_place")


def _title(settings: ReportStage, results: Rows) -> str:
    several = results[0]["seeds"]
    return (
        f"{settings.experiment}: {several} training seed{'s' if several > 1 else ''}; in brackets the "
        f"{100 * settings.confidence:g} % Wilson interval over the evaluated episodes"
    )


def _markdown(settings: ReportStage, results: Rows, curves: Rows) -> str:
    lines = [f"# Results of {settings.experiment}", "", _title(settings, results), ""]
    for title, header, cells in _tables(results, curves):
        lines += [f"## {title}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        lines += ["| " + " | ".join(row) + " |" for row in cells]
        lines.append("")
    return "\n".join(lines)


def _text(settings: ReportStage, results: Rows, curves: Rows) -> str:
    lines = [_title(settings, results)]
    for title, header, cells in _tables(results, curves):
        widths = [max(len(row[column]) for row in [header, *cells]) for column in range(len(header))]
        lines += ["", title]
        for row in [header, *cells]:
            lines.append(
                "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
            )
    return "\n".join(lines) + "\n"
