"""An experiment's results as a folder to publish: a page in Markdown, figures, measurements, and what made them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from progpo.artifacts import atomic_folder, write_manifest, write_text
from progpo.errors import ProgpoError
from progpo.report.captions import CAPTIONS
from progpo.report.collect import Content
from progpo.results import Results
from progpo.settings import load_json
from progpo.settings.experiment import CompareStage, Experiment
from progpo.stages.compare import study_of, write_tables
from progpo.stages.report import FIGURES, read, to_page
from progpo.status import noted
from progpo.trajectories.write import write_table

PAGE, CONFIG = "README.md", "config.yaml"
CURVES, EVALUATIONS = "curves.parquet", "evaluations.parquet"
COMPARISON = "compare.md"
#: Columns that are text, and those that are whole numbers; the others are rates and means.
TEXT = ("arm", "alarms", "split", "task", "task_type")
WHOLE = ("seed", "iteration", "episodes", "successes")


def publish(root: Path, output: Path, config: Path | None = None) -> list[Path]:
    """Write a folder with an experiment's results; return its files.

    `README.md` shows tables and figures; `figures/` holds them as SVG and PNG; `curves.parquet` has a row an arm, seed
    and iteration (`progpo.results.make_curves`), `evaluations.parquet` one an arm, seed, split and task; `compare.md`
    (`.csv`, `.parquet`) has the arms beside one another, as `progpo compare` does; `config.yaml` has every setting.

    Args:
        root: the experiment's folder.
        output: made anew.
        config: the run's config, whole; None: the settings that its latest run noted.

    Raises:
        ProgpoError: no settings, or artifacts that are missing or damaged.
    """
    if not root.is_dir():
        raise ProgpoError(f"{root}: no such folder")
    experiment = noted(root, config)
    if experiment is None:
        raise ProgpoError(f"{root}: the settings of its run are not noted there; name its config with --configfile")
    content, _ = read(experiment.reported(), [root], strict=True)
    comparison = load_json(CompareStage, experiment.stage("compare"))
    study = study_of(root, content.found, comparison.experiment)

    from progpo.report.figures import draw

    with atomic_folder(output) as folder:
        written = draw(content, folder / FIGURES)
        _write(folder / CURVES, [dict(row) for row in content.curves])
        _write(folder / EVALUATIONS, list(evaluations(content.found, content.arms)))
        settings = yaml.safe_dump(experiment.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        write_text(folder / CONFIG, settings)
        write_text(folder / PAGE, _page(content, experiment))
        written += [folder / name for name in (CURVES, EVALUATIONS, CONFIG, PAGE)]
        written += write_tables([study], comparison, folder / COMPARISON)[2]
        facts = {"experiment": experiment.experiment, "versions": list(content.versions)}
        write_manifest(folder, "publish", content.settings.model_dump(mode="json"), written, facts=facts)
        names = [path.relative_to(folder) for path in written]
    return [output / name for name in names]


def _page(content: Content, experiment: Experiment) -> str:
    """Return the tables, then the figures with their captions, then what made them."""
    parts = [to_page(f"Results of {experiment.experiment}", content)]
    for name, (title, caption) in CAPTIONS.items():
        if name != "time" or content.usage:
            parts.append(f"## {title}\n\n![{title}]({FIGURES}/{name}.svg)\n\n{caption}\n")
    parts.append(
        f"## What made this\n\nprogpo {' and '.join(content.versions)}, with the settings in [{CONFIG}]({CONFIG}); "
        f"`make run CONFIG=<this folder>/{CONFIG}` runs it again.\n\nMeasured values: [{CURVES}]({CURVES}) (a row an "
        f"arm, seed and iteration) and [{EVALUATIONS}]({EVALUATIONS}) (a row an arm, seed, split and task).\n\n"
        f"The arms beside one another, with paired differences: [{COMPARISON}]({COMPARISON}).\n"
    )
    return "\n".join(parts)


def evaluations(found: Results, arms: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `evaluations.parquet`: successes by arm, seed, split and task, the arms in the order given."""
    order = {arm: place for place, arm in enumerate(arms)}
    for (arm, seed), (iteration, summary) in sorted(
        found.evaluations.items(), key=lambda item: (order[item[0][0]], item[0][1])
    ):
        for split, of_split in summary["splits"].items():
            for task, entry in of_split.get("tasks_by_id", {}).items():
                key = {"arm": arm, "seed": seed, "iteration": iteration, "split": split, "task": task}
                yield key | {name: entry[name] for name in ("task_type", "episodes", "successes")}


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0]) if rows else []
    kinds = {**dict.fromkeys(TEXT, pa.string()), **dict.fromkeys(WHOLE, pa.int32())}
    schema = pa.schema([pa.field(name, kinds.get(name, pa.float64())) for name in names])
    write_table(path, pa.Table.from_pylist(rows, schema=schema))
