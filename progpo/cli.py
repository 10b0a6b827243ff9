"""The command line: one command a stage, files in and files out. Stages are imported by the command that runs them."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from envs.base import EnvironmentDataError
from progpo import __version__, cli_look, cli_share, processes
from progpo.artifacts import folder_of, guard
from progpo.errors import ProgpoError

app = typer.Typer(
    help="Train LLM agents with ProGPO (arXiv 2607.22724), stage by stage. Each stage reads and writes files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SettingsOption = Annotated[
    str,
    typer.Option("--settings", help="The stage's settings: JSON text, or a JSON file. Defaults fill the rest."),
]
Strict = Annotated[
    bool, typer.Option("--strict/--no-strict", help="Refuse inputs without a manifest (the workflow does).")
]
Seed = Annotated[int, typer.Option(min=0, help="Training seed.")]
Iteration = Annotated[int, typer.Option(min=0, help="Iteration, from 1.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="What is written.")]
Metrics = Annotated[Path, typer.Option(help="JSON file of the stage's metrics.")]
Tasks = Annotated[Path, typer.Option(help="Folder made by `progpo tasks`.")]
Policy = Annotated[Path, typer.Option(help="Policy folder, or its manifest.json.")]
First = Annotated[
    Path | None, typer.Option(help="The same metrics of the arm's first iteration, for alarms that compare with them.")
]
Shards = Annotated[list[Path], typer.Argument(help="All trajectory shards of one iteration (Parquet).")]


def _version(show: bool) -> None:
    if show:
        typer.echo(f"progpo {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None: ...


@app.command()
def tasks(output: Output, settings: SettingsOption = "{}") -> None:
    """Prepare the tasks: generate games, or check and list official ones."""
    from progpo.settings import load_json
    from progpo.settings.experiment import TasksStage
    from progpo.stages.tasks import run

    guard([], folder=output)
    run(load_json(TasksStage, settings), output)


@app.command()
def demonstrate(
    tasks: Tasks,
    output: Output,
    metrics: Metrics,
    settings: SettingsOption = "{}",
    workers: Annotated[int, typer.Option(min=1, help="Processes; changes no result.")] = 1,
    strict: Strict = False,
) -> None:
    """Let the environment's expert show the train tasks."""
    from progpo.settings import load_json
    from progpo.settings.experiment import DemonstrateStage
    from progpo.stages.demonstrate import run

    guard([output, metrics], [tasks])
    run(load_json(DemonstrateStage, settings), tasks, output, metrics, workers=workers, strict=strict)


@app.command()
def warmup(
    output: Output,
    metrics: Metrics,
    demonstrations: Annotated[
        list[Path] | None, typer.Argument(help="Demonstrations (Parquet); none where `warmup.tokens` is 0.")
    ] = None,
    settings: SettingsOption = "{}",
    policy: Annotated[
        Path | None, typer.Option(help="Policy folder, or its manifest.json, to go on from; its own settings hold.")
    ] = None,
    seed: Seed = 0,
    strict: Strict = False,
) -> None:
    """Make the policy, or go on from one, and fine-tune it on the demonstrations (SFT)."""
    from progpo.settings import load_json
    from progpo.settings.experiment import WarmupStage
    from progpo.stages import adopt
    from progpo.stages.warmup import run

    given = load_json(WarmupStage, settings)
    shown = demonstrations or []
    guard([metrics], [*shown, *([policy] if policy else [])], folder=output)
    if not given.warmup.tokens:
        if policy:
            raise ProgpoError("warmup: --policy is to be trained further; set warmup.tokens above 0")
        if processes.place().main:
            adopt.run(given, seed, output, metrics)
        return
    if not shown:
        raise ProgpoError("warmup: no demonstrations; name their files, or set warmup.tokens: 0 for none at all")
    if processes.must_launch(given.warmup.processes):
        processes.launch(given.warmup.processes, sys.argv[1:], [folder_of(output), metrics])
        return
    run(given, shown, seed, output, metrics, strict=strict, given=policy)


@app.command()
def correct(
    tasks: Tasks,
    policy: Policy,
    output: Output,
    metrics: Metrics,
    settings: SettingsOption = "{}",
    seed: Seed = 0,
    round_: Annotated[int, typer.Option("--round", min=1, help="Of corrections, from 1.")] = 1,
    strict: Strict = False,
) -> None:
    """Let policy and expert take turns in playing train tasks; what the expert does is there to be learned from."""
    from progpo.settings import load_json
    from progpo.settings.experiment import CorrectStage
    from progpo.stages.correct import run

    guard([output, metrics], [tasks, policy])
    run(load_json(CorrectStage, settings), tasks, policy, seed, round_, output, metrics, strict=strict)


@app.command()
def rollout(
    tasks: Tasks,
    policy: Policy,
    output: Output,
    settings: SettingsOption = "{}",
    seed: Seed = 0,
    iteration: Iteration = 1,
    shard: Annotated[int, typer.Option(min=0, help="Which shard, from 0.")] = 0,
    history: Annotated[
        list[Path] | None,
        typer.Option(
            help="advantages.json of an earlier iteration of the arm; once for each, if rollout.sampling asks."
        ),
    ] = None,
    strict: Strict = False,
) -> None:
    """Sample one shard of an iteration's groups of trajectories."""
    from progpo.settings import load_json
    from progpo.settings.experiment import RolloutStage
    from progpo.stages.rollout import run

    past = history or []
    guard([output], [tasks, policy, *past])
    run(load_json(RolloutStage, settings), tasks, policy, seed, iteration, shard, output, strict=strict, history=past)


@app.command()
def advantages(
    shards: Shards,
    output: Output,
    metrics: Metrics,
    settings: SettingsOption,
    first: First = None,
    strict: Strict = False,
) -> None:
    """Estimate the advantage of every step of an iteration."""
    from progpo.settings import load_json
    from progpo.settings.advantages import AdvantageSettings
    from progpo.stages.advantages import run

    guard([output, metrics], [*shards, *([first] if first else [])])
    run(load_json(AdvantageSettings, settings), shards, output, metrics, strict=strict, first=first)


@app.command()
def update(
    shards: Shards,
    policy: Policy,
    advantages: Annotated[Path, typer.Option(help="Made by `progpo advantages` from the same shards.")],
    output: Output,
    metrics: Metrics,
    reference: Annotated[Path | None, typer.Option(help="The policy that KL is measured to (the warm-up).")] = None,
    settings: SettingsOption = "{}",
    seed: Seed = 0,
    iteration: Iteration = 1,
    first: First = None,
    strict: Strict = False,
) -> None:
    """Update the policy on one iteration's trajectories and advantages."""
    from progpo.settings import load_json
    from progpo.settings.stages import UpdateSettings
    from progpo.stages.update import run

    optional = [path for path in (reference, first) if path]
    guard([metrics], [*shards, policy, advantages, *optional], folder=output)
    given = load_json(UpdateSettings, settings)
    if processes.must_launch(given.processes):
        processes.launch(given.processes, sys.argv[1:], [folder_of(output), metrics])
        return
    run(
        given,
        policy,
        reference,
        shards,
        advantages,
        seed,
        iteration,
        output,
        metrics,
        strict=strict,
        first=first,
    )


@app.command()
def evaluate(
    tasks: Tasks,
    policy: Policy,
    output: Output,
    summary: Annotated[Path, typer.Option(help="JSON file of success by split and task type.")],
    settings: SettingsOption = "{}",
    strict: Strict = False,
) -> None:
    """Play every listed task once for each evaluation seed."""
    from progpo.settings import load_json
    from progpo.settings.experiment import EvaluateStage
    from progpo.stages.evaluate import run

    guard([output, summary], [tasks, policy])
    run(load_json(EvaluateStage, settings), tasks, policy, output, summary, strict=strict)


@app.command()
def best(
    summaries: Annotated[list[Path], typer.Argument(help="Validations of one arm and seed: their summary.json.")],
    output: Output,
    strict: Strict = False,
) -> None:
    """Choose an arm's best iteration by validation."""
    from progpo.stages.best import run

    guard([output], summaries)
    run(summaries, output, strict=strict)


@app.command()
def keep(
    arm: Annotated[Path, typer.Argument(help="An arm's folder: artifacts/<experiment>/seed-<seed>/<arm>.")],
    settings: SettingsOption,
    output: Output,
    iteration: Annotated[int, typer.Option(min=1, help="The latest; later ones are left alone.")],
    strict: Strict = False,
) -> None:
    """Remove weights, optimiser states and rollouts that need not stay of an arm."""
    from progpo.settings import load_json
    from progpo.settings.keep import KeepStage
    from progpo.stages.keep import run

    guard([output])
    run(load_json(KeepStage, settings), arm, iteration, output, strict=strict)


@app.command()
def report(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            help="An experiment's folder, of which the settings say what is read; or the stages' JSON files."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of tables, page and figures.")],
    settings: SettingsOption,
    page: Annotated[bool, typer.Option(help="Write the page and the figures too.")] = True,
    strict: Strict = False,
) -> None:
    """Tabulate and draw success by arm, split and task type, and the course of training."""
    from progpo.settings import load_json
    from progpo.settings.experiment import ReportStage
    from progpo.stages.report import run

    typer.echo(run(load_json(ReportStage, settings), inputs, output, strict=strict, page=page))


@app.command()
def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of experiments: artifacts/<experiment>.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the tables.")],
    settings: SettingsOption = "{}",
    strict: Strict = False,
) -> None:
    """Compare arms: success, learning curves and paired differences, with bootstrap intervals."""
    from progpo.settings import load_json
    from progpo.settings.experiment import CompareStage
    from progpo.stages.compare import run

    typer.echo(run(load_json(CompareStage, settings), folders, output, strict=strict))


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="An experiment's artifacts, or part of them.")],
) -> None:
    """List damaged artifacts (files missing or changed), and those made from others than are there now."""
    from progpo.artifacts import verify as find
    from progpo.pruning import in_words, removed

    damaged, outdated = find(folder)
    for line in outdated:
        typer.echo(f"out of date: {line}")
    if damaged:
        remedy = "remedy: snakemake --cores all --forcerun FILE, with the output that is damaged"
        raise ProgpoError("\n".join([*damaged, remedy]))
    words = in_words(removed(folder))
    typer.echo(
        f"{folder}: all artifacts are as they were written"
        + (f", but for what `keep` removed: {words}" if words else "")
    )


@app.command()
def check(config: Annotated[Path, typer.Argument(help="A config (YAML).")]) -> None:
    """Validate a config, and look at the data that it needs."""
    from progpo.settings.experiment import load_experiment
    from progpo.stages.tasks import preflight

    experiment = load_experiment(config)
    typer.echo(preflight(experiment.environment.name, experiment.tasks))
    typer.echo(f"{config}: good")


webshop = typer.Typer(help="Tools for WebShop's catalogues.", no_args_is_help=True)
app.add_typer(webshop, name="webshop")


@webshop.command()
def nouns(
    folder: Annotated[Path, typer.Argument(help="A catalogue's folder, or its product file.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="What is written; else nouns*.json beside the products.")
    ] = None,
    model: Annotated[str, typer.Option(help="spaCy's model; the reward means the default.")] = "en_core_web_sm",
) -> None:
    """Find the nouns of product names, which the reward compares (needs the extra `webshop-nouns`)."""
    from envs.webshop.catalogue import find_files, load_catalogue, nouns_path
    from envs.webshop.nouns import find_nouns
    from progpo.artifacts import write_json

    files = find_files(folder)
    output = output or nouns_path(files.products)
    guard([output], [path for path in files[:3] if path])
    products = load_catalogue(folder).products
    found = find_nouns((product.title for product in products), model)
    write_json(output, {product.asin: words for product, words in zip(products, found, strict=True)})
    typer.echo(f"{output}: the nouns of {len(products)} product names")


class _PassingOn(TyperCommand):
    """A command that leaves a `--`, and what follows it, to the program that it starts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        super().parse_args(ctx, args[:place])
        ctx.args = [*ctx.args, *args[place:]]
        return ctx.args


@app.command(cls=_PassingOn, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def run(
    context: typer.Context,
    cores: Annotated[
        str | None, typer.Option(help="As of snakemake; by default all, or what a profile says.", show_default=False)
    ] = None,
) -> None:
    """Run the workflow with snakemake, taking up a killed run; other arguments go to snakemake."""
    from progpo.launch import launch

    raise typer.Exit(launch(context.args, cores))


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def serve(
    context: typer.Context,
    policy: Annotated[Path, typer.Argument(help="Policy folder, or its manifest.json.")],
    strict: Strict = True,
) -> None:
    """Serve a policy with vLLM's server, for `backend: endpoint`; other arguments (--port 8000) go to vLLM."""
    from progpo.serve import serve as start

    raise typer.Exit(start(policy, context.args, strict))


for command in (*cli_look.COMMANDS, *cli_share.COMMANDS):
    app.command()(command)


def _explain(error: BaseException) -> str | None:
    """Return the message for an error that the user can mend, or None."""
    if isinstance(error, ProgpoError | EnvironmentDataError):
        return str(error)
    if lost := processes.explain(error):
        return lost
    if "No space left on device" in str(error):
        return f"the disk is full: {error}\nremedy: free space and run again; finished artifacts are untouched"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror}"
    return None


def main() -> None:
    """Run the command line; errors that a user can mend end it with one message and status 1."""
    here = processes.place()
    who = "progpo" if here.count == 1 else f"progpo ({here})"
    warnings.showwarning = lambda message, *_, **__: print(f"{who}: warning: {message}", file=sys.stderr)
    try:
        app()
    except Exception as error:
        message = _explain(error)
        if message is None:
            raise
        for line in message.splitlines():
            print(f"{who}: error: {line}", file=sys.stderr)
        sys.exit(1)
    finally:
        processes.leave()
