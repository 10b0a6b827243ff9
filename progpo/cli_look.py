"""The commands for people: to look at a run and its trajectories, to play, to describe what is given away."""

from pathlib import Path
from typing import Annotated

import typer

from progpo.artifacts import guard
from progpo.errors import ProgpoError

#: Above it browsers take their time.
LARGE = 10e6


def view(
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Folder of an arm's iteration, of an evaluation or of the demonstrations, or a Parquet file; a second "
            "one is shown beside it, task by task."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("view.html"),
) -> None:
    """Write a page that shows trajectories step by step; it opens in any browser, without a server."""
    from progpo.artifacts import write_text
    from progpo.viewer.collect import collect
    from progpo.viewer.page import render

    if len(sources) > 2:
        raise ProgpoError(f"{len(sources)} places were named; one is shown, or two beside one another")
    guard([output], sources)
    data = collect(sources)
    if len(sources) == 2 and not set.intersection(*({g["task"] for g in part["groups"]} for part in data["sources"])):
        raise ProgpoError(f"{sources[0]}, {sources[1]}: have no task in common; name iterations of one number")
    page = render(data)
    write_text(output, page)
    count = sum(len(group["trajectories"]) for part in data["sources"] for group in part["groups"])
    size = len(page.encode())
    typer.echo(f"{output}: {count} trajectories, {size / 1e6:.1f} MB; open it in a browser")
    if size > LARGE:
        typer.echo(f"{output}: large pages open slowly; name one shard file to see a part", err=True)


def status(
    folder: Annotated[Path, typer.Argument(help="An experiment's folder: artifacts/<experiment>.")],
    configfile: Annotated[
        Path | None, typer.Option(help="The run's config, whole; else the settings that its latest run noted.")
    ] = None,
) -> None:
    """Tell where a run stands: what is done, under way and to come, the latest success, the disk use."""
    from progpo.status import describe

    typer.echo(describe(folder, configfile))


COMMANDS = (view, status)
