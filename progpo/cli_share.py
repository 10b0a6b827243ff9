"""The commands that give results away, to trackers and as a folder to publish, and that compare with what was."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from progpo.artifacts import folder_of, guard

Experiment = Annotated[Path, typer.Argument(help="An experiment's folder: artifacts/<experiment>.")]


def export(
    experiment: Experiment,
    to: Annotated[Literal["tensorboard", "wandb", "trackio"], typer.Option(help="Which tracker.")],
    folder: Annotated[Path, typer.Option(help="What the tracker writes; made anew.")],
    settings: Annotated[str, typer.Option(help="Which files are meant, as JSON; else all that are there.")] = "{}",
    strict: Annotated[bool, typer.Option("--strict/--no-strict", help="Refuse files without a manifest.")] = False,
) -> None:
    """Give an experiment's curves to a tracker: a run for each arm and seed."""
    from progpo.export import run
    from progpo.settings import load_json
    from progpo.settings.experiment import ExportStage

    guard([], [experiment], folder=folder)
    given = load_json(ExportStage, settings)
    names = run(given, experiment, to, folder_of(folder), strict=strict)
    typer.echo(f"{folder_of(folder)}: {len(names)} runs ({', '.join(names)})")
    if to == "wandb" and not given.online:
        typer.echo(f"wandb sync {folder_of(folder)}/wandb/offline-run-* sends them")


def publish(
    experiment: Experiment,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder that is made anew.")],
    configfile: Annotated[
        Path | None, typer.Option(help="The run's config, whole; else the settings that its latest run noted.")
    ] = None,
) -> None:
    """Write an experiment's results as a folder to publish: page, figures, measurements, and the settings."""
    from progpo.report.publish import publish as write

    guard([], [experiment], folder=output)
    written = write(experiment, output, configfile)
    typer.echo(f"{output}: {len(written)} files; README.md shows them")


def match(
    experiment: Experiment,
    published: Annotated[Path, typer.Argument(help="A folder that `progpo publish` wrote.")],
) -> None:
    """Tell whether a run, or the part of it that is done, came to the numbers that were published."""
    from progpo.report.match import match as compare

    typer.echo(f"{experiment}: {compare(experiment, published)}")


COMMANDS = (export, publish, match)
