"""A SLURM cluster of one pretended node on the loopback interface, for the time of the tests."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ports import free_ports

DAEMONS = ("munged", "slurmctld", "slurmd")
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY"}
CLIENTS = ("sbatch", "srun", "squeue", "scancel", "scontrol")
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])

# Two partitions as in the profiles. The node pretends to more than the machine has, so that jobs need not wait; a job
# that outgrows its memory is ended, as on a real cluster, here by sampling once a second.
CONFIGURATION = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=5
PriorityType=priority/basic
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
ReturnToService=2
MailProg=/bin/true
MinJobAge=3600
KillWait=2
JobRequeue=0
EnforcePartLimits=ALL
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=1000000 Gres=gpu:4 State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=1-00:00:00 State=UP
PartitionName=gpu Nodes={host} MaxTime=1-00:00:00 State=UP
"""


@dataclass(frozen=True)
class Job:
    """A line of `squeue`: a job's id, what it does, its state, the memory in MiB and whether a GPU it asked for."""

    id: int
    comment: str
    state: str
    memory: int
    gpu: bool


def missing() -> list[str]:
    """Return what of SLURM is not installed."""
    return [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name, path=PATH) is None]


@dataclass(frozen=True)
class Cluster:
    """A running cluster; its daemons' configuration, logs and state lie in `folder`."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """What commands need to speak to it."""
        path = os.pathsep.join([str(self.folder / "bin"), PATH])
        return {**os.environ, "PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def command(self, *words: str) -> str:
        """Run one of SLURM's commands and return what it prints."""
        return subprocess.run(words, env=self.environment, text=True, capture_output=True, check=True).stdout

    def jobs(self) -> list[Job]:
        """Return all jobs, also those that ended, in the order of their submission."""
        widths = {"jobid": 12, "state": 20, "minmemory": 20, "tres-per-job": 40, "comment": 200}
        columns = ",".join(f"{name}:{width}" for name, width in widths.items())
        found = []
        for line in self.command("squeue", "--states=all", "--noheader", f"--Format={columns}").splitlines():
            cells = []
            for width in widths.values():
                cells.append(line[:width].strip())
                line = line[width:]
            job, state, memory, wanted, comment = cells
            found.append(Job(int(job), comment, state, _mebibytes(memory), gpu="gpu" in wanted))
        return sorted(found, key=lambda job: job.id)

    def settle(self, limit: float) -> None:
        """Wait until no job is running or ending."""
        deadline = time.monotonic() + limit
        while left := [job for job in self.jobs() if job.state not in ENDED]:
            assert time.monotonic() < deadline, left
            time.sleep(0.2)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")


def _mebibytes(memory: str) -> int:
    return round(float(memory[:-1]) * {"M": 1, "G": 1024, "T": 1024**2}[memory[-1]])


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start the daemons and stop them at the end; what ran as jobs is cancelled."""
    made = Cluster(folder)
    _configure(folder)
    running: list[subprocess.Popen[bytes]] = []
    munge = ["--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket"]
    munge += [f"--{what}-file={folder}/munge.{what}" for what in ("pid", "log", "seed")]
    try:
        running.append(_start(made, "munged", *munge))
        _wait(running, made, (folder / "munge.socket").is_socket)
        running.append(_start(made, "slurmctld", "-D", "-f", f"{folder}/slurm.conf"))
        _wait(running, made, lambda: "is UP" in made.command("scontrol", "ping"))
        running.append(_start(made, "slurmd", "-D", "-f", f"{folder}/slurm.conf", "-N", _host()))
        _wait(running, made, lambda: made.command("sinfo", "--noheader", "--format=%t").split()[0] in ("idle", "mix"))
        yield made
    finally:
        if len(running) == len(DAEMONS):
            _cancel_all(made)
        for process in reversed(running):
            process.terminate()
            process.wait()


def _configure(folder: Path) -> None:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(1024))
    controller, node = free_ports(2)
    user = pwd.getpwuid(os.getuid()).pw_name
    text = CONFIGURATION.format(folder=folder, host=_host(), controller=controller, node=node, user=user)
    (folder / "slurm.conf").write_text(text)
    # A pretended GPU must be a device; with no control groups, nobody touches it.
    devices = ("full", "null", "random", "zero")
    (folder / "gres.conf").write_text("".join(f"NodeName={_host()} Name=gpu File=/dev/{name}\n" for name in devices))
    # The executor keeps SLURM_CONF from the `srun` inside a job; a real cluster has its configuration in /etc.
    wrapper = folder / "bin" / "srun"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun", path=PATH)} "$@"\n')
    wrapper.chmod(0o755)


def _host() -> str:
    return socket.gethostname().partition(".")[0]


def _start(made: Cluster, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    with (made.folder / f"{name}.log").open("wb") as log:
        program = shutil.which(name, path=PATH)
        assert program is not None
        return subprocess.Popen(
            [program, *arguments],
            cwd=made.folder,
            env=made.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(running: Sequence[subprocess.Popen[bytes]], made: Cluster, ready, limit: float = 300) -> None:
    deadline = time.monotonic() + limit
    while True:
        try:
            if ready():
                return
        except (subprocess.CalledProcessError, IndexError):
            pass
        log = made.log(Path(running[-1].args[0]).name)
        assert running[-1].poll() is None, log
        assert time.monotonic() < deadline, log
        time.sleep(0.1)


def _cancel_all(made: Cluster) -> None:
    """Cancel what is left: a job's processes would outlive the node's daemon."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        left = [str(job.id) for job in made.jobs() if job.state not in ENDED]
        if not left:
            return
        made.command("scancel", *left)
        time.sleep(0.5)
