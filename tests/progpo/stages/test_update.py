"""The stage `update`: what belongs together, what is refused, and that a chain of updates can be cut anywhere."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import corridor
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load_file

from envs import Task
from progpo.artifacts import check, damage, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import create_scratch, fingerprint, load_policy, save_files
from progpo.policy.play import Episode, play
from progpo.settings.advantages import AdvantageSettings
from progpo.settings.stages import PolicySettings, UpdateSettings
from progpo.settings.training import LoraSettings
from progpo.stages import advantages, update
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard

SETTINGS = UpdateSettings(learning_rate=1e-3, minibatches=2, kl=0.05, batch_tokens=400)
#: An untrained policy wins nothing and goes nowhere: what is left to learn from is the penalty.
ARM = AdvantageSettings(base="gigpo", invalid_penalty=0.1)
TEMPERATURE = 0.9


@dataclass
class Iteration:
    """What an update reads."""

    policy: Path
    shards: list[Path]
    advantages: Path


def roll_out(policy_folder: Path, tasks: list[Task], folder: Path, iteration: int, arm: Any = ARM) -> Iteration:
    """Sample two shards with a policy, and estimate advantages."""
    policy = load_policy(policy_folder)
    shards = []
    for shard in range(2):
        episodes = [Episode(group, number, tasks[group]) for group in (2 * shard, 2 * shard + 1) for number in range(3)]
        found = play(
            policy,
            episodes,
            lambda: corridor.make(max_steps=6),
            temperature=TEMPERATURE,
            batch=6,
            seed=4,
            iteration=iteration,
        )
        path = folder / f"shard-{shard:02d}.parquet"
        metadata = Metadata(
            kind="rollout",
            policy=policy.fingerprint,
            tokenizer=policy.tokenizer_fingerprint,
            seed=4,
            iteration=iteration,
            shard=shard,
            shards=2,
            layout="append",
            choices=policy.settings.choices,
            temperature=TEMPERATURE,
        )
        write_shard(path, found, metadata)
        write_manifest(path, "rollout", {}, files=[path], inputs=[policy_folder])
        shards.append(path)
    output = folder / "advantages.parquet"
    advantages.run(arm, shards, output, folder / "advantages.json", strict=True)
    return Iteration(policy_folder, shards, output)


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory, tasks: list[Task]) -> Path:
    """A policy as a warm-up leaves it."""
    folder = tmp_path_factory.mktemp("warm") / "policy"
    folder.mkdir()
    sizes = {"hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64}
    policy = create_scratch(PolicySettings(max_context_tokens=512, **sizes), corridor.texts(tasks), seed=3)
    save_files(policy, folder)
    write_manifest(folder, "warmup", {}, files=[file for file in folder.iterdir() if file.is_file()])
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, warm: Path, tasks: list[Task]) -> Iteration:
    return roll_out(warm, tasks, tmp_path_factory.mktemp("first"), 1)


def run(item: Iteration, warm: Path | None, folder: Path, iteration: int = 1, **changes: Any) -> dict[str, Any]:
    """Update strictly, with some arguments changed; return the metrics."""
    arguments: dict[str, Any] = {
        "settings": SETTINGS,
        "policy": item.policy,
        "reference": warm,
        "shards": item.shards,
        "advantages": item.advantages,
        "seed": 4,
        "iteration": iteration,
        "output": folder / "policy" / "manifest.json",
        "metrics": folder / "update.json",
        "strict": True,
    }
    update.run(**{**arguments, **changes})
    return json.loads((folder / "update.json").read_text())


def contents(policy: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in policy.iterdir() if file.name != "manifest.json"}


def test_update_makes_a_policy_and_metrics(first: Iteration, warm: Path, tmp_path: Path) -> None:
    metrics = run(first, warm, tmp_path)
    manifest = check(tmp_path / "policy")
    policy = load_policy(tmp_path / "policy")
    assert manifest.facts["fingerprint"] == policy.fingerprint != fingerprint(warm)
    assert manifest.facts["tokenizer_fingerprint"] == policy.tokenizer_fingerprint
    assert (manifest.facts["layout"], manifest.facts["iteration"]) == ("append", 1)
    assert len(manifest.inputs) == 4  # the policy, which is the reference too, two shards, the advantages
    assert "../update.json" in manifest.files
    assert metrics["logprob_difference"] < 1e-4
    assert metrics["trajectories"] == 12
    assert metrics["temperature"] == TEMPERATURE
    assert metrics["optimizer_steps"] == 2
    assert metrics["kl"] >= 0
    assert metrics["signal"] is True


@pytest.mark.parametrize(("old_logprobs", "no_repeat"), [("rollout", False), ("rollout", True), ("recompute", True)])
def test_a_constrained_policy_learns_from_what_it_could_say(
    warm: Path, tasks: list[Task], tmp_path: Path, old_logprobs: str, no_repeat: bool
) -> None:
    policy = load_policy(warm)
    (tmp_path / "given").mkdir()
    constrained = policy.settings.model_copy(update={"constrained": True, "no_repeat": no_repeat})
    save_files(replace(policy, settings=constrained), tmp_path / "given")
    write_manifest(tmp_path / "given", "warmup", {}, files=list((tmp_path / "given").iterdir()))
    item = roll_out(
        tmp_path / "given", tasks, tmp_path / "rolled", 1, AdvantageSettings(base="gigpo", normalise="mean")
    )
    settings = SETTINGS.model_copy(update={"old_logprobs": old_logprobs})
    metrics = run(item, tmp_path / "given", tmp_path, settings=settings)
    assert metrics["signal"] is True
    assert metrics["logprob_difference"] < 1e-4
    other = policy.settings.model_copy(update={"constrained": no_repeat})
    save_files(replace(policy, settings=other), tmp_path / "given")
    files = [file for file in (tmp_path / "given").iterdir() if file.name != "manifest.json"]
    write_manifest(tmp_path / "given", "warmup", {}, files=files)
    among = "the admissible actions" if no_repeat else "all texts"
    with pytest.raises(ProgpoError, match=rf"the (untried|admissible) actions .* chooses among {among}; roll out anew"):
        run(item, tmp_path / "given", tmp_path / "other", settings=settings)
    # Among a handful of actions there is little to be uncertain about, of a vocabulary of a hundred tokens.
    assert 0 < metrics["entropy"] < 1


def test_what_was_sampled_from_all_texts_is_no_constrained_policy_s(
    first: Iteration, warm: Path, tmp_path: Path
) -> None:
    policy = load_policy(warm)
    constrained = policy.settings.model_copy(update={"constrained": True})
    (tmp_path / "given").mkdir()
    save_files(replace(policy, settings=constrained), tmp_path / "given")
    write_manifest(tmp_path / "given", "warmup", {}, files=list((tmp_path / "given").iterdir()))
    with pytest.raises(
        ProgpoError, match=r"sampled from all texts .* chooses among the admissible actions; roll out anew"
    ):
        run(first, warm, tmp_path / "other", policy=tmp_path / "given")


def test_alarms_are_written_and_printed(
    first: Iteration, warm: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    before = tmp_path / "first" / "update.json"
    write_json(before, {"entropy": 1e3})
    policy = before.parent / "policy"
    policy.mkdir()
    write_manifest(policy, "update", {}, [before])
    metrics = run(first, warm, tmp_path, first=before)
    assert [alarm["alarm"] for alarm in metrics["alarms"]] == ["entropy"]
    assert capsys.readouterr().err.count("update: ALARM: the entropy collapsed, from 1e+03 to") == 1
    assert run(first, warm, tmp_path)["alarms"] == []


def test_order_of_shards_leaves_no_trace(first: Iteration, warm: Path, tmp_path: Path) -> None:
    run(first, warm, tmp_path / "one")
    run(first, warm, tmp_path / "other", shards=first.shards[::-1])
    assert contents(tmp_path / "one" / "policy") == contents(tmp_path / "other" / "policy")


CHILD = """
    import sys
    from pathlib import Path

    from progpo.settings import load_json
    from progpo.settings.stages import UpdateSettings
    from progpo.stages.update import run

    settings, policy, reference, advantages, iteration, folder, *shards = sys.argv[1:]
    shards = [Path(shard) for shard in shards]
    run(load_json(UpdateSettings, settings), Path(policy), Path(reference), shards, Path(advantages), 4, int(iteration),
        Path(folder) / "policy", Path(folder) / "update.json", strict=True)
"""


def in_a_new_process(item: Iteration, reference: Path, folder: Path, iteration: int) -> None:
    places = [item.policy, reference, item.advantages, str(iteration), folder, *item.shards]
    command = [sys.executable, "-c", textwrap.dedent(CHILD), SETTINGS.model_dump_json(), *map(str, places)]
    root = Path(corridor.__file__).parents[1]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True)


def test_chain_of_updates_may_be_cut_by_a_restart(
    first: Iteration, warm: Path, tasks: list[Task], tmp_path: Path
) -> None:
    """Three updates in one process; then the last two again in processes of their own."""
    run(first, warm, tmp_path / "1")
    steps = {}
    for iteration in (2, 3):
        before = tmp_path / str(iteration - 1) / "policy"
        (tmp_path / str(iteration)).mkdir()
        steps[iteration] = roll_out(before, tasks, tmp_path / str(iteration), iteration)
        metrics = run(steps[iteration], warm, tmp_path / str(iteration), iteration)
        assert metrics["total_optimizer_steps"] == 2 * iteration
    for iteration in (2, 3):
        folder = tmp_path / f"again-{iteration}"
        in_a_new_process(steps[iteration], warm, folder, iteration)
        assert contents(folder / "policy") == contents(tmp_path / str(iteration) / "policy")
    # The moments matter: without them the next policy is another one.
    bare = tmp_path / "bare"
    shutil.copytree(steps[2].policy, bare)
    for name in ("optimizer.safetensors", "training.json"):
        (bare / name).unlink()
    write_manifest(bare, "update", {}, files=[file for file in bare.iterdir() if file.name != "manifest.json"])
    run(Iteration(bare, steps[2].shards, steps[2].advantages), warm, tmp_path / "fresh", 2)
    assert fingerprint(tmp_path / "fresh" / "policy") != fingerprint(tmp_path / "2" / "policy")


def test_without_any_signal_the_policy_is_copied_and_the_update_counts(
    warm: Path, first: Iteration, tasks: list[Task], tmp_path: Path
) -> None:
    run(first, warm, tmp_path / "1")
    (tmp_path / "2").mkdir()
    second = roll_out(tmp_path / "1" / "policy", tasks, tmp_path / "2", 2, AdvantageSettings(base="rloo"))
    table = pq.read_table(second.advantages)
    zero = table.set_column(table.column_names.index("advantage"), "advantage", [[0.0] * table.num_rows])
    pq.write_table(zero.cast(table.schema), second.advantages)
    write_manifest(second.advantages, "advantages", {}, files=[second.advantages], inputs=second.shards)
    metrics = run(second, None, tmp_path / "2", 2, settings=SETTINGS.model_copy(update={"kl": 0.0}))
    assert metrics["signal"] is False
    assert metrics["optimizer_steps"] == 0
    assert metrics["zero_advantage_share"] == 1
    assert metrics["loss"] is None
    before, after = contents(tmp_path / "1" / "policy"), contents(tmp_path / "2" / "policy")
    assert json.loads(before.pop("training.json"))["updates"] == 1
    assert json.loads(after.pop("training.json"))["updates"] == 2
    assert before == after
    assert fingerprint(tmp_path / "2" / "policy") == fingerprint(second.policy)
    assert damage(tmp_path / "2" / "policy") == []


def other_policy(item: Iteration, warm: Path, folder: Path) -> dict[str, Any]:
    run(item, warm, folder / "next")
    return {"policy": folder / "next" / "policy"}


def other_shards(item: Iteration, warm: Path, folder: Path) -> dict[str, Any]:
    """The same shards under another manifest, as after a rerun of the rollout with other settings."""
    copies = []
    for shard in item.shards:
        copy = folder / shard.name
        shutil.copyfile(shard, copy)
        write_manifest(copy, "rollout", {"rerun": True}, files=[copy])
        copies.append(copy)
    return {"shards": copies}


def damaged_shard(item: Iteration, warm: Path, folder: Path) -> dict[str, Any]:
    changes = other_shards(item, warm, folder)
    with changes["shards"][0].open("r+b") as file:
        file.truncate(1000)
    return changes


def advantages_of_one_shard(item: Iteration, warm: Path, folder: Path) -> dict[str, Any]:
    """Made from both shards, but its manifest tells of one alone."""
    copy = folder / "advantages.parquet"
    shutil.copyfile(item.advantages, copy)
    write_manifest(copy, "advantages", {}, files=[copy], inputs=item.shards[:1])
    return {"advantages": copy}


def missing_row(item: Iteration, warm: Path, folder: Path) -> dict[str, Any]:
    copy = folder / "advantages.parquet"
    table = pq.read_table(item.advantages)
    pq.write_table(table.slice(0, table.num_rows - 1), copy)
    write_manifest(copy, "advantages", {}, files=[copy], inputs=item.shards)
    return {"advantages": copy}


def broken_state(item: Iteration, warm: Path, folder: Path) -> dict[str, Any]:
    copy = folder / "policy"
    shutil.copytree(warm, copy)
    (copy / "training.json").write_text('{"optimizer_steps": 2}')
    files = [file for file in copy.iterdir() if file.name != "manifest.json"]
    write_manifest(copy, "update", {}, files=files)
    return {"policy": copy, "output": folder / "new" / "policy"}


REFUSALS: list[tuple[Callable[[Iteration, Path, Path], dict[str, Any]], str]] = [
    (other_policy, "sampled by the policy with fingerprint"),
    (other_shards, "not made from .*shard-00.parquet as it is now"),
    (damaged_shard, "changed since `progpo rollout` wrote it"),
    (advantages_of_one_shard, "not made from .*shard-01.parquet"),
    (missing_row, "no advantage for it"),
    (broken_state, r"optimizer\.safetensors: missing or damaged"),
    (lambda item, warm, folder: {"shards": item.shards[:1]}, "missing: 1"),
    (lambda item, warm, folder: {"reference": None}, "no reference policy is given"),
    (lambda item, warm, folder: {"iteration": 2}, "of iteration 1, not 2"),
    (lambda item, warm, folder: {"policy": folder / "nowhere"}, "no such policy folder"),
]


@pytest.mark.parametrize(("change", "message"), REFUSALS)
def test_what_does_not_belong_together_is_refused(
    first: Iteration, warm: Path, tmp_path: Path, change: Callable[..., dict[str, Any]], message: str
) -> None:
    changes = change(first, warm, tmp_path)
    folder = tmp_path / "refused"
    with pytest.raises(ProgpoError, match=message):
        run(first, warm, folder, **changes)
    assert not folder.exists() or not list(folder.iterdir())


def test_adapters_are_merged_for_the_rollouts_and_go_on(
    first: Iteration, warm: Path, tasks: list[Task], tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    lora = SETTINGS.model_copy(update={"lora": LoraSettings(rank=4, alpha=8)})
    one = run(first, warm, tmp_path / "1", settings=lora)
    policy = tmp_path / "1" / "policy"
    # KL is to the same model without its adapters, which are nothing yet in the first pass.
    assert one["logprob_difference"] < 1e-4
    manifest = check(policy)
    assert manifest.facts["fingerprint"] == fingerprint(policy) != fingerprint(warm)
    assert "adapter/adapter_model.safetensors" in manifest.files
    moments = load_file(policy / "optimizer.safetensors")
    assert moments
    assert all(".lora_" in name for name in moments)
    # The merged checkpoint samples; the adapters on the warm-up's policy compute the same.
    second = roll_out(policy, tasks, tmp_path / "2", 2)
    two = run(second, warm, tmp_path / "2", iteration=2, settings=lora)
    assert two["logprob_difference"] < 1e-4
    assert two["total_optimizer_steps"] == 4
    assert two["kl"] > 0
    assert fingerprint(tmp_path / "2" / "policy") != fingerprint(policy)

    with pytest.raises(ProgpoError, match="was trained by adapters"):
        run(second, warm, tmp_path / "3", iteration=2)
    with pytest.raises(ProgpoError, match="give as --reference the policy that the first update started from"):
        run(second, policy, tmp_path / "3", iteration=2, settings=lora)
    whole = run(first, warm, tmp_path / "4")
    assert whole["optimizer_steps"]
    third = roll_out(tmp_path / "4" / "policy", tasks, tmp_path / "4", 2)
    with pytest.raises(ProgpoError, match="all its weights were trained"):
        run(third, warm, tmp_path / "3", iteration=2, settings=lora)
    assert not (tmp_path / "3" / "policy").exists()
