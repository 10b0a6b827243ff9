"""What is measured: a catalogue loaded, indexed and shopped in, in a process of its own."""

import json
import random
from pathlib import Path
from time import process_time
from typing import Any

import psutil

import envs
from envs.webshop import load_catalogue, make_goals
from envs.webshop.catalogue import find_files
from envs.webshop.json_stream import read_items, read_pairs


def replicate(source: Path, folder: Path, count: int) -> None:
    """Write a catalogue of so many products: those of another, over and over, each copy with an asin of its own."""
    files = find_files(source)
    entries = list(read_items(files.products))
    tables = {"items_ins_v2": dict(read_pairs(files.attributes))}
    if files.nouns:
        tables["nouns"] = dict(read_pairs(files.nouns))
    folder.mkdir()
    copies = [(f"C{number:09d}", entries[number % len(entries)]) for number in range(count)]
    with (folder / "items_shuffle.json").open("w", encoding="utf-8") as file:
        for number, (asin, entry) in enumerate(copies):
            file.write(",[\n"[number == 0] + json.dumps(entry | {"asin": asin}))
        file.write("]")
    for name, table in tables.items():
        known = {asin: table[entry["asin"]] for asin, entry in copies if entry["asin"] in table}
        (folder / f"{name}.json").write_text(json.dumps(known), encoding="utf-8")


def measure(folder: str, slots: int, steps: int, seed: int) -> dict[str, Any]:
    """Return seconds (CPU) and MiB of loading, indexing, goals and environments, and the milliseconds (CPU) of steps.

    The shopper of each episode searches with words of its instruction, clicks at random, and buys in the end.
    """
    process = psutil.Process()

    def mib() -> float:
        return process.memory_info().rss / 2**20

    figures: dict[str, Any] = {"before_mib": mib()}

    def stage(name: str, call: Any) -> Any:
        began = process_time()
        made = call()
        figures[f"{name}_s"], figures[f"{name}_mib"] = process_time() - began, mib()
        return made

    catalogue = stage("load", lambda: load_catalogue(folder))
    stage("index", lambda: catalogue.search)
    goals = stage("goals", lambda: make_goals(catalogue))
    shops = stage("environments", lambda: _open(folder, slots, len(goals)))
    figures["products"], figures["goals"] = len(catalogue.products), len(goals)
    stream = random.Random(seed)
    _shop(shops, stream, max(steps // 10, 1), len(goals))
    figures["steps"] = {
        kind: {"count": len(times), "ms": 1e3 * sum(times) / len(times)}
        for kind, times in _shop(shops, stream, steps, len(goals)).items()
    }
    figures["shopped_mib"] = mib()
    return figures


def _open(folder: str, slots: int, goals: int) -> list[Any]:
    shops = [envs.make("webshop", folder=folder) for _ in range(slots)]
    for number, shop in enumerate(shops):
        shop.reset(options={"goal": number % goals})
    return shops


def _shop(shops: list[Any], stream: random.Random, steps: int, goals: int) -> dict[str, list[float]]:
    """Take steps, episode by episode; returns the seconds of each, by kind of action."""
    times: dict[str, list[float]] = {"search": [], "click": [], "buy": [], "all": []}
    while len(times["all"]) < steps:
        shop = stream.choice(shops)
        observation, info = shop.reset(options={"goal": stream.randrange(goals)})
        words = observation.split("\n")[2].split(", and price")[0].split()
        kind, ended = "search", False
        while not ended:
            commands = info["admissible_commands"]
            if kind == "search":
                action = f"search[{' '.join(stream.sample(words, min(len(words), 8)))}]"
            elif "click[buy now]" in commands and stream.random() < 0.2:
                kind, action = "buy", "click[buy now]"
            else:
                action = stream.choice(commands)
            began = process_time()
            _, _, terminated, truncated, info = shop.step(action)
            taken = process_time() - began
            times[kind].append(taken)
            times["all"].append(taken)
            ended = terminated or truncated
            kind = "search" if info["has_search_bar"] else "click"
    return times
