"""Playing one task in the terminal, or by a pipe: actions are lines of the input, one each."""

import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

import envs
from envs import Task, listed_commands, was_valid
from progpo.errors import ProgpoError
from progpo.seeds import stream
from progpo.settings.base import validate
from progpo.settings.experiment import TasksStage
from progpo.tasks import load_tasks

if TYPE_CHECKING:
    from progpo.console.advisor import Advice, Advisor

#: Width of the bar of a probability of 1.
BAR = 20
HELP = "type an action or its number; ? lists the actions, an empty line takes the policy's choice, quit ends"
#: Said of environments that allow more than can be listed (see `envs.base`).
MORE = "\nnot all that can be done is listed, such as search[words]"


class Say(Protocol):
    """Prints one text, and the line's end."""

    def __call__(self, text: str = "", /) -> None: ...


@dataclass(frozen=True)
class Game:
    """Who plays what.

    Attributes:
        environment: that is played.
        task: that it is reset to.
        expert: plays, where there is one.
        advisor: tells what the policy would do.
        advised: whether a person plays and is just told; else the policy plays, if there is one and no expert.
        top: most actions that are listed with their probabilities.
    """

    environment: Any
    task: Task
    expert: envs.Expert | None = None
    advisor: "Advisor | None" = None
    advised: bool = False
    top: int = 5


@contextmanager
def choose_task(name: str, folder: Path | None, split: str | None, task: str | None, seed: int) -> Iterator[Task]:
    """Yield a task: of a folder, or generated, in a folder that is removed at the end.

    Args:
        name: of the environment.
        folder: made by `progpo tasks`; None: one task is generated.
        split: of the folder's tasks; None: any.
        task: its id; None: one by the seed.
        seed: of the choice, or of the generation.

    Raises:
        ProgpoError: no such task.
        EnvironmentDataError: no such environment, or no data for it.
    """
    if folder is not None:
        tasks = load_tasks(folder, split)
        if task is None:
            yield tasks[int(stream("play", seed).integers(len(tasks)))]
            return
        for candidate in tasks:
            if candidate.id == task:
                yield candidate
                return
        raise ProgpoError(f"--task {task!r}: not in {folder}; there are {len(tasks)}, such as {tasks[0].id!r}")
    if task is not None or split is not None:
        raise ProgpoError("--task and --split choose from a folder; name it by --tasks")
    defaults = validate(TasksStage, {"environment": name}, "tasks").tasks
    few = {"splits": dict.fromkeys(list(defaults.splits)[:1], 1), "seed": seed}
    settings = validate(TasksStage, {"environment": name, "tasks": few}, "tasks")
    with TemporaryDirectory(prefix="progpo-play-") as place:
        made = envs.entry(name).load("prepare")(settings.tasks, Path(place))[0]
        paths = {key: str(Path(place) / made.options[key]) for key in envs.PATH_OPTIONS if key in made.options}
        yield Task(made.id, made.split, made.task_type, {**made.options, **paths})


def play(game: Game, say: Say, ask: Callable[[], str | None]) -> float | None:
    """Play to the end.

    Args:
        game: who plays what.
        say: prints.
        ask: returns the next line of a person, None where there is none.

    Returns:
        The score; None: the person left.

    Raises:
        ProgpoError: the task does not fit into the policy's context.
    """
    environment, advisor = game.environment, game.advisor
    person = game.expert is None and (advisor is None or game.advised)
    observation, info = environment.reset(options=dict(game.task.options))
    if game.expert is not None:
        game.expert.reset(observation, info)
    if advisor is not None:
        advisor.start(observation, listed_commands(info))
    say(f"task: {plain(game.task.id)} ({plain(game.task.task_type)})")
    if person:
        say(HELP + (MORE if "valid" in info else ""))
    say(f"\n{plain(observation)}")
    steps, over = 0, False
    while not over:
        steps += 1
        admissible = info["admissible_commands"]
        advice = None
        say(f"\n--- step {steps}")
        if advisor is not None and not advisor.full:
            advice = advisor.advise(admissible)
            say(describe(advice, admissible, game.top))
        elif advisor is not None:
            say("the policy's context is full: it would be cut here (policy.max_context_tokens)")
            if not person and game.expert is None:
                say(_end(info, steps - 1, "cut"))
                return float(info["score"])
        if game.expert is not None:
            action = game.expert.act(observation, info)
        elif person:
            action = _ask(admissible, advice.choice if advice else None, say, ask)
            if action is None:
                say(f"left after {steps - 1} steps")
                return None
        else:
            action = advice.choice
        before = info
        observation, reward, terminated, truncated, info = environment.step(action)
        if game.expert is not None:
            info = {**info, "last_action": action}
        note = "" if was_valid(action, before, info) else "  (not admissible)"
        say(f"> {plain(action)}{note}\n{plain(observation)}")
        if reward:
            say(f"reward {float(reward):g}")
        if advisor is not None:
            advisor.follow(action, observation, listed_commands(info))
        over = terminated or truncated
    say(_end(info, steps, "cut" if truncated and not terminated else "over"))
    return float(info["score"])


def _ask(admissible: Sequence[str], choice: str | None, say: Say, ask: Callable[[], str | None]) -> str | None:
    """Return the action that a person wants, None where they leave."""
    say(columns([f"{number} {plain(action)}" for number, action in enumerate(admissible, 1)], _width()))
    while True:
        line = ask()
        if line is None or line.strip() in ("quit", "exit"):
            return None
        line = line.strip()
        if line == "?":
            say(columns([f"{number} {plain(action)}" for number, action in enumerate(admissible, 1)], _width()))
        elif line.isdecimal():
            if 1 <= int(line) <= len(admissible):
                return admissible[int(line) - 1]
            say(f"there is no action {line}: there are {len(admissible)}")
        elif line:
            return line
        elif choice is not None:
            return choice


def describe(advice: "Advice", admissible: Sequence[str], top: int) -> str:
    """Return advice as lines: probability, a bar, the action."""
    lines = ["the policy would:"]
    if advice.thought:
        lines.insert(0, plain(advice.thought.strip()))
    shown = advice.candidates[:top]
    for candidate in shown:
        marks = "*" if candidate.action == advice.choice else " "
        bar = "█" * round(BAR * min(candidate.probability, 1.0))
        note = "" if candidate.action in admissible else "  (not listed)"
        lines.append(f" {marks}{100 * candidate.probability:5.1f} % {bar:<{BAR}} {plain(candidate.action)}{note}")
    if advice.choice not in [candidate.action for candidate in shown]:
        lines.append(f" * (drew a rarer one: {plain(advice.choice)})")
    rest = 1 - sum(candidate.probability for candidate in shown)
    if rest >= 0.0005:
        lines.append(f"  {100 * rest:5.1f} % {'':<{BAR}} anything else")
    return "\n".join(lines)


def _end(info: Mapping[str, Any], steps: int, how: str) -> str:
    result = "won" if info["won"] else "not won"
    cut = ", cut there" if how == "cut" else ""
    return f"\n{result} after {steps} steps{cut}; score {float(info['score']):g}"


def plain(text: str) -> str:
    """Return text with control characters replaced: what an environment says must not steer the terminal."""
    return "".join(
        character if character in "\n\t" or not unicodedata.category(character).startswith("C") else "\ufffd"
        for character in text
    )


def columns(items: Sequence[str], width: int) -> str:
    """Return items in as many columns as the width has room for, read downwards."""
    if not items:
        return "(no action is listed)"
    wide = max(map(len, items)) + 2
    count = max(1, width // wide)
    rows = -(-len(items) // count)
    return "\n".join("".join(item.ljust(wide) for item in items[row::rows]).rstrip() for row in range(rows))


def _width() -> int:
    return shutil.get_terminal_size().columns
