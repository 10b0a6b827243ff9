"""Transcripts that the official engine made, replayed without it; `tests/data/make_alfworld_golden.py` made them."""

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest

import envs
from envs.alfworld.generate import domain, grammar
from envs.alfworld.settings import TASK_TYPES

GOLDEN = json.loads(lzma.decompress((Path(__file__).parents[3] / "data" / "alfworld_golden.json.xz").read_bytes()))


def write(golden: dict, folder: Path) -> Path:
    """Write the game of a transcript."""
    task = golden["observations"][0].rpartition("Your task is to: ")[2].removesuffix(".")
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps({"pddl_domain": domain(), "grammar": grammar(task), **golden["content"]}))
    return path


@pytest.mark.parametrize("golden", GOLDEN, ids=[golden["task_type"] for golden in GOLDEN])
def test_equals_the_official_engine(golden: dict, tmp_path: Path) -> None:
    environment = envs.make("alfworld", engine="fast", max_steps=1000)
    observation, info = environment.reset(options={"game": write(golden, tmp_path)})
    assert info["task_type"] == golden["task_type"]
    for number in range(len(golden["observations"])):
        if number > 0:
            # Transcripts go on after a win, where the environment's episode has ended.
            environment._running = True
            observation, reward, terminated, truncated, info = environment.step(golden["commands"][number - 1])
            assert (reward, terminated, truncated) == (float(info["won"]), info["won"], False)
        assert observation == golden["observations"][number]
        assert info["admissible_commands"] == golden["admissible"][number]
        assert info["won"] == golden["won"][number]
        assert info["state_key"] == golden["state_keys"][number]


def test_transcripts_cover_what_there_is() -> None:
    assert [golden["task_type"] for golden in GOLDEN] == list(TASK_TYPES)
    pairs = [
        (command.split()[0], observation)
        for golden in GOLDEN
        for command, observation in zip(golden["commands"], golden["observations"][1:], strict=True)
        if command.split()
    ]
    executed = {verb for verb, observation in pairs if observation != "Nothing happens."}
    assert executed >= {
        "go",
        "open",
        "close",
        "examine",
        "take",
        "move",
        "clean",
        "heat",
        "cool",
        "use",
        "look",
        "help",
    }
    assert sum(observation == "Nothing happens." for _, observation in pairs) > 20
    assert sum(any(golden["won"]) for golden in GOLDEN) >= 4


def test_plays_without_textworld(tmp_path: Path) -> None:
    golden = GOLDEN[0]
    program = (
        "import sys, envs\n"
        "environment = envs.make('alfworld')\n"
        "environment.reset(options={'game': sys.argv[1]})\n"
        "print(environment.step('look')[0])\n"
        "heavy = {'textworld', 'alfworld', 'fast_downward', 'torch', 'progpo'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, write(golden, tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("You are ")
