"""Stage `best`: which of an arm's iterations is best by validation."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from progpo.artifacts import clean_partial, write_json, write_manifest
from progpo.errors import ProgpoError
from progpo.results import WARMUP, load


def run(summaries: Sequence[Path], output: Path, strict: bool = False) -> None:
    """Choose an arm's best iteration: that of the highest success over all validated episodes, the earliest of equals.

    Args:
        summaries: `summary.json` of the validations of one arm and seed, in an experiment's folders
            (`.../seed-<seed>/<arm>/iteration-<n>/validation/summary.json`).
        output: the JSON file: arm, seed, iteration, policy (its folder, relative to the file), success, and the
            candidates.
        strict: whether inputs must be listed in manifests.

    Raises:
        ProgpoError: inputs of several arms, seeds or sets of tasks, a warm-up's, none, or damaged ones.
    """
    clean_partial(output)
    best = choose(summaries, strict)
    write_json(output, best)
    write_manifest(
        output,
        "best",
        {},
        files=[output],
        inputs=[path.with_name("trajectories.parquet") for path in sorted(summaries)],
        facts={name: best[name] for name in ("arm", "seed", "iteration")},
    )
    print(
        f"best: {best['arm']}, seed {best['seed']}: iteration {best['iteration']} with {best['success']:.1%} of "
        f"{best['candidates'][0]['episodes']} validation episodes",
        file=sys.stderr,
    )


def choose(summaries: Sequence[Path], strict: bool = False) -> dict[str, Any]:
    """Return what `run` writes into its output; raises as it does."""
    found = load(summaries, strict).validations
    whose = sorted({(arm, seed) for arm, seed, _ in found})
    if len(found) < len(summaries) or len(whose) != 1 or whose[0][0] == WARMUP:
        raise ProgpoError(
            "best: needs the validations of the iterations of one arm and seed "
            f"(…/seed-0/<arm>/iteration-<n>/validation/summary.json), not of {whose or 'none'}"
        )
    (arm, seed) = whose[0]
    candidates = []
    for (_, _, iteration), summary in sorted(found.items()):
        episodes = sum(part["episodes"] for part in summary["splits"].values())
        successes = sum(part["successes"] for part in summary["splits"].values())
        rate = successes / episodes
        candidates.append(
            {"iteration": iteration, "splits": sorted(summary["splits"]), "episodes": episodes, "success": rate}
        )
    for item in candidates[1:]:
        if (item["splits"], item["episodes"]) != (candidates[0]["splits"], candidates[0]["episodes"]):
            raise ProgpoError(
                f"best: iteration {item['iteration']} of {arm}, seed {seed}, was validated on {item['episodes']} "
                f"episodes of {', '.join(item['splits'])}, iteration {candidates[0]['iteration']} on others; validate "
                "them alike"
            )
    best = max(candidates, key=lambda item: (item["success"], -item["iteration"]))
    return {
        "arm": arm,
        "seed": seed,
        "iteration": best["iteration"],
        "policy": f"iteration-{best['iteration']:03d}/policy",
        "success": best["success"],
        "candidates": candidates,
    }
