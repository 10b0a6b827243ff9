"""Stage `warmup` without training: a checkpoint as it came becomes the policy that all arms of a seed start from."""

import sys
from pathlib import Path

from progpo.artifacts import atomic_folder, clean_partial, folder_of, write_json
from progpo.policy.checkpoint import load_pretrained, save_files, write_policy_manifest
from progpo.settings.experiment import WarmupStage


def run(settings: WarmupStage, seed: int, output: Path, metrics: Path) -> None:
    """Make the policy of a pretrained checkpoint, its weights unchanged.

    Args:
        settings: the policy (`init: pretrained`), and `warmup.tokens: 0`.
        seed: training seed; the policy is the same for each.
        output: folder of the policy, or the manifest in it.
        metrics: JSON file, of the same form as after a warm-up.

    Raises:
        ProgpoError: a checkpoint that cannot be used.
    """
    from progpo.policy.rendering import make_renderer

    folder = folder_of(output)
    clean_partial(folder)
    clean_partial(metrics)
    policy = load_pretrained(settings.policy)
    # What its chat template cannot render shall be known now, not in the first rollout.
    make_renderer(policy)
    size, vocabulary = sum(item.numel() for item in policy.model.parameters()), policy.model.config.vocab_size
    found = {
        "demonstrations": 0,
        "lessons": 0,
        "parameters": size,
        "vocabulary": vocabulary,
        "precision": None,
        "tokens": 0,
        "optimizer_steps": 0,
        "final": None,
        "curve": [],
    }
    with atomic_folder(folder) as place:
        save_files(policy, place)
        write_json(metrics, found)
        write_policy_manifest(policy, place, folder, "warmup", settings, metrics, [], seed, iteration=0)
    print(
        f"warmup: {settings.policy.path} as it is: {size} parameters, vocabulary {vocabulary}; nothing was trained",
        file=sys.stderr,
    )
