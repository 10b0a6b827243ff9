"""`progpo status` beside the workflow: what it counts are the workflow's jobs."""

from collections import Counter
from collections.abc import Callable

from progpo.settings.experiment import load_experiment
from progpo.status import Plan
from tests.pipeline.running import Run


def test_a_complete_run_is_complete(complete: Run) -> None:
    result = complete.progpo("status", "artifacts/tiny")
    assert result.returncode == 0, result.stdout
    first = result.stdout.splitlines()[0]
    count = len(Plan.of(load_experiment(complete.folder / "config.yaml")).jobs(complete.artifacts))
    assert first == f"artifacts/tiny: not running; {count} of {count} jobs done"
    assert "settings are not noted" not in result.stdout


def test_the_jobs_are_those_of_the_workflow(start: Callable[[], Run]) -> None:
    run = start()
    splits = {"train": 12, "validation": 2, "valid_seen": 4, "valid_unseen": 4}
    run.configure({"tasks": {"splits": splits}, "validation": {"every": 1}, "evaluation": {"of": "best"}})
    jobs = Plan.of(load_experiment(run.folder / "config.yaml")).jobs(run.artifacts)
    assert run.planned() == Counter(job.stage for job in jobs)
