"""The commands for people: to look at a run and its trajectories, to play, to describe what is given away."""

import sys
from pathlib import Path
from typing import Annotated, Any

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


def play(
    environment: Annotated[str, typer.Argument(help="A registered environment: alfworld, webshop.")],
    tasks: Annotated[
        Path | None, typer.Option(help="Folder made by `progpo tasks`, to take the task from; else one is generated.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Its id; else one by the seed.")] = None,
    split: Annotated[str | None, typer.Option(help="Of the folder's tasks.")] = None,
    expert: Annotated[bool, typer.Option("--expert", help="The expert plays.")] = False,
    policy: Annotated[
        Path | None, typer.Option(help="A policy's folder: it plays, and tells what it would do, and how probably.")
    ] = None,
    advise: Annotated[bool, typer.Option("--advise", help="You play, and the policy tells what it would do.")] = False,
    settings: Annotated[
        str, typer.Option(help="How it is played, as JSON: the config's section `environment`.")
    ] = "{}",
    temperature: Annotated[float, typer.Option(min=0, help="Of the policy; 0: greedy.")] = 0.4,
    top: Annotated[int, typer.Option(min=1, help="How many of the policy's actions are listed.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Of the task and of what is drawn.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Of torch: more than one where the policy is large.")] = 1,
) -> None:
    """Play a task in the terminal; the expert or a policy can play instead, or a policy can advise."""
    from pydantic import RootModel

    import envs
    from progpo.console.game import Game, choose_task
    from progpo.console.game import play as run
    from progpo.seeds import stream
    from progpo.settings import load_json
    from progpo.settings.base import validate
    from progpo.settings.experiment import Playing

    if advise and (policy is None or expert):
        raise ProgpoError("--advise: a policy advises a person; name it by --policy, without --expert")
    entry = envs.entry(environment)
    given = load_json(RootModel[dict[str, Any]], settings).root
    playing = validate(Playing, {**given, "name": environment}, "--settings")
    advisor = None
    if policy is not None:
        import torch

        from progpo.console.advisor import Advisor
        from progpo.policy.checkpoint import load_policy

        torch.set_num_threads(threads)
        advisor = Advisor(load_policy(policy, strict=False), temperature, stream("play", seed, 1))
    with choose_task(environment, tasks, split, task, seed) as chosen:
        player = entry.load("expert")(stream("play", seed, 2), False) if expert else None
        made = playing.make()
        try:
            run(Game(made, chosen, player, advisor, advise, top), typer.echo, _read_line)
        finally:
            made.close()


def _read_line() -> str | None:
    """Return the next line of the input, None at its end."""
    if sys.stdin is None:  # closed before the start
        return None
    try:
        return input("? " if sys.stdin.isatty() else "")
    except EOFError:
        return None


def card(
    folder: Annotated[Path, typer.Argument(help="Of a policy, or of trajectories (not of several).")],
) -> None:
    """Write README.md beside a policy or trajectories that are given away: what they are, for people and for hubs."""
    from progpo.cards import write_card

    typer.echo(f"{write_card(folder)}: written; say under which licence you give it")


def memory(config: Annotated[Path, typer.Argument(help="A config (YAML) with a pretrained policy.")]) -> None:
    """Calculate how much memory an experiment's updates and rollouts take on a GPU."""
    from progpo.memory import describe
    from progpo.settings.experiment import load_experiment

    typer.echo(describe(load_experiment(config)))


Stays = Annotated[
    str | None, typer.Option(help="`all`, or of how many of the latest iterations; else as in the config.")
]


def prune(
    folder: Annotated[Path, typer.Argument(help="An experiment's folder: artifacts/<experiment>.")],
    policies: Annotated[
        str | None,
        typer.Option(help="Whose weights stay: `all`, `best`, or how many of the latest; else as in the config."),
    ] = None,
    optimizer: Stays = None,
    rollouts: Stays = None,
    configfile: Annotated[
        Path | None, typer.Option(help="The run's config, whole; else the settings that its latest run noted.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would be removed, and remove nothing.")
    ] = False,
) -> None:
    """Remove weights, optimiser states and rollouts of a run that is not at work: the config's section `keep`."""
    from progpo.pruning import in_words
    from progpo.stages.keep import prune as remove

    given = {"policies": policies, "optimizer": optimizer, "rollouts": rollouts}
    changes = {name: int(text) if text.isdecimal() else text for name, text in given.items() if text is not None}
    found = remove(folder, changes, configfile, dry_run)
    if dry_run:
        for place, files in found.items():
            for name, size in files.items():
                typer.echo(f"{place.parent / name}: {size / 1e6:.1f} MB")
    typer.echo(f"{folder}: {'would remove' if dry_run else 'removed'} {in_words(found) or 'nothing'}")


COMMANDS = (view, status, play, card, memory, prune)
