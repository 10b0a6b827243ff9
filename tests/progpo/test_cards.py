"""Cards, read as a hub reads them."""

import json
import re
from pathlib import Path

import pytest
import yaml

from progpo import artifacts
from progpo.cards import CARD, write_card
from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy, load_policy, save_files
from progpo.trajectories.records import Step, Trajectory
from progpo.trajectories.schema import Metadata
from progpo.trajectories.write import write_shard


def parts(card: Path) -> tuple[dict, str]:
    """Return a card's head and its text."""
    _, head, text = card.read_text().split("---\n", 2)
    return yaml.safe_load(head), text


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Four trajectories of two tasks, one of which succeeded; of their eight steps two are invalid."""
    folder = tmp_path / "seed-0" / "progpo" / "iteration-002"
    settings = {"environment": {"name": "corridor"}}
    for shard in range(2):
        steps = [Step("a", "b", "go", number > 0 or shard == 0, 0.0, False, number == 1) for number in range(2)]
        made = [
            Trajectory(shard, number, f"game-{shard}", "walk", score=float(shard == number == 0), steps=steps)
            for number in range(2)
        ]
        metadata = Metadata("rollout", policy="abcd", settings=settings, shard=shard, shards=2, iteration=2)
        write_shard(folder / f"shard-0{shard}.parquet", made, metadata)
    return folder


def test_a_dataset_card_says_what_there_is(shards: Path) -> None:
    head, text = parts(write_card(shards))
    assert head["configs"] == [{"config_name": "trajectories", "data_files": "shard-*.parquet", "default": True}]
    assert head["size_categories"] == ["n<1K"]
    assert "corridor" in head["tags"]
    assert "# Trajectories: progpo, seed 0, iteration 2" in text
    assert "| all | 2 | 4 | 8 | 25.0 | 75.0 |" in text
    assert "| `walk` | 2 | 4 | 8 | 25.0 | 75.0 |" in text
    assert "policy abcd" in text
    assert len(re.findall(r"^\| `\w+` \| `", text, re.MULTILINE)) == 22


def test_a_dataset_card_s_code_runs_where_it_lies(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    monkeypatch.chdir(shards)
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", write_card(shards).read_text(), re.DOTALL)[1], names)
    assert names["success"].rows() == [("walk", 0.25)]


@pytest.fixture
def policy(tmp_path: Path, scratch: Policy) -> Path:
    """A policy as the update leaves it, and its evaluation."""
    home = tmp_path / "seed-0" / "progpo" / "iteration-002"
    folder = home / "policy"
    with artifacts.atomic_folder(folder) as place:
        save_files(scratch, place)
        facts = {"seed": 0, "iteration": 2, "fingerprint": scratch.fingerprint}
        artifacts.write_manifest(place, "update", {"clip": 0.2}, list(place.iterdir()), facts=facts, at=folder)
    figures = {"episodes": 4, "successes": 1, "success": 0.25, "low": 0.05, "high": 0.7, "steps": 3.0}
    summary = home / "evaluation" / "summary.json"
    splits = {"valid": {**figures, "types": {"walk": figures}}}
    found = {"policy": scratch.fingerprint, "temperature": 0.4, "confidence": 0.95, "splits": splits}
    artifacts.write_json(summary, found)
    settings = {"environment": {"name": "corridor"}}
    artifacts.write_manifest(summary.with_name("trajectories.parquet"), "evaluate", settings, [summary])
    return folder


def test_a_model_card_says_what_it_was_trained_for_and_how_good_it_is(policy: Path) -> None:
    head, text = parts(write_card(policy))
    assert head["library_name"] == "transformers"
    (result,) = head["model-index"][0]["results"]
    assert result["dataset"]["name"] == "corridor, valid"
    assert result["metrics"][0]["value"] == 25.0
    assert "| valid | all | 4 | 25.0 [5.0, 70.0] |" in text
    assert "trained by reinforcement learning" in text
    assert '"clip": 0.2' in text
    load_policy(policy, strict=True)


def test_a_model_card_s_code_loads_the_policy(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(.*?)```", write_card(policy).read_text(), re.DOTALL)[1]
    monkeypatch.chdir(policy)
    names: dict = {}
    exec(code, names)
    assert names["model"].config.vocab_size == len(names["tokenizer"])


def test_results_of_another_policy_are_not_told(policy: Path) -> None:
    summary = policy.parent / "evaluation" / "summary.json"
    artifacts.manifest_path(summary.with_name("trajectories.parquet")).unlink()
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "policy": "another"}))
    head, text = parts(write_card(policy))
    assert "model-index" not in head
    assert "It was not evaluated." in text


def test_our_card_is_written_anew_and_no_other(shards: Path) -> None:
    first = write_card(shards).read_text()
    assert write_card(shards).read_text() == first
    (shards / CARD).write_text("mine")
    with pytest.raises(ProgpoError, match="written by someone else"):
        write_card(shards)
    assert (shards / CARD).read_text() == "mine"


def test_a_folder_of_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProgpoError, match="holds no trajectories"):
        write_card(tmp_path)
