"""Makes `alfworld_golden.json.xz`: generated games as the official engine plays them.

`python tests/data/make_alfworld_golden.py` writes the file anew, in about a minute. The official engine alone says what
the answers are; which commands to try follows the walkthrough, with random and wrong ones in between.
"""

import json
import lzma
import tempfile
from pathlib import Path

import numpy as np

from envs.alfworld.generate import generate
from envs.alfworld.parity import Prober
from envs.alfworld.settings import TASK_TYPES
from envs.alfworld.textworld_engine import TextWorldEpisode

SEED = 20
STEPS = 50


def play(path: Path, walkthrough: list[str], rng: np.random.Generator) -> dict[str, object]:
    """Return one transcript: `commands`, and for the reset and each command what the official engine answered."""
    episode = TextWorldEpisode(path)
    prober = Prober(walkthrough, rng)
    transcript: dict[str, list] = {key: [] for key in ("commands", "observations", "admissible", "won", "state_keys")}
    observation = episode.start()
    while True:
        transcript["observations"].append(observation)
        transcript["admissible"].append(episode.admissible_commands)
        transcript["won"].append(episode.won)
        transcript["state_keys"].append(episode.state_key)
        if len(transcript["commands"]) == STEPS:
            episode.close()
            return transcript
        command = prober.choose(episode.admissible_commands)
        transcript["commands"].append(command)
        observation = episode.step(command)


def main() -> None:
    """Write the file."""
    golden = []
    for number, task_type in enumerate(TASK_TYPES):
        game = generate(SEED, "train" if number % 2 else "valid_unseen", number, (task_type,))
        with tempfile.TemporaryDirectory() as folder:
            path = game.write(Path(folder))
            transcript = play(path, game.content["walkthrough"], np.random.default_rng([SEED, number]))
        # Domain and grammar are not the project's to copy: they are put together again from the alfworld package.
        content = {key: value for key, value in game.content.items() if key not in ("pddl_domain", "grammar")}
        golden.append({"name": game.name, "task_type": task_type, "content": content, **transcript})
    text = json.dumps(golden, separators=(",", ":")).encode()
    Path(__file__).with_name("alfworld_golden.json.xz").write_bytes(lzma.compress(text, preset=9))


if __name__ == "__main__":
    main()
