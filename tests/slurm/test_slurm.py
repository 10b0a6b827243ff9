"""The workflow on a real SLURM: interrupted, taken up, a job cancelled, a job that outgrows its memory."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.pipeline.running import ROOT, Run
from tests.slurm.cluster import Cluster, Job, cluster, missing

pytestmark = pytest.mark.slow
PROFILES = ROOT / "workflow" / "profiles"
#: Seconds after which something has gone wrong; only a machine that does much else comes near.
LIMIT = 1800


@dataclass(frozen=True)
class Story:
    """What happened.

    Attributes:
        local: hashes of the artifacts of a run without SLURM.
        interrupted: exit status and jobs of a run that was interrupted during the warm-up.
        locks: what it left locked.
        planned: jobs left to be done then, by rule.
        output, status, jobs: of the run that took it up.
        cluster: hashes of its artifacts.
        failures: the log of the jobs that ended badly.
    """

    local: dict[str, str]
    interrupted: tuple[int, list[Job]]
    locks: list[str]
    planned: dict[str, int]
    output: str
    status: int
    jobs: list[Job]
    cluster: dict[str, str]
    failures: str

    def named(self, start: str) -> list[Job]:
        found = [job for job in self.jobs if job.comment.startswith(start)]
        assert found, [job.comment for job in self.jobs]
        return found


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs the extra `slurm`")
    if missing():
        pytest.skip(f"SLURM is not installed here: no {', '.join(missing())}")
    with cluster(tmp_path_factory.mktemp("slurm")) as made:
        yield made


def fresh(folder: Path) -> Run:
    shutil.copy(Path(__file__).with_name("tiny.yaml"), folder / "config.yaml")
    return Run(folder)


def start(run: Run, slurm: Cluster, profile: Path, log: str) -> subprocess.Popen[bytes]:
    """Start the workflow with a profile, in a process group of its own, as a terminal would."""
    words = ["-m", "progpo", "run", "--snakefile", str(ROOT / "Snakefile"), "--configfile", "config.yaml"]
    words += ["--profile", str(profile), "--slurm-init-seconds-before-status-checks", "1"]
    path = os.pathsep.join([str(Path(sys.executable).parent), slurm.environment["PATH"]])
    environment = {**slurm.environment, "PATH": path, "OMP_NUM_THREADS": "1"}
    with (run.folder / log).open("wb") as output:
        return subprocess.Popen(
            [run.command()[0], *words],
            cwd=run.folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_for(slurm: Cluster, process: subprocess.Popen[bytes], log: Path, wanted: Callable[[Job], bool]) -> Job:
    """Wait until there is such a job."""
    deadline = time.monotonic() + LIMIT
    while True:
        found = [job for job in slurm.jobs() if wanted(job)]
        if found:
            return found[0]
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def site_profile(folder: Path) -> Path:
    """Write a site's copy of the profile for GPUs, by which rollouts ask for too little memory at first."""
    profile = yaml.safe_load((PROFILES / "slurm-gpu" / "config.v8+.yaml").read_text())
    profile["set-resources"]["rollout"]["mem_mb"] = "250 * attempt * attempt"
    folder.mkdir()
    (folder / "config.v8+.yaml").write_text(yaml.safe_dump(profile))
    return folder


@pytest.fixture(scope="module")
def story(slurm: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    run = fresh(tmp_path_factory.mktemp("cluster"))
    alone = fresh(tmp_path_factory.mktemp("local"))
    # Meanwhile: most of the time on the cluster is waiting.
    with ThreadPoolExecutor() as pool:
        reference = pool.submit(alone, OMP_NUM_THREADS="1")

        process = start(run, slurm, PROFILES / "slurm", "first.log")
        log = run.folder / "first.log"
        wait_for(slurm, process, log, lambda job: job.comment.startswith("rule_warmup") and job.state == "RUNNING")
        os.killpg(process.pid, signal.SIGINT)
        interrupted = process.wait(timeout=LIMIT)
        locks = [path.name for path in (run.folder / ".snakemake" / "locks").glob("*")]
        # A cancelled job takes a while to end; the node is this machine, so its processes are seen here until then.
        slurm.settle(LIMIT)
        run.settle()
        first = slurm.jobs()
        planned = run.planned()

        process = start(run, slurm, site_profile(run.folder / "site"), "second.log")
        log = run.folder / "second.log"
        rollout = wait_for(
            slurm, process, log, lambda job: job.comment.startswith("rule_rollout") and job.state == "RUNNING"
        )
        slurm.command("scancel", str(rollout.id))
        status = process.wait(timeout=LIMIT)
        slurm.settle(LIMIT)
        jobs = [job for job in slurm.jobs() if job.id > first[-1].id]

        result = reference.result()
        assert result.returncode == 0, result.stdout
    return Story(
        local=alone.contents(),
        interrupted=(interrupted, first),
        locks=locks,
        planned=planned,
        output=log.read_text(),
        status=status,
        jobs=jobs,
        cluster=run.contents(),
        failures="".join(path.read_text() for path in (run.folder / ".snakemake" / "slurm_logs").rglob("*.log")),
    )


def test_the_run_ends_well(story: Story) -> None:
    assert story.status == 0, story.output
    assert "Success % on valid_seen" in story.output


def test_results_are_those_of_a_local_run(story: Story) -> None:
    assert story.cluster == story.local


def test_an_interrupt_cancels_the_jobs(story: Story) -> None:
    status, jobs = story.interrupted
    assert status == 1
    assert [(job.comment.split("_")[1], job.state) for job in jobs] == [
        ("prepare", "COMPLETED"),
        ("warmup", "CANCELLED"),
    ]
    assert story.locks == []


def test_a_rerun_submits_only_what_is_missing(story: Story) -> None:
    assert story.planned == {"warmup": 1, "rollout": 2, "advantages": 1, "update": 1, "evaluate": 2, "report": 1}
    # Advantages and update are one job.
    done = [job.comment for job in story.jobs if job.state == "COMPLETED"]
    assert sorted(comment.split("_")[1].partition("-")[0] for comment in done) == [
        "evaluate",
        "evaluate",
        "learn",
        "report",
        "rollout",
        "rollout",
        "warmup",
    ]


def test_a_job_cancelled_from_outside_is_submitted_again(story: Story) -> None:
    rollouts = story.named("rule_rollout")
    (cancelled,) = (job for job in rollouts if job.state == "CANCELLED")
    assert [job.state for job in rollouts if job.comment == cancelled.comment] == ["CANCELLED", "COMPLETED"]


def test_a_job_that_outgrows_its_memory_gets_more(story: Story) -> None:
    rollouts = story.named("rule_rollout")
    (outgrown,) = (job for job in rollouts if job.state == "FAILED")
    tries = [job for job in rollouts if job.comment == outgrown.comment]
    assert [(job.state, job.memory) for job in tries] == [("FAILED", 250), ("COMPLETED", 1000)]
    assert "exceeded memory limit" in story.failures


def test_gpus_are_asked_for_where_a_policy_runs(story: Story) -> None:
    wants = {job.comment.split("_")[1].partition("-")[0]: job.gpu for job in story.jobs}
    assert wants == {"warmup": True, "rollout": True, "evaluate": True, "learn": True, "report": False}
