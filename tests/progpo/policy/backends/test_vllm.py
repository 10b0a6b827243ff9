"""The vLLM backend, over a stand-in for vLLM; tests/vllm has the tests over vLLM itself."""

import subprocess
import sys

import corridor
import pytest
import serving

from progpo.artifacts import read_manifest
from progpo.errors import ProgpoError
from progpo.policy.backends.base import Turn
from progpo.policy.backends.vllm import VARIABLES, Vllm, cache_bytes
from progpo.policy.checkpoint import load_policy, load_reader
from progpo.policy.play import Episode, play, play_with
from progpo.settings.stages import RolloutSettings
from progpo.tasks import load_tasks
from progpo.trajectories.read import read_shard
from progpo.trajectories.schema import SCHEMA


@pytest.fixture
def vllm(monkeypatch) -> serving.Vllm:
    stand_in = serving.Vllm()
    for name, module in stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in (*VARIABLES, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return stand_in


def test_a_shard_is_as_the_own_sampler_s(vllm, sample, made):
    shard, own = sample("vllm", backend="vllm"), sample("own")
    table, metadata = read_shard(shard)
    assert table.schema.equals(SCHEMA)
    assert metadata.policy == read_shard(own)[1].policy == load_policy(made / "policy").fingerprint
    keys = [(item.group, item.trajectory, item.task) for item in serving.trajectories(shard)]
    assert keys == [(item.group, item.trajectory, item.task) for item in serving.trajectories(own)]
    assert read_manifest(shard).facts["backend"] == "vllm"
    assert read_manifest(shard).facts["dtype"] == "float32"
    assert read_manifest(own).facts["backend"] == "progpo"
    model = load_policy(made / "policy").model
    assert serving.deviation(model, serving.trajectories(shard), 0.7) < 1e-4


def test_greedy_it_plays_as_the_own_sampler_does(vllm, sample, made):
    episodes = [Episode(group, 0, task) for group, task in enumerate(load_tasks(made / "tasks", "train"))]
    make = lambda: corridor.make(max_steps=4)  # noqa: E731
    backend = Vllm(made / "policy", load_reader(made / "policy"), 0, RolloutSettings(batch=4))
    found = play_with(backend, episodes, make, batch=4, seed=0, iteration=1)
    own = play(load_policy(made / "policy"), episodes, make, temperature=0, batch=4, seed=0, iteration=1)
    assert [step.response_tokens for item in found for step in item.steps] == [
        step.response_tokens for item in own for step in item.steps
    ]
    assert all(asked.seed is None for _, _, asked in vllm.asked)


def test_each_turn_has_a_seed_of_its_own(vllm, sample):
    shard = sample("shard", backend="vllm")
    wanted = {
        f"{item.group}-{item.trajectory}-{step}": Turn((5, 1, item.group, item.trajectory), step, []).seed
        for item in serving.trajectories(shard)
        for step in range(len(item.steps))
    }
    assert {name: asked.seed for name, _, asked in vllm.asked} == wanted
    assert len(set(wanted.values())) == len(wanted)
    assert Turn((5, 2, 0, 0), 0, []).seed not in wanted.values()
    assert all(0 <= seed < 2**63 for seed in wanted.values())


def test_prompts_are_the_tokens_of_the_conversation(vllm, sample):
    shard = sample("shard", backend="vllm")
    asked = {name: prompt for name, prompt, _ in vllm.asked}
    names = [
        f"{item.group}-{item.trajectory}-{step}"
        for item in serving.trajectories(shard)
        for step in range(len(item.steps))
    ]
    assert [asked[name] for name in names] == serving.prompts(serving.trajectories(shard))


def test_a_second_run_and_other_shards_draw_the_same(vllm, sample):
    first, second = sample("first", backend="vllm"), sample("second", backend="vllm")
    assert first.read_bytes() == second.read_bytes()
    parts = [sample(f"part-{number}", number, backend="vllm", shards=3) for number in range(3)]
    assert serving.tokens(*parts) == serving.tokens(first)
    saved = sample("saved", backend="vllm", save_groups=1)
    assert serving.tokens(saved) == serving.tokens(first)
    # Each part of a shard starts with an empty prefix cache: a resumed one cannot differ.
    assert len(vllm.resets) == 1 + 1 + 3 + 3


def test_settings_reach_the_engine(vllm, sample):
    sample("shard", backend="vllm", threads=1, precision="bfloat16", vllm={"cache_gib": 0.5, "eager": True})
    (given,) = vllm.loaded
    assert (given["dtype"], given["kv_cache_memory_bytes"], given["enforce_eager"]) == ("bfloat16", 2**29, True)
    assert (given["max_num_seqs"], given["max_model_len"]) == (4, 512)
    assert given["enable_prefix_caching"]


def test_the_cache_holds_the_longest_conversations():
    # Keys and values of the default policy: 4 layers, 1 head of 32; 2,048 tokens are 64 blocks, and one more.
    assert cache_bytes((4, 1, 32), 2048, 64, 4) == 2 * 4 * 32 * (65 * 32) * 64 * 4


def test_without_vllm_nothing_is_written(sample, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ProgpoError, match=r"not installed.*docs/vllm\.md.*backend: progpo"):
        sample("shard", backend="vllm", save_groups=1)
    assert list(tmp_path.iterdir()) == []


def test_heads_that_it_has_no_attention_for_are_refused(vllm, sample, tmp_path):
    vllm.head_sizes = (32, 64)
    with pytest.raises(ProgpoError, match=r"heads of size 16 \(it has: 32, 64\).*policy\.hidden_size"):
        sample("shard", backend="vllm")
    assert vllm.loaded == []
    assert list(tmp_path.iterdir()) == []


def test_what_it_cannot_load_is_told_in_one_line(vllm, sample, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("no room for the cache\nand much more")

    monkeypatch.setattr(sys.modules["vllm"], "LLM", refuse)
    with pytest.raises(
        ProgpoError, match=r"vLLM cannot hold this policy: no room for the cache\nremedy: smaller `batch`"
    ):
        sample("shard", backend="vllm")
    assert list(tmp_path.iterdir()) == []


def test_a_response_that_it_gave_up_ends_the_stage(vllm, sample, tmp_path):
    vllm.finish = "abort"
    with pytest.raises(ProgpoError, match=r"gave up a response \(abort\)"):
        sample("shard", backend="vllm")
    assert not (tmp_path / "shard.parquet").exists()


def test_a_policy_that_diverged_ends_the_stage(vllm, sample, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "respond", lambda *_: ([0], [float("nan")], [[0.0, 0.0]]))
    with pytest.raises(ProgpoError, match="not finite"):
        sample("shard", backend="vllm")
    assert not (tmp_path / "shard.parquet").exists()


def test_reading_a_policy_for_others_imports_no_torch(made):
    code = (
        "import sys; from pathlib import Path; from progpo.policy.checkpoint import load_reader;"
        "import progpo.stages.rollout, progpo.policy.play, progpo.policy.backends.endpoint;"
        f"load_reader(Path({str(made / 'policy')!r}));"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
