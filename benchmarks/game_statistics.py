"""Measure on released games what the generator samples from: `envs/alfworld/generate/statistics.json`.

    python -m benchmarks.game_statistics REALFOLDER/train envs/alfworld/generate/statistics.json

How many objects of a type a room holds, and how they share out over its receptacles. The latter is a choice among
the receptacles that are there (and the floor), so the weights are those of a multinomial logit (Luce's choice
model), fitted by the minorise-maximise iteration of Hunter (2004): a room with twenty cabinets says less about one
cabinet than a room with two.
"""

import argparse
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from benchmarks.game_facts import GameFacts, kind, read

FLOOR = "floor"
#: Placements that are rarer than this share of a type's are accidents of the physics.
RARE = 0.004


def choice_weights(chosen: list[Counter], offered: list[Counter], iterations: int = 200) -> dict[str, float]:
    """Fit weights to counts of choices.

    Args:
        chosen: for each room, how many of the objects lie in a receptacle of each type.
        offered: for each room, how many receptacles of each type there are; all of `chosen` is in it.

    Returns:
        Weight of one receptacle by its type; the largest is 1.
    """
    names = sorted({name for counts in chosen for name in counts})
    picks = np.array([[counts[name] for name in names] for counts in chosen], dtype=float)  # (rooms, types)
    there = np.array([[counts[name] for name in names] for counts in offered], dtype=float)
    weights = np.ones(len(names))
    for _ in range(iterations):
        weights = picks.sum(0) / ((picks.sum(1) / (there @ weights))[:, None] * there).sum(0)
        weights /= weights.max()
    return dict(zip(names, weights.tolist(), strict=True))


def measure(games: list[GameFacts]) -> dict[str, dict]:
    """Return copies, shares and weights of all object types."""
    copies = defaultdict(Counter)
    chosen, offered = defaultdict(list), defaultdict(list)
    portable = defaultdict(Counter)
    for game in games:
        things = defaultdict(list)
        can_be_taken = game.only("pickupable")
        for thing in game.objects:
            things[kind(thing)].append(thing)
            portable[kind(thing)][thing in can_be_taken] += 1
        for name, members in things.items():
            if name != game.goal_object:
                copies[name][len(members)] += 1
            chosen[name].append(Counter(kind(game.places.get(thing, [FLOOR])[0]) for thing in members))
            offered[name].append(game.receptacle_kinds + Counter({FLOOR: 1}))
    table = {}
    for name in sorted(copies):
        total = sum(copies[name].values())
        placed = sum(chosen[name], Counter())
        common = {place for place, count in placed.items() if count >= RARE * placed.total()}
        kept = [Counter({place: counts[place] for place in common}) for counts in chosen[name]]
        weights = choice_weights(kept, offered[name])
        most = max(number for number, count in copies[name].items() if count >= 0.02 * total)
        table[name] = {
            "portable": portable[name][True] > portable[name][False],
            "copies": [round(copies[name][number] / total, 3) for number in range(1, most + 1)],
            "weights": {place: float(f"{weight:.2g}") for place, weight in weights.items()},
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("games", type=Path, help="a folder of released games, e.g. json_2.1.1/train")
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    table = measure([read(path) for path in sorted(options.games.rglob("game.tw-pddl"))])
    lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in table.items())
    options.output.write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
