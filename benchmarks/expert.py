"""How the searching expert does on the released games, as Markdown tables.

    python -m benchmarks.expert FOLDER [--games N] [--shipped N] [--seed S]

FOLDER is the folder `json_2.1.1` (or the one that holds it). Each game of each split is demonstrated in 50 steps on
the fast engine as the stage `demonstrate` does by default: once clean, twice in other orders of search with noise.
With --shipped N, N games of each split are played by the expert that the package alfworld ships too, in one process
on the official engine (two seconds a game).
"""

import argparse
import contextlib
import io
import json
import random
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import envs
from envs.alfworld.expert import SearchingExpert
from envs.alfworld.official import OfficialGame, choose, locate
from envs.alfworld.settings import SPLITS, TASK_TYPES
from progpo.seeds import stream
from progpo.settings.stages import DemonstrationSettings
from progpo.stages.demonstrate import demonstrate

STEPS = 50


@dataclass(frozen=True)
class Played:
    """One episode: its task type, whether it was won, its length, and how many of its commands were refused."""

    task_type: str
    won: bool
    steps: int
    refused: int


def play(games: Sequence[OfficialGame], variants: Iterable[int], seed: int) -> list[Played]:
    """Let the searching expert play the games; a variant is what the stage `demonstrate` calls so."""
    settings = DemonstrationSettings(seed=seed)
    environment = envs.make("alfworld", engine="fast", max_steps=STEPS)
    played = []
    for number, game in enumerate(games):
        task = envs.Task(game.name, game.split, game.task_type, {"game": str(game.path), "task_type": game.task_type})
        for variant in variants:
            key = (seed, number, variant)
            expert = SearchingExpert(stream("search", *key), settings.search_of(variant))
            noise = stream("noise", *key)
            episode = demonstrate(environment, expert, task, number, variant, settings, noise)
            refused = sum(step.imitate and not step.valid for step in episode.steps)
            played.append(Played(game.task_type, episode.outcome > 0, len(episode.steps), refused))
    return played


def play_shipped(games: Sequence[OfficialGame], seed: int) -> list[Played]:
    """Let alfworld's HandCodedTWAgent play the games, by alfworld's own wrapper."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredExpert, AlfredInfos
    from alfworld.agents.expert import HandCodedAgentTimeout
    from textworld.envs.pddl import PddlEnv

    wanted = textworld.EnvInfos(won=True, admissible_commands=True, feedback=True, facts=True)
    environment = AlfredExpert(AlfredInfos(AlfredDemangler(PddlEnv(wanted), shuffle=False)))
    random.seed(seed)
    played = []
    for game in games:
        steps, won, refused = 0, False, 0
        # It prints what it does, and gives up by raising.
        quietly = contextlib.redirect_stdout(io.StringIO())
        with tempfile.TemporaryDirectory() as folder, contextlib.suppress(HandCodedAgentTimeout), quietly:
            environment.load(_with_parameters(game, Path(folder)))
            state = environment.reset()
            while steps < STEPS and not won:
                state, _, _ = environment.step(state["extra.expert_plan"][0])
                steps, won = steps + 1, bool(state["won"])
                refused += state["feedback"].strip() == "Nothing happens."
        played.append(Played(game.task_type, won, steps, refused))
    return played


def _with_parameters(game: OfficialGame, folder: Path) -> str:
    """Copy a game beside the `traj_data.json` that the shipped expert takes the goal from, made from its name."""
    _, thing, _, place, _ = game.path.parent.parent.name.split("-")
    place_or_lamp = "toggle_target" if game.task_type.startswith("look") else "parent_target"
    goal = {"object_target": thing, "parent_target": "", "toggle_target": "", place_or_lamp: place}
    (folder / "traj_data.json").write_text(json.dumps({"task_type": game.task_type, "pddl_params": goal}))
    return str(shutil.copy(game.path, folder))


def table(columns: dict[str, list[Played]]) -> str:
    """Return success (episodes), and mean and largest number of steps of the episodes won, by task type."""
    lines = ["| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for name in (*TASK_TYPES, "all"):
        cells = []
        for played in columns.values():
            its = [item for item in played if name in (item.task_type, "all")]
            steps = [item.steps for item in its if item.won]
            cell = f"{len(steps) / len(its):.1%} of {len(its)}" if its else "none"
            cells.append(f"{cell}; {np.mean(steps):.2f}, {max(steps)}" if steps else cell)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.expert", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--games", type=int, help="of each split; all, if left out")
    parser.add_argument("--shipped", type=int, default=0, help="games of each split for the expert that alfworld ships")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = locate(given.folder)
    columns: dict[str, list[Played]] = {}
    shipped: dict[str, list[Played]] = defaultdict(list)
    times = []
    for split in SPLITS:
        if not (folder / split).is_dir():
            continue
        games = choose(folder, split, given.games, TASK_TYPES, given.seed)
        started = time.perf_counter()
        columns[f"{split}, clean"] = play(games, [0], given.seed)
        clean = time.perf_counter() - started
        columns[f"{split}, noisy"] = play(games, [1, 2], given.seed)
        times.append(f"{split}: clean {clean:.1f} s for {len(games)} games, loading them included")
        if given.shipped:
            sample = choose(folder, split, given.shipped, TASK_TYPES, given.seed)
            shipped[f"{split}, searching"] = play(sample, [0], given.seed)
            shipped[f"{split}, shipped"] = play_shipped(sample, given.seed)
    print("Success; mean and largest number of steps of the episodes won:\n")
    print(table(columns))
    clean = [item for name, played in columns.items() if name.endswith("clean") for item in played]
    share = sum(item.refused for item in clean) / sum(item.steps for item in clean)
    print(f"\nThe expert's own commands that were refused, clean: {share:.2%}.\n" + "\n".join(times))
    if shipped:
        print("\n" + table(shipped))


if __name__ == "__main__":
    main()
