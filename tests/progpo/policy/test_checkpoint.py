"""Policies on disk."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from progpo import artifacts
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy, create_scratch, fingerprint, load_policy, load_pretrained, save_files
from progpo.settings.stages import PolicySettings


def save(policy: Policy, folder: Path) -> Path:
    with artifacts.atomic_folder(folder) as temporary:
        save_files(policy, temporary)
        artifacts.write_manifest(temporary, "warmup", {}, [file for file in temporary.iterdir()], at=folder)
    return folder


def test_a_saved_policy_comes_back_and_is_saved_to_the_same_bytes(scratch, tmp_path):
    first = save(scratch, tmp_path / "first")
    loaded = load_policy(first / "manifest.json")
    second = save(loaded, tmp_path / "second")
    for name, parameter in scratch.model.named_parameters():
        assert torch.equal(parameter, loaded.model.state_dict()[name])
    assert loaded.settings == scratch.settings
    assert loaded.tokenizer.get_vocab() == scratch.tokenizer.get_vocab()
    assert scratch.fingerprint == loaded.fingerprint == fingerprint(second)
    assert (first / "manifest.json").read_text() == (second / "manifest.json").read_text()


def test_the_seed_decides_the_weights_and_leaves_torch_alone(scratch):
    texts = ["go to room 1", "You are in room 1."] * 20
    settings = PolicySettings(hidden_size=16, layers=1, heads=2, intermediate_size=16)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, again, other = (create_scratch(settings, texts, seed) for seed in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    weights = [policy.model.model.embed_tokens.weight for policy in (one, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_the_fingerprint_follows_weights_and_tokenizer_alone(scratch, tmp_path):
    folder = save(scratch, tmp_path / "policy")
    before = fingerprint(folder)
    (folder / "optimizer.safetensors").write_bytes(b"state")
    (folder / "training.json").write_text("{}")
    assert fingerprint(folder) == before
    tokenizer = folder / "tokenizer.json"
    tokenizer.write_text(tokenizer.read_text() + " ")
    assert fingerprint(folder) != before


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "progpo.json"])
@pytest.mark.parametrize("how", ["changed", "missing"])
def test_a_damaged_policy_is_refused(scratch, tmp_path, name, how):
    folder = save(scratch, tmp_path / "policy")
    if how == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    with pytest.raises(ProgpoError, match=rf"{name}: {how}.*\nremedy"):
        load_policy(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json", "progpo.json"])
def test_an_incomplete_policy_without_manifest_is_refused(scratch, tmp_path, name):
    folder = save(scratch, tmp_path / "policy")
    (folder / "manifest.json").unlink()
    load_policy(folder, strict=False)
    (folder / name).unlink()
    with pytest.raises(ProgpoError, match=str(folder)):
        load_policy(folder, strict=False)


def test_a_pretrained_checkpoint_is_loaded_and_saved(pretrained, tmp_path):
    policy = load_pretrained(PolicySettings(init="pretrained", path=str(pretrained)))
    loaded = load_policy(save(policy, tmp_path / "policy"))
    assert loaded.tokenizer.chat_template == policy.tokenizer.chat_template
    assert loaded.settings.resolved_layout == "window"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer"),
        (lambda folder: (folder / "chat_template.jinja").unlink(), "no chat template"),
        (lambda folder: (folder / "config.json").unlink(), "no checkpoint that can be loaded"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no checkpoint that can be loaded"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"cut"), "no checkpoint that can be loaded"),
        (lambda folder: change_config(folder, intermediate_size=16), "no checkpoint that can be loaded"),
        (lambda folder: change_config(folder, layer_types=["full_attention"]), "no checkpoint that can be loaded"),
        (lambda folder: drop_weight(folder), "lacks 1 of its weights"),
        (lambda folder: shutil.rmtree(folder), "is no folder that is there"),
        (lambda folder: change_config(folder, max_position_embeddings=1024), "max_context_tokens"),
    ],
)
def test_an_unusable_checkpoint_is_refused(pretrained, tmp_path, spoil, message):
    folder = tmp_path / "checkpoint"
    shutil.copytree(pretrained, folder)
    spoil(folder)
    with pytest.raises(ProgpoError, match=message) as error:
        load_pretrained(PolicySettings(init="pretrained", path=str(folder)))
    assert "\n" not in str(error.value)


def test_loading_and_sampling_import_nothing_slow(scratch, tmp_path):
    folder = save(scratch, tmp_path / "policy")
    code = (
        "import sys; from pathlib import Path; from progpo.policy.checkpoint import load_policy;"
        "from progpo.policy.backends.own import OwnSampler; from progpo.policy.rendering import make_renderer;"
        "from progpo.policy.sampler import Sampler;"
        f"policy = load_policy(Path({str(folder)!r})); make_renderer(policy);"
        "sampler = Sampler(policy.model, 1, 64, 1.0); sampler.cache.open(); sampler.logits([[1, 2]]);"
        "assert 'torch' in sys.modules;"
        "assert not {'transformers', 'torch._dynamo'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def change_config(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def drop_weight(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
