"""How `progpo run` hands its arguments to snakemake."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from progpo import launch
from progpo.cli import app
from progpo.errors import ProgpoError


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been started, in a folder with a Snakefile and two configs."""
    made: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "call", lambda command, environment=None: made.append(command[3:]) or 0)
    for name in ("Snakefile", "a.yaml", "b.yaml"):
        Path(name).write_text("" if name == "Snakefile" else "experiment: x\n")
    return made


def lock() -> None:
    launch.LOCKS.mkdir(parents=True)
    (launch.LOCKS / "0.input.lock").touch()


def test_arguments_go_to_snakemake(calls: list[list[str]]) -> None:
    assert launch.launch(["-n"], "2") == 0
    assert calls == [["--rerun-incomplete", "--show-failed-logs", "--cores", "2", "-n"]]


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ("--cores 2 -n", "--cores 2 -n"),
        ("--configfile a.yaml -- compare", "--cores all --configfile a.yaml -- compare"),
        ("-n --quiet --cores 2 -- compare --cores", "--cores 2 -n --quiet -- compare --cores"),
        ("compare --cores 2", "--cores 2 compare"),
    ],
)
def test_the_command_passes_on_what_is_snakemake_s(calls: list[list[str]], given: str, passed: str) -> None:
    assert CliRunner().invoke(app, ["run", *given.split()]).exit_code == 0
    assert calls == [["--rerun-incomplete", "--show-failed-logs", *passed.split()]]


@pytest.mark.parametrize(
    ("given", "cores", "passed"),
    [
        ("-n", None, "--cores all -n"),
        ("--profile slurm", None, "--profile slurm"),
        ("--executor=slurm --jobs 5", None, "--executor=slurm --jobs 5"),
        ("--profile slurm", "7", "--cores 7 --profile slurm"),
    ],
)
def test_a_profile_says_how_many_jobs(calls: list[list[str]], given: str, cores: str | None, passed: str) -> None:
    assert launch.launch(given.split(), cores) == 0
    assert calls == [["--rerun-incomplete", "--show-failed-logs", *passed.split()]]


def test_a_lock_that_another_machine_may_hold_stays(calls: list[list[str]]) -> None:
    lock()
    with pytest.raises(ProgpoError, match=r"locked.*snakemake --unlock"):
        launch.launch(["--profile", "slurm"])
    assert not calls


# Like snakemake: SIGTERM lets it finish what runs, SIGINT makes it cancel its jobs, which takes a while.
INTERRUPTED = """
import signal, sys, time
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
try:
    print("ready", flush=True)
    while not told:
        time.sleep(0.05)
    sys.exit(6)
except KeyboardInterrupt:
    time.sleep(1)
    sys.exit(5)
"""


#: Like a snakemake that has cancelled its jobs and is about to end: nothing is heeded any more.
ENDING = 'import time; print("ready", flush=True); time.sleep(300)'


@pytest.mark.parametrize(
    ("source", "whole_group", "status"), [(INTERRUPTED, True, 5), (INTERRUPTED, False, 6), (ENDING, False, 1)]
)
def test_interrupted_it_waits_for_snakemake(tmp_path: Path, source: str, whole_group: bool, status: int) -> None:
    script = tmp_path / "snakemake.py"
    script.write_text(source)
    command = f"import sys; from progpo.launch import call; sys.exit(call([sys.executable, {str(script)!r}]))"
    process = subprocess.Popen([sys.executable, "-c", command], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    os.killpg(process.pid, signal.SIGINT) if whole_group else process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == status


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("--config a=1 b=2 --cores 2", "--config a=1 b=2"),
        ("--configfile a.yaml b.yaml -n", "--configfile a.yaml b.yaml"),
        ("--configfile=a.yaml target --configfiles b.yaml", "--configfile a.yaml --configfiles b.yaml"),
        ("--snakefile=Snakefile -n", "--snakefile Snakefile"),
        ("-s Snakefile target --config a=1", "-s Snakefile --config a=1"),
    ],
)
def test_unlocking_keeps_what_says_which_workflow(calls: list[list[str]], given: str, kept: str) -> None:
    lock()
    launch.launch(given.split())
    assert calls == [
        ["--unlock", "--quiet", "all", *kept.split()],
        ["--rerun-incomplete", "--show-failed-logs", "--cores", "all", *given.split()],
    ]


@pytest.mark.parametrize("given", ["--configfile a.yaml", "--configfile a.yaml --config experiment=y", ""])
def test_results_are_printed_also_when_there_was_nothing_to_do(
    calls: list[list[str]], capsys: pytest.CaptureFixture[str], given: str
) -> None:
    Path("config").mkdir()
    Path("config/config.yaml").write_text("experiment: z\n")
    name = "y" if "=y" in given else "x" if given else "z"
    results = Path("artifacts") / name / "report" / "results.txt"
    results.parent.mkdir(parents=True)
    results.write_text("the table")
    assert launch.launch(given.split()) == 0
    assert "the table" in capsys.readouterr().out
    launch.launch([*given.split(), "-n"])
    assert "the table" not in capsys.readouterr().out


def test_a_snakefile_elsewhere(calls: list[list[str]]) -> None:
    Path("Snakefile").rename("Other")
    with pytest.raises(ProgpoError, match="no Snakefile here"):
        launch.launch(["--cores", "1"])
    launch.launch(["--snakefile=Other"])
    launch.launch(["-s", "Other"])
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read"),
        (b"\xff\xfe\x00\x81", "not a text file"),
        (b"- a\n- b\n", "holds no settings"),
        (b"a: [", "not valid YAML"),
        (b"a: 2020-13-45", "not valid YAML"),
    ],
)
def test_a_config_file_that_is_none(calls: list[list[str]], content: bytes | None, words: str) -> None:
    if content is not None:
        Path("bad.yaml").write_bytes(content)
    with pytest.raises(ProgpoError, match=f"bad.yaml: {words}"):
        launch.launch(["--configfile", "a.yaml", "bad.yaml"])
    assert not calls


def test_another_run_is_refused_without_a_lock(calls: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "alive", lambda folder: [17])
    with pytest.raises(ProgpoError, match=r"another run is alive.*process 17"):
        launch.launch(["--cores", "1"])
    assert not calls


def test_of_two_runs_the_later_sees_the_earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "progpo"
    script.write_text("import time\ntime.sleep(3600)\n")
    process = subprocess.Popen([sys.executable, str(script), "run"], cwd=tmp_path)
    try:
        deadline = time.monotonic() + 300
        while len(psutil.Process(process.pid).cmdline()) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert launch.alive(tmp_path) == []
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: float(self.pid == os.getpid()))
        assert launch.alive(tmp_path) == [process.pid]
        assert launch.alive(tmp_path / "elsewhere") == []
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ("python -m snakemake --cores 1", True),
        ("/env/bin/python3.11 /env/bin/progpo run", True),
        ("/env/bin/progpo rollout", True),
        ("python -m progpo verify artifacts", False),
        ("pytest tests/progpo", False),
        ("vim progpo", False),
        ("python", False),
    ],
)
def test_which_commands_are_runs(command: str, counts: bool) -> None:
    assert launch._runs(command.split()) == counts


def test_a_table_of_an_earlier_run_is_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    results = tmp_path / "report" / "results.txt"
    launch.print_results(results, 0.0)
    assert capsys.readouterr().out == ""
    results.parent.mkdir()
    results.write_text("the table")
    written = results.stat().st_mtime
    launch.print_results(results, written - 1)
    assert capsys.readouterr().out == f"\nthe table\n{results.parent}/ holds the tables, and report.html\n"
    launch.print_results(results, written + 1)
    assert capsys.readouterr().out.endswith("report.html, all of an earlier run\n")
