"""The stage `correct`: policy and expert take turns, and the warm-up goes on from there."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import corridor
import numpy as np
import pytest
import torch

from envs import Task
from progpo.artifacts import check, read_manifest
from progpo.errors import ProgpoError
from progpo.policy.backends.base import Answer
from progpo.policy.backends.own import OwnSampler
from progpo.policy.checkpoint import Policy, load_policy
from progpo.policy.lessons import Lessons
from progpo.policy.play import Episode, play_with
from progpo.policy.rendering import make_renderer
from progpo.policy.tutor import Tutor
from progpo.settings.base import validate
from progpo.settings.experiment import CorrectStage, WarmupStage
from progpo.stages import correct, warmup
from progpo.trajectories.read import read_shard, to_trajectories
from progpo.trajectories.records import Trajectory

CORRECTIONS = {"tasks": 5, "share": 0.5, "switch": 0.5, "batch": 3}
WARMUP = {"tokens": 2000, "batch_tokens": 300, "warmup_steps": 2, "precision": "float32"}


def run(made: Path, folder: Path, seed: int = 4, number: int = 1, **changes) -> Path:
    data = {"environment": {"name": "corridor"}, "corrections": {**CORRECTIONS, **changes}}
    settings, output = validate(CorrectStage, data, "test"), folder / "corrections.parquet"
    arguments = (made / "tasks", made / "policy", seed, number, output, folder / "corrections.json")
    correct.run(settings, *arguments, strict=True)
    return output


@pytest.fixture(scope="module")
def corrections(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(made, tmp_path_factory.mktemp("corrections"))


def read(path: Path) -> list[Trajectory]:
    return to_trajectories(read_shard(path, strict=True)[0])


def test_a_round_is_made_of_demonstrations(corrections: Path, made: Path) -> None:
    _, metadata = read_shard(corrections, strict=True)
    assert metadata.kind == "demonstration"
    assert metadata.policy == load_policy(made / "policy").fingerprint
    manifest = check(corrections)
    assert (manifest.stage, manifest.facts["round"]) == ("correct", 1)
    found = json.loads(corrections.with_suffix(".json").read_text())
    episodes = read(corrections)
    assert found["kept"] == len(episodes) <= found["episodes"] == 5
    assert {episode.trajectory for episode in episodes} == {1}
    steps = [step for episode in episodes for step in episode.steps]
    # An untrained policy hardly ever says what the expert wants.
    assert any(step.imitate for step in steps)
    assert not all(step.imitate for step in steps)
    assert found["agreement"] < 0.5
    assert all(step.valid for step in steps if step.imitate)


@pytest.mark.parametrize("layout", ["append", "window"])
def test_the_policy_reads_what_was_executed_in_its_place(
    scratch: Policy, tasks: list[Task], layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prompts hold the expert's responses; and greedy, it says what a pass over a whole prompt says."""
    policy = replace(scratch, settings=scratch.settings.model_copy(update={"layout": layout}))
    renderer = make_renderer(policy)
    answered: list[tuple[int, list[int], list[int]]] = []
    answers = OwnSampler.answers

    def noted(self: OwnSampler) -> list[Answer]:
        found = answers(self)
        answered.extend((item.turn.key[2], list(item.turn.prompt), item.tokens) for item in found)
        return found

    monkeypatch.setattr(OwnSampler, "answers", noted)

    def tutor(episode: Episode) -> Tutor:
        rng = np.random.default_rng(episode.group)
        return Tutor(corridor.CorridorExpert(rng), rng, 0.5, 0.5)

    with OwnSampler(policy, 0) as backend:
        episodes = [Episode(group, 0, task) for group, task in enumerate(tasks)]
        played = play_with(backend, episodes, corridor.make, batch=3, seed=0, iteration=0, tutor=tutor)
    for _, prompt, tokens in answered:
        with torch.no_grad():
            logits = policy.model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        assert (logits.max(-1).values - logits.gather(-1, torch.tensor(tokens)[:, None])[:, 0]).max() < 1e-4
    replaced = 0
    for episode in played:
        prompts = [prompt for group, prompt, _ in answered if group == episode.group]
        assert len(prompts) == len(episode.steps)
        for step, before, after in zip(episode.steps, prompts, prompts[1:], strict=False):
            if step.imitate:
                response = renderer.response(step.action)
                place = len(before)
                if layout == "window":
                    place = next(i for i in range(len(after), -1, -1) if after[i : i + len(response)] == response)
                assert after[place : place + len(response)] == response
                replaced += 1
    assert replaced


def test_same_seed_same_bits_other_rounds_other_tasks(made: Path, corrections: Path, tmp_path: Path) -> None:
    again = run(made, tmp_path / "again", batch=1)
    assert [[step.action for step in item.steps] for item in read(again)] == [
        [step.action for step in item.steps] for item in read(corrections)
    ]
    second = run(made, tmp_path / "second", number=2)
    assert {item.trajectory for item in read(second)} == {2}
    assert [item.steps for item in read(second)] != [item.steps for item in read(corrections)]


def test_the_warm_up_goes_on_from_a_policy(made: Path, corrections: Path, tmp_path: Path) -> None:
    settings = WarmupStage.model_validate({"environment": "corridor", "warmup": WARMUP})
    output, metrics = tmp_path / "policy", tmp_path / "metrics.json"
    warmup.run(settings, [corrections], 1, output, metrics, strict=True, given=made / "policy")
    before, after = load_policy(made / "policy"), load_policy(output)
    # Its own settings hold, not the defaults of the `policy` section.
    assert after.settings == before.settings
    assert after.tokenizer_fingerprint == before.tokenizer_fingerprint
    assert after.fingerprint != before.fingerprint
    inputs = read_manifest(output).inputs
    assert any(name.endswith("policy/manifest.json") for name in inputs)
    assert any(name.endswith("corrections.parquet.manifest.json") for name in inputs)
    curve = json.loads(metrics.read_text())["curve"]
    assert curve[-1]["action_loss"] < curve[0]["action_loss"]


def test_what_was_not_wanted_is_not_learned(made: Path, corrections: Path) -> None:
    policy = load_policy(made / "policy")
    shown = read(corrections)
    lessons = Lessons(shown, make_renderer(policy), None, False, 0)
    renderer = make_renderer(policy)
    wanted = sum(len(renderer.response(step.action)) for item in shown for step in item.steps if step.imitate)
    learned = sum(len(lesson.positions) for _, (_, lesson) in zip(range(lessons.count), lessons.stream(), strict=False))
    assert learned == wanted


def test_refused(made: Path, corrections: Path, tmp_path: Path) -> None:
    adapters = WarmupStage.model_construct(
        environment="corridor",
        policy=WarmupStage().policy,
        warmup=WarmupStage.model_validate({"environment": "corridor", "warmup": WARMUP}).warmup.model_copy(
            update={"lora": {"rank": 2}}
        ),
    )
    with pytest.raises(ProgpoError, match=r"warmup\.lora: not for a policy that is gone on from"):
        warmup.run(adapters, [corrections], 1, tmp_path / "p", tmp_path / "m", given=made / "policy")
    recalled = {"environment": "corridor", "warmup": {**WARMUP, "recall": {"told_tokens": 0}}}
    with pytest.raises(
        ProgpoError, match=r"warmup\.recall: for a policy from scratch, not for one that is gone on from"
    ):
        warmup.run(
            WarmupStage.model_validate(recalled),
            [corrections],
            1,
            tmp_path / "p",
            tmp_path / "m",
            given=made / "policy",
        )
    with pytest.raises(ProgpoError, match=r"the expert came to play in none of 1 episodes; lower `share`"):
        run(made, tmp_path, tasks=1, share=0.999999, switch=1e-9)
    assert not list(tmp_path.iterdir())
    other = tmp_path / "made"
    shutil.copytree(made, other)
    (other / "policy/model.safetensors").write_bytes(b"")
    with pytest.raises(ProgpoError, match=r"model\.safetensors"):
        run(other, tmp_path / "out")
