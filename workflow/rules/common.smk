# All the Python of the workflow: the validated config, the paths, and which file each job reads.
import gc
import os
import re
import shutil
import sys
import time
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.io import contains_wildcard

from progpo import results, status
from progpo.errors import ProgpoError
from progpo.launch import PRINTS_RESULTS, print_results
from progpo.report.captions import CAPTIONS
from progpo.settings.experiment import load_experiment

try:
    EXPERIMENT = load_experiment({str(key): value for key, value in config.items()})
except ProgpoError as error:
    raise WorkflowError(str(error)) from None

# A DAG of many thousands of jobs is millions of objects that stay: to look through them again and again is in vain.
gc.set_threshold(100_000)

BEGUN = time.time()
REPORT = EXPERIMENT.reported()
# Where the warm-up's policy lies: what corrections begin with is the first of the policies below `warmup`.
WARMED_UP = results.warmup_round(0, EXPERIMENT.correction_rounds)
ROOT = f"artifacts/{EXPERIMENT.experiment}"
LOGS = f"{ROOT}/logs"
BENCHMARKS = f"{ROOT}/benchmarks"
FIGURES = f"{ROOT}/report/figures"
ENVIRONMENT = "../envs/progpo.yaml"

# `snakemake` may have been started from a virtual environment that is not activated.
if shutil.which("progpo") is None:
    os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


wildcard_constraints:
    seed=r"\d+",
    arm="|".join(re.escape(arm) for arm in EXPERIMENT.arms),
    policy="|".join(
        [r"warmup(?:/round-\d+)?", *(rf"{re.escape(arm)}/(?:iteration-\d+|best)" for arm in EXPERIMENT.arms)]
    ),
    source="|".join(["shared", *(re.escape(arm) for arm in EXPERIMENT.arms)]),
    iteration=r"\d\d\d+",
    shard=r"\d\d+",
    round=r"[1-9]\d*",
    corrected=r"warmup(?:/round-[1-9]\d*)?",
    tracker="tensorboard|wandb|trackio",


def settings_of(stage):
    """Return a stage's settings as canonical JSON; for advantages a params function, since each arm has its own."""
    if stage == "advantages":
        by_arm = {arm: EXPERIMENT.stage(stage, arm) for arm in EXPERIMENT.arms}
        return lambda wildcards: by_arm[wildcards.arm]
    settings = EXPERIMENT.stage(stage)
    # In a string, unlike in what a function returns, Snakemake replaces what looks like a wildcard.
    return (lambda wildcards: settings) if contains_wildcard(settings) else settings


def number(name):
    """Return a params function that gives a wildcard as a plain number."""
    return lambda wildcards: int(wildcards[name])


def folder_of(wildcards):
    """Return the folder of an arm's iteration."""
    return f"{ROOT}/seed-{wildcards.seed}/{wildcards.arm}/iteration-{wildcards.iteration}"


def previous_policy(wildcards):
    """Return the policy that an iteration starts from: the warm-up's, or that of the iteration before."""
    iteration = int(wildcards.iteration)
    if iteration == 1:
        return f"{ROOT}/seed-{wildcards.seed}/warmup/policy/manifest.json"
    before = f"iteration-{iteration - 1:03d}"
    return f"{ROOT}/seed-{wildcards.seed}/{wildcards.get('arm') or wildcards.source}/{before}/policy/manifest.json"


def round_of(wildcards):
    """Return the round of corrections that a policy comes from; the last round's is the warm-up's policy."""
    return int(wildcards.corrected.partition("round-")[2] or EXPERIMENT.correction_rounds)


def policy_before(wildcards):
    """Return the policy that a round of corrections is played with, and trains further: that of the round before."""
    number = int(wildcards.round) if "round" in wildcards.keys() else round_of(wildcards)
    place = results.warmup_round(number - 1, EXPERIMENT.correction_rounds)
    return f"{ROOT}/seed-{wildcards.seed}/{place}/policy/manifest.json"


def corrections_of(suffix):
    """Return an input function that gives the corrections of a round and of all before it."""

    def corrections(wildcards):
        folder = f"{ROOT}/seed-{wildcards.seed}/warmup"
        return [f"{folder}/round-{number}/corrections.parquet{suffix}" for number in range(1, round_of(wildcards) + 1)]

    return corrections


def shards_of(wildcards):
    """Return all shards of an arm's iteration; the first iteration's are shared by the arms of a seed."""
    source = "shared" if int(wildcards.iteration) == 1 else wildcards.arm
    folder = f"{ROOT}/seed-{wildcards.seed}/{source}/iteration-{wildcards.iteration}"
    return [f"{folder}/shard-{shard:02d}.parquet" for shard in range(EXPERIMENT.rollout.shards)]


def first_of(name):
    """Return an input function that gives the metrics of the arm's first iteration, in later ones."""

    def first(wildcards):
        folder = f"{ROOT}/seed-{wildcards.seed}/{wildcards.arm}/iteration-001"
        return f"{folder}/{name}" if int(wildcards.iteration) > 1 else []

    return first


def history(wildcards):
    """Return the metrics of all the arm's earlier iterations."""
    folder = f"{ROOT}/seed-{wildcards.seed}/{wildcards.source}"
    return [f"{folder}/iteration-{number:03d}/advantages.json" for number in range(1, int(wildcards.iteration))]


def option(name, file):
    """Return a params function that gives an option for each of an input's files, if there are any."""

    def words(wildcards, input):
        given = input[file]
        return [word for path in ([given] if isinstance(given, str) else given) for word in (name, path)]

    return words


def validations_of(wildcards):
    """Return the validations that an arm's best iteration is chosen by."""
    return results.validations(Path(ROOT), REPORT, int(wildcards.seed), wildcards.arm)


def kept_before(wildcards):
    """Return what the arm's iteration before left when it removed what need not stay; the first removes nothing."""
    before = int(wildcards.iteration) - 1
    return f"{ROOT}/seed-{wildcards.seed}/{wildcards.arm}/iteration-{before:03d}/kept.json" if before > 1 else []


def validated_before(wildcards):
    """Return the validations of an iteration and the one before, if its number asks for one in however long a run."""
    every, iteration = REPORT.every, int(wildcards.iteration)
    folder = f"{ROOT}/seed-{wildcards.seed}/{wildcards.arm}"
    numbers = [number for number in (iteration - 1, iteration) if every and number % every == 0]
    return [f"{folder}/iteration-{number:03d}/validation/summary.json" for number in numbers]


def kept():
    """Return what the last iteration of each arm leaves, if something is removed at all."""
    if EXPERIMENT.keep.everything or EXPERIMENT.iterations == 1:
        return []
    last = f"iteration-{EXPERIMENT.iterations:03d}/kept.json"
    return [f"{ROOT}/seed-{seed}/{arm}/{last}" for seed in EXPERIMENT.seeds for arm in EXPERIMENT.arms]


def judged_policy(wildcards):
    """Return the policy that is evaluated: for an arm's best, the file that names it."""
    folder = f"{ROOT}/seed-{wildcards.seed}"
    if Path(wildcards.policy).name == "best":
        return f"{folder}/{wildcards.policy}.json"
    return f"{folder}/{wildcards.policy}/policy/manifest.json"


def reported(wildcards):
    """Return all that a report is made of; not listed where the rule is written, since each job reads the rules."""
    return [str(path) for path in results.expected(Path(ROOT), REPORT)]


def root_of(wildcards, output):
    """Return the experiment's folder, of which a report is made."""
    return next(str(parent) for parent in Path(output[0]).parents if parent.parent.name == "artifacts")


def record_settings():
    """Note the settings of the run that begins, for `progpo status`."""
    status.record(Path(ROOT), EXPERIMENT)


def tell_results():
    """Print the table of results, where this run made or kept one and its caller does not do it."""
    if PRINTS_RESULTS not in os.environ:
        print_results(Path(f"{ROOT}/report/results.txt"), BEGUN)
