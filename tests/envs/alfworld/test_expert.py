"""The searching expert: what it wins, by what it reads, and how it gets over what goes wrong."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import envs
from envs.alfworld.expert import SearchingExpert
from envs.alfworld.settings import TASK_TYPES, TaskSettings
from envs.alfworld.tasks import prepare

INTRO = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
    "a cabinet 2, a cabinet 1, a countertop 2, a countertop 1, a desk 1, a fridge 1, a microwave 1, and a sinkbasin 1."
    "\n\nYour task is to: {}."
)


class Transcript(list):
    """The texts of an episode in turn: the first observation, an action, what came of it, ..."""

    won = False

    @property
    def actions(self) -> list[str]:
        return self[1::2]


def play(
    game: Path,
    seed: int = 0,
    search: envs.Search = "best",
    noise: float = 0.0,
    blind: bool = True,
    engine: str = "fast",
) -> Transcript:
    """Play a game; `blind`: the expert is given nothing but the texts and the last executed action."""
    rng = np.random.default_rng(seed)
    environment = envs.make("alfworld", engine=engine, max_steps=50)
    expert = SearchingExpert(np.random.default_rng([seed, 1]), search)
    observation, info = environment.reset(options={"game": str(game)})
    transcript = Transcript([observation])
    expert.reset(observation, {} if blind else info)
    told = {} if blind else info
    over = False
    while not over:
        action = expert.act(observation, told)
        if rng.random() < noise:
            commands = info["admissible_commands"]
            action = "open nothing 1" if rng.random() < 0.2 else commands[rng.integers(len(commands))]
        observation, _, transcript.won, truncated, info = environment.step(action)
        told = {"last_action": action} if blind else {**info, "last_action": action}
        transcript += [action, observation]
        over = transcript.won or truncated
    environment.close()
    return transcript


def success(games: Iterable[Path], **how) -> dict[str, float]:
    """Return the share of games won, by task type and over all."""
    won = defaultdict(list)
    for number, game in enumerate(games):
        result = play(game, seed=number, **how).won
        for name in ("all", game.parent.parent.name.partition("-")[0]):
            won[name].append(result)
    return {name: float(np.mean(results)) for name, results in won.items()}


def test_wins_released_games(real_games: list[Path]) -> None:
    rates = success(real_games)
    assert set(rates) == {"all", *TASK_TYPES}
    assert rates["all"] >= 0.99
    assert min(rates.values()) >= 0.97


def test_wins_released_games_in_another_order(real_games: list[Path]) -> None:
    assert success(real_games, search="varied")["all"] >= 0.98


def test_recovers_from_noise(real_games: list[Path]) -> None:
    rates = success(real_games, search="varied", noise=0.25)
    assert rates["all"] >= 0.95


def test_wins_generated_games(tmp_path: Path) -> None:
    tasks = prepare(TaskSettings(splits={"train": 36, "valid_unseen": 12}), tmp_path)
    won = [play(tmp_path / task.options["game"], noise=noise).won for task in tasks for noise in (0.0, 0.12)]
    assert np.mean(won) >= 0.95


def test_reads_nothing_but_texts(real_games: list[Path]) -> None:
    for game in real_games[::10]:
        assert play(game, blind=True, noise=0.1) == play(game, blind=False, noise=0.1)


def test_names_nothing_before_it_was_told(real_games: list[Path]) -> None:
    for game in real_games:
        transcript = play(game)
        for number in range(1, len(transcript), 2):
            told = set(re.findall(r"[a-z]+ \d+", "\n".join(transcript[:number])))
            assert set(re.findall(r"[a-z]+ \d+", transcript[number].removeprefix("go to "))) <= told, transcript[number]


def test_plays_the_official_engine(real_games: list[Path]) -> None:
    game = real_games[0]
    transcript = play(game, engine="textworld")
    assert transcript.won
    assert transcript == play(game)


def test_order_of_search(real_games: list[Path]) -> None:
    games = real_games[::6]
    fixed = [play(game, seed=0).actions for game in games]
    assert fixed == [play(game, seed=5).actions for game in games]
    varied = [play(game, seed=0, search="varied").actions for game in games]
    assert varied == [play(game, seed=0, search="varied").actions for game in games]
    assert sum(a != b for a, b in zip(fixed, varied, strict=True)) > len(games) / 3


def looked_into(search: envs.Search, **counts: int) -> list[str]:
    """Return the receptacles in the order in which a watch is searched for that is nowhere."""
    names = [f"{kind} {number}" for kind, count in counts.items() for number in range(count, 0, -1)]
    seen = ", ".join(f"a {name}" for name in names[:-1]) + f", and a {names[-1]}"
    observation = (
        f"You are in the middle of a room. Looking quickly around you, you see {seen}.\n\n"
        "Your task is to: put a watch in safe."
    )
    expert = SearchingExpert(np.random.default_rng(0), search)
    expert.reset(observation, {})
    order = []
    while len(order) < len(names):
        action = expert.act(observation, {})
        place = action.removeprefix("go to ").removeprefix("open ")
        if action.startswith("open"):
            observation = f"You open the {place}. The {place} is open. In it, you see nothing."
        elif place.startswith(("drawer", "safe")):
            observation = f"You arrive at {place}. The {place} is closed."
            order.append(place)
        else:
            observation = f"You arrive at {place}. On the {place}, you see nothing."
            order.append(place)
    return order


def test_plain_search_goes_kind_by_kind_however_many_there_are(real_games: list[Path]) -> None:
    few = looked_into("plain", coffeetable=1, dresser=1, drawer=1, sidetable=1, safe=1)
    order = [name.removesuffix(" 1") for name in few]
    assert order == ["coffeetable", "dresser", "sidetable", "drawer", "safe"]
    counts = {"coffeetable": 3, "dresser": 1, "drawer": 2, "sidetable": 4, "safe": 1}
    many = looked_into("plain", **counts)
    assert many == [f"{kind} {number}" for kind in order for number in range(counts[kind], 0, -1)]
    assert looked_into("best", **counts)[0] == "dresser 1"
    assert success(real_games, search="plain")["all"] >= 0.98
    assert success(real_games, search="plain", noise=0.25)["all"] >= 0.93
    for number, game in enumerate(real_games[::6]):
        assert play(game, search="plain").actions == play(game, seed=number, search="plain").actions


def start(task: str) -> SearchingExpert:
    expert = SearchingExpert(np.random.default_rng(0))
    expert.reset(INTRO.format(task), {})
    return expert


def converse(expert: SearchingExpert, task: str, script: list[tuple[str, str]]) -> str:
    """Run a script of (expected action, answer) and return the action after it.

    An expected action "! X" is noise: X is executed whatever the expert says.
    """
    observation, info = INTRO.format(task), {}
    for expected, answer in script:
        action = expert.act(observation, info)
        if expected.startswith("! "):
            action = expected.removeprefix("! ")
        assert action == expected.removeprefix("! ")
        observation, info = answer, {"last_action": action}
    return expert.act(observation, info)


EMPTY_COUNTERTOP = ("go to countertop 2", "You arrive at countertop 2. On the countertop 2, you see nothing.")
MUG = ("go to countertop 2", "You arrive at countertop 2. On the countertop 2, you see a mug 2, and a pan 1.")
TAKEN = ("take mug 2 from countertop 2", "You pick up the mug 2 from the countertop 2.")
NOTHING = "Nothing happens."
CASES = {
    "takes what it sees": ("put a mug in desk", [MUG], "take mug 2 from countertop 2"),
    "brings it": ("put a mug in desk", [MUG, TAKEN], "go to desk 1"),
    "opens what is closed": (
        "put a mug in fridge",
        [MUG, TAKEN, ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.")],
        "open fridge 1",
    ),
    "heats before it brings": (
        "put a hot mug in fridge",
        [MUG, TAKEN, ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed.")],
        "heat mug 2 with microwave 1",
    ),
    "heats again what was cooled": (
        "put a hot mug in desk",
        [
            MUG,
            TAKEN,
            ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
            ("heat mug 2 with microwave 1", "You heat the mug 2 using the microwave 1."),
            ("! go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed."),
            ("! cool mug 2 with fridge 1", "You cool the mug 2 using the fridge 1."),
        ],
        "go to microwave 1",
    ),
    "does not heat twice": (
        "put a hot mug in desk",
        [
            MUG,
            TAKEN,
            ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
            ("heat mug 2 with microwave 1", "You heat the mug 2 using the microwave 1."),
            ("! go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see nothing."),
            ("! move mug 2 to countertop 1", "You move the mug 2 to the countertop 1."),
            ("take mug 2 from countertop 1", "You pick up the mug 2 from the countertop 1."),
        ],
        "go to desk 1",
    ),
    "looks at what is within reach already": (
        "put a mug in desk",
        [EMPTY_COUNTERTOP, ("go to countertop 1", NOTHING)],
        "examine countertop 1",
    ),
    "opens what is within reach already": (
        "put a plate in desk",
        [
            EMPTY_COUNTERTOP,
            ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see nothing."),
            ("go to cabinet 2", NOTHING),
        ],
        "open cabinet 2",
    ),
    "puts back what noise took": (
        "put a mug in desk",
        [MUG, ("! take pan 1 from countertop 2", "You pick up the pan 1 from the countertop 2.")],
        "move pan 1 to countertop 2",
    ),
    "is rid of it elsewhere where that is refused": (
        "put a mug in desk",
        [
            MUG,
            ("! take pan 1 from countertop 2", "You pick up the pan 1 from the countertop 2."),
            ("move pan 1 to countertop 2", NOTHING),
        ],
        "go to countertop 1",
    ),
    "fetches what noise dropped behind a door": (
        "put a mug in desk",
        [
            MUG,
            TAKEN,
            ("! go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
            ("! open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing."),
            ("! move mug 2 to cabinet 1", "You move the mug 2 to the cabinet 1."),
            ("! close cabinet 1", "You close the cabinet 1."),
        ],
        "open cabinet 1",
    ),
    "brings the second one where the first one is": (
        "put two mug in cabinet",
        [
            MUG,
            TAKEN,
            ("! go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
            ("open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing."),
            ("move mug 2 to cabinet 1", "You move the mug 2 to the cabinet 1."),
            ("! go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a mug 1."),
            ("take mug 1 from countertop 1", "You pick up the mug 1 from the countertop 1."),
        ],
        "go to cabinet 1",
    ),
    "carries the thing to the lamp that it saw before": (
        "look at mug under the desklamp",
        [
            ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1."),
            MUG,
            TAKEN,
        ],
        "go to desk 1",
    ),
    "switches the lamp on": (
        "look at mug under the desklamp",
        [
            ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a desklamp 1, and a mug 1."),
            ("take mug 1 from desk 1", "You pick up the mug 1 from the desk 1."),
        ],
        "use desklamp 1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_situations(case: str) -> None:
    task, script, expected = CASES[case]
    assert converse(start(task), task, script) == expected


def test_goes_on_when_all_was_seen_in_vain() -> None:
    task = "put a mug in desk"
    expert = start(task)
    observation, info, visited = INTRO.format(task), {}, []
    for _ in range(40):
        action = expert.act(observation, info)
        visited.append(action)
        name = " ".join(action.split()[-2:])
        observation = f"You arrive at {name}. On the {name}, you see nothing."
        info = {"last_action": action}
    assert all(action.startswith("go to") for action in visited)
    assert len(set(visited)) == 8
