"""Arithmetic that does not depend on the processor."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from progpo.errors import ProgpoError
from progpo.policy import portable
from progpo.settings.base import validate
from progpo.settings.stages import RolloutSettings

TESTS = Path(__file__).resolve().parents[2]
#: Of torch 2.13.0. The same come of a Zen 4 (AVX-512), and of emulated processors of AMD (Zen 1) and Intel (Haswell).
DIGESTS = {"warmup": "f0024afcee4f6086", "rollout": "16b36d0f86b49f73", "update": "1e40301e0a77c1d7"}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="for x86-64 processors")
@pytest.mark.skipif(torch.__version__.split("+")[0] != "2.13.0", reason="the digests are those of torch 2.13.0")
def test_training_comes_to_the_same_bits_on_every_processor(tmp_path: Path) -> None:
    # In a process of its own: this one has loaded torch already.
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"}
    for name in portable.VARIABLES:
        environment.pop(name, None)
    command = [sys.executable, str(TESTS / "portable_run.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == DIGESTS


def test_it_is_refused_where_torch_computes_already(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in portable.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    portable.prepare("float32")
    with pytest.raises(ProgpoError, match=r"torch is loaded already.*ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=COMPATIBLE"):
        portable.prepare("portable")
    assert "MKL_CBWR" not in os.environ
    for name, value in portable.VARIABLES.items():
        monkeypatch.setenv(name, value)
    portable.prepare("portable")


def test_other_backends_cannot_promise_it() -> None:
    with pytest.raises(ProgpoError, match="precision: vllm computes as suits its machine"):
        validate(RolloutSettings, {"backend": "vllm", "precision": "portable"}, "rollout")
