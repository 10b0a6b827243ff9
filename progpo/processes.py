"""Several processes that run one stage together: which one this is, and how a command starts them.

A launcher (`torchrun`, `accelerate launch`, or `launch` here) tells each process its place by environment variables.
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from progpo.artifacts import clean_partial
from progpo.errors import ProgpoError

#: What the errors of torch's communication libraries have in them.
LOST = ("gloo", "nccl", "connection", "store")


@dataclass(frozen=True)
class Place:
    """Which of the processes this one is.

    Attributes:
        index: from 0; the first alone writes and reports.
        count: of processes.
    """

    index: int = 0
    count: int = 1

    @property
    def main(self) -> bool:
        return self.index == 0

    def __str__(self) -> str:
        return f"process {self.index} of {self.count}"


def place() -> Place:
    """Return this process's place."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return Place()
    return Place(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))


def must_launch(processes: int) -> bool:
    """Return whether a stage that is to run in several processes has them still to be started.

    Raises:
        ProgpoError: a launcher has started another number of them.
    """
    if "WORLD_SIZE" not in os.environ:
        return processes > 1
    count = place().count
    if processes not in (1, count):
        raise ProgpoError(f"processes: {processes} by the settings, but a launcher has started {count}; leave one out")
    return False


def check_strategy(strategy: str) -> None:
    """Refuse what `accelerate launch` may ask for and the settings do not.

    Raises:
        ProgpoError: another way to divide the work than `strategy`.
    """
    for variable, name in (("FSDP", "fsdp"), ("DEEPSPEED", "DeepSpeed"), ("MEGATRON_LM", "Megatron-LM")):
        if os.environ.get(f"ACCELERATE_USE_{variable}", "").lower() == "true" and name != strategy:
            remedy = "set `strategy: fsdp`" if name == "fsdp" else "choose MULTI_GPU or FSDP (`accelerate config`)"
            raise ProgpoError(f"accelerate launch asks for {name}, the settings for {strategy}; {remedy}")


def launch(count: int, arguments: Sequence[str], outputs: Sequence[Path]) -> None:
    """Run a command of progpo in several processes of this machine, with torch's elastic launcher, and wait for them.

    The first process prints here; what the others print is kept until one fails. When one fails, the others are ended.

    Args:
        count: of processes.
        arguments: of the command line, as this process was given them.
        outputs: of the command, beside which killed writers may have left something.

    Raises:
        ProgpoError: a process failed.
    """
    import torch
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if torch.accelerator.is_available() and torch.accelerator.device_count() < count:
        raise ProgpoError(
            f"processes: {count}, but there are {torch.accelerator.device_count()} GPUs here; ask for as many"
        )
    # It tells failures at length; they are told here in a line.
    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
    os.environ.setdefault("LOGLEVEL", "CRITICAL")
    with TemporaryDirectory(prefix="progpo-") as folder:
        others = dict.fromkeys(range(1, count), Std.ALL)
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=str(os.getpid()),
            rdzv_backend="c10d",
            rdzv_endpoint="localhost:0",
            max_restarts=0,
            logs_specs=DefaultLogsSpecs(log_dir=folder, redirects={0: Std.NONE, **others}),
        )
        try:
            elastic_launch(config, sys.executable)("-m", "progpo", *arguments)
        except ChildFailedError as error:
            for output in outputs:
                clean_partial(output)
            raise ProgpoError(_failure(error, count, Path(folder))) from None
        except SignalException as error:
            for output in outputs:
                clean_partial(output)
            sys.exit(128 + error.sigval)


def _failure(error: Any, count: int, folder: Path) -> str:
    """Return what to say about processes that failed."""
    failed = [item for item in error.failures.values() if item.exitcode != -signal.SIGTERM]
    # One that was killed is the cause; the others then miss it, and may be seen to fail at the same moment.
    killed = [item for item in failed if item.exitcode < 0]
    cause = (killed or failed or list(error.failures.values()))[0]
    who = str(Place(cause.local_rank, count))
    if cause.exitcode < 0:
        name = signal.Signals(-cause.exitcode).name
        hint = " (the system does so when memory runs out)" if name == "SIGKILL" else ""
        return f"{who} was ended by {name}{hint}; the others were ended too, and nothing was written"
    told = [
        line.rstrip()
        for file in sorted(folder.rglob("stderr.log"))
        if file.parent.name == str(cause.local_rank)
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
    ]
    return "\n".join([*told[-20:], f"{who} failed (status {cause.exitcode}); nothing was written"])


def explain(error: BaseException) -> str | None:
    """Return a message for the error by which a process notices that another is gone, or None."""
    here = place()
    if here.count > 1 and isinstance(error, RuntimeError) and any(word in str(error).lower() for word in LOST):
        line = (str(error).strip().splitlines() or [""])[0]
        return f"lost another process, which failed or was killed ({line[:200]})"
    return None


def leave() -> None:
    """Take leave of the other processes, if there were any."""
    if place().count > 1:
        import torch

        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
