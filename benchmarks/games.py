"""Compare generated games with released ones, as a Markdown table.

    python -m benchmarks.games REALFOLDER [--games 1000] [--seed 0]

REALFOLDER is the folder `json_2.1.1`. As many games are generated for each split as are asked for, played by the
walkthrough and by the searching expert (50 steps, the fast engine), and compared with all released ones.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.game_facts import GameFacts, kind, read
from envs.alfworld.environment import make
from envs.alfworld.expert import SearchingExpert
from envs.alfworld.generate import generate
from envs.alfworld.settings import TASK_TYPES

STEPS = 50


def _hidden(game: GameFacts) -> float:
    """Return the share of the goal's objects that start behind a closed door."""
    closed = game.only("openable")
    things = [game.places[thing] for thing in game.only("pickupable") if kind(thing) == game.goal_object]
    return float(np.mean([bool(places) and closed.issuperset(places) for places in things]))


def _crowd(game: GameFacts) -> float:
    """Return the largest number of objects in one receptacle."""
    return max(np.unique([place for _, place in game.facts["inReceptacle"]], return_counts=True)[1])


MEASURES: dict[str, Callable[[GameFacts], float]] = {
    "objects": lambda game: len(game.objects),
    "portable objects": lambda game: len(game.only("pickupable")),
    "objects of the goal's type": lambda game: sum(kind(x) == game.goal_object for x in game.only("pickupable")),
    "of these behind a closed door, %": lambda game: 100 * _hidden(game),
    "objects in the fullest receptacle": _crowd,
    "receptacles": lambda game: len(game.receptacles),
    "receptacles with a door": lambda game: len(game.facts["openable"]),
    "empty receptacles, %": lambda game: 100 * (1 - len(set().union(*game.places.values())) / len(game.receptacles)),
    "standing places of receptacles": lambda game: len({place for _, place in game.facts["receptacleAtLocation"]}),
    "steps of the walkthrough": lambda game: len(game.walkthrough),
}


def _play(path: Path) -> tuple[str, bool, int]:
    """Let the expert play; returns task type, success and steps."""
    environment, expert = make(max_steps=STEPS), SearchingExpert(np.random.default_rng(0))
    observation, info = environment.reset(options={"game": str(path)})
    expert.reset(observation, info)
    steps, ended = 0, False
    while not ended:
        action = expert.act(observation, info)
        observation, _, terminated, truncated, info = environment.step(action)
        info["last_action"] = action
        steps, ended = steps + 1, terminated or truncated
    return info["task_type"], info["won"], steps


def _measure(path: Path) -> tuple[list[float], tuple[str, bool, int]]:
    game = read(path)
    return [measure(game) for measure in MEASURES.values()], _play(path)


def column(paths: Sequence[Path], workers: int) -> list[str]:
    """Return the cells of one column: the mean of each measure, with its 10th and 90th percentile, then the expert."""
    with ProcessPoolExecutor(workers) as pool:
        facts, plays = zip(*pool.map(_measure, paths, chunksize=50), strict=True)
    cells = [str(len(paths))]
    for values in np.array(facts).T:
        low, high = np.percentile(values, [10, 90])
        cells.append(f"{values.mean():.1f} ({low:.0f} to {high:.0f})")
    for task_type in (*TASK_TYPES, None):
        of_type = [(won, steps) for name, won, steps in plays if task_type in (name, None)]
        won = np.array([steps for won, steps in of_type if won])
        low, high = np.percentile(won, [10, 90])
        cells.append(f"{100 * len(won) / len(of_type):.1f}; {won.mean():.1f} ({low:.0f} to {high:.0f})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("released", type=Path, help="the folder json_2.1.1")
    parser.add_argument("--games", type=int, default=1000, help="how many to generate for each split")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    columns = {}
    with tempfile.TemporaryDirectory() as folder:
        for split in ("train", "valid_seen", "valid_unseen"):
            paths = sorted((options.released / split).rglob("game.tw-pddl"))
            if paths:
                columns[f"released {split}"] = column(paths, options.workers)
            made = [generate(options.seed, split, index).write(Path(folder) / split) for index in range(options.games)]
            columns[f"generated {split}"] = column(made, options.workers)
    labels = ["games", *MEASURES, *(f"expert, {name}" for name in TASK_TYPES), "expert, all"]
    print("| |" + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for label, *cells in zip(labels, *columns.values(), strict=True):
        print(f"| {label} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
