"""What reruns, and what does not."""

import json

import pytest

from progpo.artifacts import manifest_path
from tests.pipeline.running import Run

pytestmark = pytest.mark.slow


def test_nothing_to_do_under_another_hash_seed(copy: Run) -> None:
    assert copy.planned(PYTHONHASHSEED="1") == {}
    assert copy.planned(PYTHONHASHSEED="2") == {}


def test_evaluation_temperature_reruns_evaluation_and_report(copy: Run) -> None:
    copy.configure({"evaluation": {"temperature": 0.7}})
    assert copy.planned() == {"evaluate": 3, "report": 1}


def test_progress_weight_reruns_its_arm_from_the_first_advantages(copy: Run) -> None:
    arms = {"progpo": {"base": "gigpo", "progress": {"weight": 0.2}, "invalid_penalty": 0.1}}
    copy.configure({"arms": arms})
    # Two iterations of one arm; its second rollouts, of two shards; the first ones are shared and stay.
    assert copy.planned() == {"advantages": 2, "update": 2, "rollout": 2, "evaluate": 1, "report": 1}


def test_new_arm_reuses_first_rollouts(copy: Run) -> None:
    copy.configure({"arms": {"rloo": {"base": "rloo"}}})
    assert copy.planned() == {"advantages": 2, "update": 2, "rollout": 2, "evaluate": 1, "report": 1}


def test_more_iterations_extend_the_run(copy: Run) -> None:
    copy.configure({"iterations": 3})
    assert copy.planned() == {"rollout": 4, "advantages": 2, "update": 2, "evaluate": 2, "report": 1}


def test_warmup_setting_reruns_all_that_follows_it(copy: Run) -> None:
    copy.configure({"warmup": {"learning_rate": 1e-3}})
    assert copy.planned() == {"warmup": 1, "rollout": 6, "advantages": 4, "update": 4, "evaluate": 3, "report": 1}


def test_one_stage_alone(copy: Run) -> None:
    target = "artifacts/tiny/seed-0/grpo/iteration-001/advantages.parquet"
    before = copy.contents()
    result = copy("--force", "--", target)
    assert result.returncode == 0, result.stdout
    assert copy.contents() == before


def test_results_are_printed_and_written(complete: Run, copy: Run) -> None:
    (copy.artifacts / "report" / "results.md").unlink()
    result = copy()
    assert result.returncode == 0, result.stdout
    assert "Success % on valid_unseen" in result.stdout
    assert (copy.artifacts / "report" / "results.txt").read_text() in result.stdout
    assert copy.contents() == complete.contents()


def test_arms_share_their_first_rollouts(complete: Run) -> None:
    for arm in ("grpo", "progpo"):
        manifest = json.loads(
            manifest_path(complete.artifacts / f"seed-0/{arm}/iteration-001/advantages.parquet").read_text()
        )
        assert any("shared/iteration-001/shard-00" in name for name in manifest["inputs"])
