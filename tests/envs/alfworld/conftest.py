"""Fixtures for the tests of ALFWorld: a sample of the released games."""

import tarfile
from collections import Counter
from pathlib import Path

import pytest

#: Of the games of a split and type, in the archive's order, every so many-th is taken.
EVERY = {"train": 40, "valid_seen": 5}


@pytest.fixture(scope="session")
def real_games(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """About 120 released games, of all six types and both splits: paths <split>/<type>-.../<trial>/game.tw-pddl."""
    folder = tmp_path_factory.mktemp("released")
    seen: Counter[tuple[str, str]] = Counter()
    chosen = []
    with tarfile.open(shared / "alfworld" / "json_2.1.1.tar.xz") as archive:
        for member in archive.getmembers():
            if not member.name.endswith("/game.tw-pddl"):
                continue
            _, split, name, _, _ = member.name.split("/")
            key = split, name.partition("-")[0]
            if seen[key] % EVERY[split] == 0:
                chosen.append(member)
            seen[key] += 1
        archive.extractall(folder, members=chosen, filter="data")
    return [folder / member.name for member in chosen]
