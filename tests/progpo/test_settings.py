"""Settings: what is refused, in which words, and what a stage is given."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

import envs
from progpo.errors import ProgpoError
from progpo.settings import load_json
from progpo.settings.advantages import AdvantageSettings
from progpo.settings.experiment import (
    EvaluateStage,
    RolloutStage,
    TasksStage,
    WarmupStage,
    load_experiment,
    validated_iterations,
)
from progpo.settings.stages import UpdateSettings

ROOT = Path(__file__).parents[2]
MINIMAL = {"experiment": "x", "arms": {"grpo": {"base": "grpo"}}}
STAGES = (
    *("tasks", "demonstrate", "warmup", "rollout", "update", "validate", "evaluate"),
    *("report", "compare", "export", "keep"),
)


def test_corrections_search_as_the_clean_demonstration() -> None:
    for search, told in (("varied", "best"), ("plain", "plain")):
        config = {**MINIMAL, "corrections": {}, "demonstrations": {"search": search}}
        assert json.loads(load_experiment(config).stage("correct"))["search"] == told


@pytest.mark.parametrize("config", sorted(ROOT.glob("config/*.yaml")), ids=lambda path: path.name)
def test_shipped_configs_are_valid(config: Path) -> None:
    experiment = load_experiment(config)
    assert experiment.arms


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rollouts": {}}, ["rollouts", "unknown setting"]),
        ({"rollout": {"task": 3}}, ["rollout.task", "unknown setting"]),
        ({"rollout": {"tasks": 0}}, ["rollout.tasks", "greater than or equal to 1"]),
        ({"rollout": {"tasks": 2, "shards": 3}}, ["rollout", "shards"]),
        ({"rollout": {"temperature": "hot"}}, ["rollout.temperature", "'hot'"]),
        ({"rollout": {"temperature": 1e-9}}, ["rollout.temperature", "0.001"]),
        ({"rollout": {"temperature": 1e9}}, ["rollout.temperature", "100"]),
        ({"rollout": {"backend": "transformers"}}, ["rollout.backend", "'progpo', 'vllm' or 'endpoint'"]),
        ({"rollout": {"backend": "endpoint"}}, ["rollout", "endpoint", "urls"]),
        ({"evaluation": {"endpoint": {"urls": ["gpu01:8000"]}}}, ["evaluation.endpoint.urls", "http://gpu01:8000"]),
        ({"evaluation": {"endpoint": {"urls": ["http://a:80000"]}}}, ["evaluation.endpoint.urls", "'http://a:80000'"]),
        ({"evaluation": {"endpoint": {"urls": ["http://[::1"]}}}, ["evaluation.endpoint.urls", "'http://[::1'"]),
        ({"evaluation": {"temperature": 1e-9}}, ["evaluation", "temperature", "0.001", "greedy"]),
        ({"evaluation": {"temperature": 1e9}}, ["evaluation.temperature", "100"]),
        ({"evaluation": {"seeds": [3, 3]}}, ["evaluation", "seeds", "twice"]),
        (
            {"policy": {"constrained": True, "init": "pretrained", "path": "x"}},
            ["policy", "constrained", "use `response: plain`"],
        ),
        ({"policy": {"no_repeat": True}}, ["policy", "no_repeat", "set `constrained: true`"]),
        ({"policy": {"constrained": True}, "validation": {"backend": "vllm"}}, ["validation.backend", "only `progpo`"]),
        (
            {
                "policy": {"constrained": True},
                "environment": {"name": "webshop"},
                "evaluation": {"splits": ["validation"]},
            },
            ["policy.constrained", "webshop has actions that it cannot list"],
        ),
        ({"keep": {"policies": 0}}, ["keep.policies: all, best or a number of iterations from 1 on, not 0"]),
        ({"keep": {"optimizer": "best"}}, ["keep.optimizer: all or a number", "'best'"]),
        ({"keep": {"rollouts": -1}}, ["keep.rollouts", "from 0 on"]),
        ({"keep": {"rollouts": True}}, ["keep.rollouts", "True"]),
        ({"keep": {"policies": "best"}}, ["keep.policies", "set `validation.every`"]),
        (
            {
                "keep": {"policies": 3},
                "tasks": {"splits": {"train": 8, "validation": 4, "valid_seen": 4, "valid_unseen": 4}},
                "validation": {"every": 1},
                "evaluation": {"of": "best"},
            },
            ["keep.policies: the latest 3 need not hold the best", "keep `best`"],
        ),
        ({"evaluation": {"splits": ["train", "train"]}}, ["evaluation", "splits", "twice"]),
        ({"tasks": {"types": ["pick_and_place_simple"] * 2}}, ["tasks", "types", "twice"]),
        ({"arms": {"a": {"base": "hgpo", "alpha": 1e4}}}, ["arms.a.alpha", "10"]),
        ({"arms": {"a": {"base": "hgpo", "alpha": -1e4}}}, ["arms.a.alpha", "-10"]),
        ({"update": {"loss": "mean"}}, ["update.loss", "token_mean"]),
        ({"update": {"learning_rate": float("nan")}}, ["update.learning_rate"]),
        ({"update": {"learning_rate": 1e30}}, ["update.learning_rate", "less than or equal to 1"]),
        ({"environment": {"name": "chess"}}, ["environment", "chess", "alfworld"]),
        ({"environment": {"engine": "slow"}}, ["environment.engine", "textworld"]),
        ({"tasks": {"splits": {"valid_seen": 3}}}, ["tasks", "train"]),
        ({"tasks": {"source": "official", "difficulty": {"closed": 1.0}}}, ["tasks", "difficulty"]),
        ({"tasks": {"data": "somewhere"}}, ["tasks", "data", "official"]),
        ({"tasks": {"splits": {"train": 3}}}, ["evaluation.splits", "valid_seen"]),
        ({"environment": {"name": "webshop"}}, ["evaluation.splits", "valid_seen", "train, validation, test"]),
        ({"environment": {"name": "webshop", "mode": "html"}}, ["environment.mode", "text_rich"]),
        ({"environment": {"name": "webshop"}, "tasks": {"types": []}}, ["tasks.types", "unknown setting"]),
        ({"policy": {"init": "pretrained"}}, ["policy", "path"]),
        ({"warmup": {"tokens": 0}}, ["warmup.tokens", "pretrained"]),
        ({"corrections": {"share": 1}}, ["corrections.share", "less than 1"]),
        ({"corrections": {"rounds": 0}}, ["corrections.rounds", "greater than or equal to 1"]),
        (
            {"corrections": {}, "policy": {"init": "pretrained", "path": "x"}, "warmup": {"tokens": 0}},
            ["corrections", "warmup.tokens", "leave them out"],
        ),
        (
            {"corrections": {}, "policy": {"init": "pretrained", "path": "x"}, "warmup": {"lora": {}}},
            ["corrections", "warmup.lora", "leave them out"],
        ),
        ({"arms": {"a": {"base": "grpo", "reward_scale": 0}}}, ["arms.a.reward_scale", "greater than 0"]),
        ({"policy": {"path": "somewhere"}}, ["policy", "path"]),
        ({"policy": {"hidden_size": 100, "heads": 3}}, ["policy", "heads"]),
        ({"policy": {"kv_heads": 3}}, ["policy", "kv_heads"]),
        ({"policy": {"response": "think_action"}}, ["policy", "response", "plain"]),
        ({"policy": {"restate": " "}}, ["policy", "restate", "in one line"]),
        ({"policy": {"restate": "Your task\nis"}}, ["policy", "restate", "in one line"]),
        ({"policy": {"embedding_scale": 1e300}}, ["policy.embedding_scale", "100"]),
        (
            {"policy": {"init": "pretrained", "path": "somewhere", "embeddings": "composed"}},
            ["policy", "embeddings", "a checkpoint has its own"],
        ),
        ({"policy": {"max_context_tokens": 64, "max_response_tokens": 64}}, ["policy", "max_context_tokens"]),
        ({"evaluation": {"of": "best"}}, ["evaluation.of", "validation.every"]),
        ({"validation": {"every": 2}}, ["validation.split", "'validation'", "tasks.splits"]),
        (
            {"validation": {"every": 2, "split": "valid_seen"}, "evaluation": {"of": "best"}},
            ["evaluation.of", "'valid_seen'", "validation.split"],
        ),
        ({"validation": {"every": 0}}, ["validation.every"]),
        ({"validation": {"temperature": 1e-9}}, ["validation", "temperature", "greedy"]),
        ({"tasks": {"source": "official", "splits": {"train": None, "validation": None}}}, ["tasks", "set aside"]),
        ({"rollout": {"sampling": "easy"}}, ["rollout.sampling", "learnable"]),
        ({"rollout": {"dynamic": {"drop": "failed"}}}, ["rollout.dynamic.drop", "solved"]),
        ({"rollout": {"dynamic": {}}}, ["rollout.dynamic.drop", "required"]),
        ({"compare": {"base": "ppo"}}, ["compare.base", "'ppo'", "grpo"]),
        ({"compare": {"resamples": 1}}, ["compare.resamples"]),
        ({"seeds": [0, 0]}, ["seeds", "twice"]),
        ({"seeds": []}, ["seeds"]),
        ({"iterations": 0}, ["iterations"]),
        ({"arms": {}}, ["arms"]),
        ({"arms": {"a b": {"base": "grpo"}}}, ["a b"]),
        ({"arms": {"shared": {"base": "grpo"}}}, ["shared"]),
        ({"arms": {"a": {"base": "ppo"}}}, ["arms.a.base", "gigpo"]),
        ({"arms": {"a": {"base": "grpo", "step_weight": 0.5}}}, ["arms.a", "step_weight", "gigpo"]),
        ({"arms": {"a": {"base": "gigpo", "history": 4}}}, ["arms.a", "history", "hgpo"]),
        ({"arms": {"a": {"base": "rloo", "normalise": "mean"}}}, ["arms.a", "normalise", "rloo"]),
        ({"arms": {"a": {"base": "grpo", "gamma": 0.9}}}, ["arms.a", "gamma"]),
        ({"arms": {"a": {"base": "grpo", "progress": {"weight": -1}}}}, ["arms.a.progress.weight"]),
        ({"arms": {"a": {"base": "gigpo", "progress": {"level": "step", "shuffle": True}}}}, ["shuffle", "trajectory"]),
    ],
)
def test_bad_settings_are_named(change: dict, words: list[str]) -> None:
    with pytest.raises(ProgpoError) as caught:
        load_experiment({**MINIMAL, **change})
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "pydantic" not in message


def test_every_problem_gets_its_own_line() -> None:
    with pytest.raises(ProgpoError) as caught:
        load_experiment({**MINIMAL, "rollout": {"tasks": 0, "shard": 1}, "iterations": -1})
    assert len(str(caught.value).splitlines()) == 3


def test_defaults_written_out_give_the_same_stage_settings() -> None:
    short = load_experiment(MINIMAL)
    long = load_experiment(json.loads(json.dumps(short.model_dump(mode="json"))))
    for stage in STAGES:
        assert short.stage(stage) == long.stage(stage)


def test_what_is_chosen_and_when_reruns_no_evaluation() -> None:
    splits = {"tasks": {"splits": {"train": 8, "validation": 4, "valid_seen": 4, "valid_unseen": 4}}}
    every = [
        load_experiment({**MINIMAL, **splits, "validation": {"every": period}, "evaluation": {"of": of}})
        for period, of in ((2, "last"), (3, "best"))
    ]
    for stage in STAGES[:-4]:
        assert every[0].stage(stage) == every[1].stage(stage)
    assert every[0].stage("report") != every[1].stage("report")


@pytest.mark.parametrize(
    ("iterations", "every", "validated"),
    [(6, 2, [2, 4, 6]), (7, 3, [3, 6, 7]), (2, 5, [2]), (3, 1, [1, 2, 3]), (4, None, [])],
)
def test_validated_iterations(iterations: int, every: int | None, validated: list[int]) -> None:
    assert validated_iterations(iterations, every) == validated


def test_stage_settings_are_what_the_commands_read() -> None:
    official = {"source": "official", "data": "/somewhere"}
    experiment = load_experiment({**MINIMAL, "environment": {"max_steps": 7}, "tasks": official})
    assert load_json(RolloutStage, experiment.stage("rollout")).environment.options.max_steps == 7
    assert load_json(TasksStage, experiment.stage("tasks")).tasks.data == Path("/somewhere")
    assert load_json(WarmupStage, experiment.stage("warmup")).policy == experiment.policy
    assert load_json(UpdateSettings, experiment.stage("update")) == experiment.update
    assert load_json(AdvantageSettings, experiment.stage("advantages", "grpo")) == experiment.arms["grpo"]


@pytest.mark.parametrize(("stage", "section"), [("evaluate", "evaluation"), ("validate", "validation")])
def test_evaluations_have_backends_of_their_own(stage: str, section: str) -> None:
    given = {"backend": "endpoint", "batch": 3, "endpoint": {"urls": ["http://gpu01:8000"], "wait": 9}}
    experiment = load_experiment({**MINIMAL, section: given})
    read = load_json(EvaluateStage, experiment.stage(stage)).evaluation
    assert (read.backend, read.batch, read.endpoint.wait) == ("endpoint", 3, 9)
    assert load_json(RolloutStage, experiment.stage("rollout")).rollout.backend == "progpo"


def test_a_stage_without_settings_has_the_defaults() -> None:
    assert load_json(TasksStage, "{}").tasks == load_experiment(MINIMAL).tasks
    assert load_experiment({**MINIMAL, "evaluation": {"temperature": 0}}).evaluation.temperature == 0


def test_stage_settings_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(MINIMAL))
    code = (
        "import sys; from pathlib import Path; from progpo.settings.experiment import load_experiment as load;"
        f"e = load(Path({str(config)!r})); print([e.stage(s) for s in {STAGES!r}])"
    )
    texts = {
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, text=True)
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_reading_settings_imports_nothing_heavy() -> None:
    code = (
        "import sys, progpo.cli, progpo.settings.experiment as e;"
        "e.load_experiment({'experiment': 'x', 'arms': {'a': {'base': 'grpo'}}});"
        "heavy = ('torch', 'transformers', 'accelerate', 'textworld', 'alfworld', 'pyarrow');"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["--settings", "not valid JSON"]),
        ("no-such-file.json", ["--settings", "no-such-file.json", "readable file"]),
        ('{"clip": 0}', ["clip"]),
    ],
)
def test_stage_settings_refused(text: str, words: list[str]) -> None:
    with pytest.raises(ProgpoError) as caught:
        load_json(UpdateSettings, text)
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize("environment", ["alfworld", "webshop"])
def test_the_manual_names_every_setting(environment: str) -> None:
    manual = (ROOT / "config" / "README.md").read_text()
    arms = {"a": {"base": "gigpo", "progress": {}}}
    splits = list(envs.entry(environment).load("task_settings")().splits)
    experiment = load_experiment(
        {
            **MINIMAL,
            "environment": {"name": environment},
            "evaluation": {"splits": splits},
            "arms": arms,
        }
    )

    def names(settings: BaseModel) -> set[str]:
        found = set()
        for name in type(settings).model_fields:
            value = getattr(settings, name)
            found |= {name} | (names(value) if isinstance(value, BaseModel) else set())
        return found

    wanted = names(experiment) | names(experiment.arms["a"])
    missing = {name for name in wanted - {"options"} if not re.search(rf"`[^`]*\b{name}\b[^`]*`", manual)}
    assert missing == set()


def test_corrections_are_learned_from_as_in_the_warm_up_but_for_budget_and_rates() -> None:
    told = {"tokens": 5000, "learning_rate": 0.01, "muon": {"learning_rate": 0.5}, "recall": {}, "batch_tokens": 99}
    changes = {"warmup": told, "corrections": {"tokens": 700, "learning_rate_ratio": 0.1, "rounds": 3}}
    experiment = load_experiment({**MINIMAL, **changes})
    again = json.loads(experiment.stage("relearn"))
    assert again["policy"] == json.loads(experiment.stage("warmup"))["policy"]
    warmup = again["warmup"]
    assert (warmup["tokens"], warmup["batch_tokens"], warmup["recall"]) == (700, 99, None)
    assert warmup["learning_rate"] == pytest.approx(0.001)
    assert warmup["muon"]["learning_rate"] == pytest.approx(0.05)
    assert experiment.correction_rounds == 3
    assert load_experiment(MINIMAL).correction_rounds == 0
