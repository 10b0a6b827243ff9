"""Cards: the README.md beside trajectories or a policy that are given away, with what a hub reads on top (YAML)."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from progpo import __version__
from progpo.advantages.progress import SUCCESS
from progpo.artifacts import folder_of, manifest_path, read_manifest, refuse_pruned, write_text
from progpo.errors import ProgpoError
from progpo.pruning import OPTIMIZER_FILES
from progpo.results import SUMMARY, read_json
from progpo.tables import to_markdown
from progpo.trajectories.read import read_shards
from progpo.trajectories.schema import SCHEMA, Metadata
from progpo.viewer.collect import ADVANTAGES, find_shards, name_of

CARD = "README.md"
#: By it a card is known as one of ours, which may be written anew.
MARK = "<!-- written by `progpo card` -->"
POLICY = "progpo.json"
PAPER = "[arXiv 2607.22724](https://arxiv.org/abs/2607.22724)"
#: A hub's names for sizes: the least number of rows that is too many for each.
SIZES = {
    "n<1K": 1e3,
    "1K<n<10K": 1e4,
    "10K<n<100K": 1e5,
    "100K<n<1M": 1e6,
    "1M<n<10M": 1e7,
    "10M<n<100M": 1e8,
    "100M<n<1B": 1e9,
}
MEANING = {
    "group": "the group within the iteration (in an evaluation: the task)",
    "trajectory": "the trajectory within the group",
    "step": "the step within the trajectory, from 0",
    "task": "the game or goal",
    "task_type": "its family",
    "observation": "the environment's text before the action",
    "next_observation": "the text after it",
    "state_key": "the environment's digest of its state before the action, or null",
    "next_state_key": "after it",
    "action": "what was executed",
    "valid": "whether the response was well-formed and the action admissible",
    "reward": "of this step",
    "outcome": "of the whole trajectory, on each of its rows: what estimators compare",
    "score": "of the whole trajectory, in [0, 1]; 1 is success",
    "terminated": "as in Gymnasium",
    "truncated": "as in Gymnasium",
    "context_tokens": "what the policy read since its last action, or the whole prompt (layout `window`)",
    "response_tokens": "what it sampled",
    "response_logprobs": "log-probabilities of those tokens, at the sampling temperature",
    "admissible": "the admissible actions, where they were recorded",
    "history_cut": "past steps that the prompt left out for want of room; null where prompts are no windows",
    "imitate": "whether an imitator should learn the action",
}


def write_card(folder: Path) -> Path:
    """Write the card of a folder and return its path.

    Args:
        folder: of a policy, or of trajectories (an iteration with shards, an evaluation, the demonstrations).

    Raises:
        ProgpoError: the folder is neither, its files are damaged, or it has a README.md that is not ours.
    """
    folder = folder_of(folder)
    card = folder / CARD
    if card.exists() and MARK not in card.read_text(encoding="utf-8"):
        raise ProgpoError(f"{card}: was written by someone else, and would be lost; rename it")
    text = policy_card(folder) if (folder / POLICY).is_file() else dataset_card(folder)
    write_text(card, text)
    return card


def dataset_card(folder: Path) -> str:
    """Return the card of the trajectories in a folder; raises ProgpoError (see `write_card`)."""
    shards, advantages = find_shards(folder)
    if folder.is_file() or shards[0].parent.resolve() != folder.resolve():
        raise ProgpoError(f"{folder}: holds no shards; name their folder, {shards[0].parent}")
    table, metadata = read_shards(shards, ("task", "task_type", "valid", "score"), optional=SCHEMA.names)
    known = next((item for item in metadata if item is not None), None)
    environment = _environment(known.settings if known else {})
    pattern = "shard-*.parquet" if shards[0].name.startswith("shard-") else shards[0].name
    configs = [{"config_name": "trajectories", "data_files": pattern, "default": True}]
    if advantages:
        configs.append({"config_name": "advantages", "data_files": ADVANTAGES})
    head = {
        "pretty_name": f"Trajectories: {name_of(folder)}",
        "task_categories": ["text-generation"],
        "tags": _tags(environment, "trajectories"),
        "size_categories": [next((name for name, most in SIZES.items() if table.num_rows < most), "n>1B")],
        "configs": configs,
    }
    kinds = {
        "rollout": "sampled by a policy, in groups of trajectories of one task",
        "evaluation": "of a policy's evaluation: each task once for each evaluation seed",
        "demonstration": "of the environment's expert, at times disturbed by random actions (`imitate` is false there)",
        None: "of an unknown source",
    }
    lines = [
        f"# Trajectories: {name_of(folder)}",
        "",
        f"Episodes of {environment or 'a text environment'} {kinds[known.kind if known else None]}; one row a step. "
        f"Written by progpo {known.version if known else __version__}, a pipeline for ProGPO ({PAPER}).",
        "",
        *_counts(table),
        "",
        "## Reading it",
        "",
        "```python",
        "import polars as pl",
        "",
        f'steps = pl.read_parquet("{pattern}")',
        'success = steps.filter(pl.col("step") == 0).group_by("task_type").agg((pl.col("score") >= 1).mean())',
        "```",
        "",
        "DuckDB, pandas and `datasets` open the files as they are."
        + (f" `{ADVANTAGES}` has the same key (`group`, `trajectory`, `step`)." if advantages else ""),
        "",
        *to_markdown(
            ["column", "type", "meaning"],
            [[f"`{name}`", f"`{SCHEMA.field(name).type}`", MEANING[name]] for name in table.column_names],
        ),
        "",
        *_origin(known),
    ]
    return _card(head, lines)


def policy_card(folder: Path) -> str:
    """Return the card of a policy; raises ProgpoError (see `write_card`)."""
    try:
        policy = json.loads((folder / POLICY).read_text(encoding="utf-8"))
        reading = policy["settings"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProgpoError(f"{folder / POLICY}: not a policy's settings ({error!r})") from None
    refuse_pruned(folder, OPTIMIZER_FILES)
    name = name_of(folder.parent)
    manifest = read_manifest(folder) if manifest_path(folder).is_file() else None
    evaluation = folder.parent / "evaluation" / SUMMARY
    results = read_json(evaluation, strict=False) if evaluation.is_file() else None
    if results and results.get("policy") != policy.get("fingerprint"):
        # Left over from another policy: it says nothing of this one.
        results = None
    environment = _environment(_settings_of(evaluation.with_name("trajectories.parquet")))
    head: dict[str, Any] = {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": _tags(environment, "agent"),
    }
    if reading.get("path") and not Path(reading["path"]).exists():
        head["base_model"] = reading["path"]
    if results:
        head["model-index"] = [{"name": name, "results": _index(environment, results)}]
    size = "made from scratch" if reading.get("init") == "scratch" else f"fine-tuned from `{reading.get('path')}`"
    kinds = {"warmup": "by supervised fine-tuning on demonstrations", "update": "by reinforcement learning"}
    how = kinds.get(manifest.stage) if manifest else None
    lines = [
        f"# Policy: {name}",
        "",
        f"A policy that plays {environment or 'a text environment'}, {size}, trained {how or 'with progpo'}. It reads "
        "observations and answers with actions; it is no assistant, and knows nothing but this environment. "
        f"Written by progpo {manifest.version if manifest else __version__}, a pipeline for ProGPO ({PAPER}).",
        "",
        "## Results",
        "",
        *(_results(results) if results else ["It was not evaluated."]),
        "",
        "## Use",
        "",
        "```python",
        "from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast",
        "",
        'model = AutoModelForCausalLM.from_pretrained(".")',
        'tokenizer = PreTrainedTokenizerFast.from_pretrained(".")',
        "```",
        "",
        "Not `AutoTokenizer`, which may take the tokenizer of the released Qwen2 for it. What it reads and answers is "
        f"built as `progpo.json` says; `progpo play {environment or 'ENVIRONMENT'} --policy .` shows it at work. "
        "`optimizer.safetensors` and `training.json` are not needed for that: with them training goes on.",
        "",
        "## Training",
        "",
    ]
    if manifest:
        facts = [
            f"{key} {manifest.facts[key]}" for key in ("seed", "iteration", "fingerprint") if key in manifest.facts
        ]
        lines += [", ".join(facts) + f". Settings of `progpo {manifest.stage}`:", *_fenced(manifest.settings)]
    arm = _settings_of(folder.parent / ADVANTAGES)
    if arm:
        lines += ["", "Advantages:", *_fenced(arm)]
    lines += ["", "How it reads:", *_fenced(reading)]
    return _card(head, lines)


def _card(head: Mapping[str, Any], lines: Sequence[str]) -> str:
    top = yaml.safe_dump(dict(head), sort_keys=False, allow_unicode=True)
    return f"---\n{top}---\n\n{MARK}\n\n" + "\n".join(lines).rstrip() + "\n"


def _tags(environment: str | None, what: str) -> list[str]:
    return ["progpo", "reinforcement-learning", what, *([environment] if environment else [])]


def _environment(settings: Mapping[str, Any]) -> str | None:
    found = settings.get("environment")
    return found.get("name") if isinstance(found, Mapping) else None


def _settings_of(artifact: Path) -> Mapping[str, Any]:
    """Return the settings in an artifact's manifest; none where it has none."""
    with suppress(ProgpoError):
        return read_manifest(artifact).settings
    return {}


def _counts(table: Any) -> list[str]:
    """Return what there is, in all and by task type, as a Markdown table."""
    starts = np.flatnonzero(table["step"].to_numpy() == 0)
    kinds = np.array(table["task_type"].to_pylist())
    success = table["score"].to_numpy() >= SUCCESS
    valid = table["valid"].to_numpy()
    tasks = np.array(table["task"].to_pylist())
    cells = []
    for kind in (None, *sorted(set(kinds.tolist()))):
        rows = np.ones(len(kinds), bool) if kind is None else kinds == kind
        first = starts[rows[starts]]
        if not first.size:
            continue
        cells.append(
            [
                "all" if kind is None else f"`{kind}`",
                str(len(set(tasks[first].tolist()))),
                str(len(first)),
                str(int(rows.sum())),
                f"{100 * success[first].mean():.1f}",
                f"{100 * valid[rows].mean():.1f}",
            ]
        )
    return to_markdown(["task type", "tasks", "trajectories", "steps", "success %", "valid actions %"], cells)


def _origin(known: Metadata | None) -> list[str]:
    if known is None:
        return []
    facts = {"policy": known.policy, "tokenizer": known.tokenizer, "seed": known.seed, "iteration": known.iteration}
    facts |= {"layout": known.layout, "temperature": known.temperature, "shards": known.shards}
    told = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    return ["## Where it comes from", "", f"{told}. Settings:", *_fenced(known.settings)]


def _fenced(settings: Mapping[str, Any]) -> list[str]:
    return ["", "```json", json.dumps(settings, indent=1, sort_keys=True), "```"]


def _index(environment: str | None, results: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"type": environment or "text", "name": f"{environment or 'text environment'}, {split}"},
            "metrics": [{"type": "success_rate", "name": "success %", "value": round(100 * found["success"], 1)}],
        }
        for split, found in results["splits"].items()
    ]


def _results(results: Mapping[str, Any]) -> list[str]:
    cells = []
    for split, found in results["splits"].items():
        for kind, part in (("all", found), *found["types"].items()):
            interval = f"{100 * part['success']:.1f} [{100 * part['low']:.1f}, {100 * part['high']:.1f}]"
            cells.append([split, kind if kind == "all" else f"`{kind}`", str(part["episodes"]), interval])
    return [
        f"At temperature {results['temperature']}; in brackets the {100 * results['confidence']:g} % Wilson interval "
        "over the episodes.",
        "",
        *to_markdown(["split", "task type", "episodes", "success %"], cells),
    ]
