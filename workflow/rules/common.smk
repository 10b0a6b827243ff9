# All the Python of the workflow: the validated config, the paths, and which file each job reads.
import os
import re
import shutil
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError

from progpo.errors import ProgpoError
from progpo.launch import PRINTS_RESULTS
from progpo.settings.experiment import load_experiment

try:
    EXPERIMENT = load_experiment({str(key): value for key, value in config.items()})
except ProgpoError as error:
    raise WorkflowError(str(error)) from None

ROOT = f"artifacts/{EXPERIMENT.experiment}"
LOGS = f"{ROOT}/logs"
BENCHMARKS = f"{ROOT}/benchmarks"
ENVIRONMENT = "../envs/progpo.yaml"

# `snakemake` may have been started from a virtual environment that is not activated.
if shutil.which("progpo") is None:
    os.environ.update(PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


wildcard_constraints:
    seed=r"\d+",
    arm="|".join(re.escape(arm) for arm in EXPERIMENT.arms),
    policy="|".join(["warmup", *(rf"{re.escape(arm)}/iteration-\d+" for arm in EXPERIMENT.arms)]),
    source="|".join(["shared", *(re.escape(arm) for arm in EXPERIMENT.arms)]),
    iteration=r"\d\d\d+",
    shard=r"\d\d+",


def settings_of(stage):
    """Return a params function that gives a stage's settings (of the job's arm) as canonical JSON."""
    return lambda wildcards: EXPERIMENT.stage(stage, wildcards.get("arm"))


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


def shards_of(wildcards):
    """Return all shards of an arm's iteration; the first iteration's are shared by the arms of a seed."""
    source = "shared" if int(wildcards.iteration) == 1 else wildcards.arm
    folder = f"{ROOT}/seed-{wildcards.seed}/{source}/iteration-{wildcards.iteration}"
    return [f"{folder}/shard-{shard:02d}.parquet" for shard in range(EXPERIMENT.rollout.shards)]


def evaluated():
    """Return the evaluated policies: each seed's warm-up, and each arm's last."""
    last = f"iteration-{EXPERIMENT.iterations:03d}"
    return [
        f"{ROOT}/seed-{seed}/{policy}/evaluation/summary.json"
        for seed in EXPERIMENT.seeds
        for policy in ["warmup", *(f"{arm}/{last}" for arm in EXPERIMENT.arms)]
    ]


def curves():
    """Return the metrics of all iterations of all arms."""
    return [
        f"{ROOT}/seed-{seed}/{arm}/iteration-{iteration:03d}/advantages.json"
        for seed in EXPERIMENT.seeds
        for arm in EXPERIMENT.arms
        for iteration in range(1, EXPERIMENT.iterations + 1)
    ]


def print_results():
    """Print the table of results, where this run made or kept one and its caller does not do it."""
    results = Path(f"{ROOT}/report/results.txt")
    if results.exists() and PRINTS_RESULTS not in os.environ:
        print(f"\n{results.read_text()}\n{results.parent}/ holds the tables")
