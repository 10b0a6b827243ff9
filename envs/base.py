"""What the pipeline asks of an environment.

An environment is a Gymnasium environment over text: `reset(seed=, options=) -> (observation, info)` and
`step(action) -> (observation, reward, terminated, truncated, info)`, observations and actions being `str`.
`info` holds `admissible_commands` (list[str]), `task_type` (str), `won` (bool), `score` (float in [0, 1]) and,
where the environment can give one, `state_key` (str): a short digest of all that a player can tell apart. Where more
is allowed than can be listed, as a search for words of one's own, `info` of a step also holds `valid` (bool): whether
its action was allowed, and `listed_commands` (list[str]): what a prompt lists in place of `admissible_commands`, with
forms such as "search[<words>]" among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


class EnvironmentDataError(Exception):
    """Bad environment data or settings: the message names the thing and the remedy."""


#: The options of a task that hold a path, of a file or a folder.
PATH_OPTIONS = ("game", "folder")


@dataclass(frozen=True)
class Task:
    """One task: a game or a goal, and how an environment is reset to it.

    Attributes:
        id: unique within the experiment, readable (file-name safe).
        split: "train", and others that the environment names.
        task_type: the family the task belongs to, for reporting.
        options: passed to `reset(options=...)`; those named in PATH_OPTIONS are paths, and relative ones are
            relative to the folder of the task list.
    """

    id: str
    split: str
    task_type: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Exercise:
    """An exercise in recall, in an environment's own words: which action does each of several tasks ask for here?

    Attributes:
        observation: what is seen.
        questions: pairs: a task, as it follows on an observation, and how the action begins that it asks for.
    """

    observation: str
    questions: tuple[tuple[str, str], ...]


def was_valid(action: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether an action was allowed, by the `info` before and after it."""
    return bool(after["valid"]) if "valid" in after else action in before["admissible_commands"]


def listed_commands(info: Mapping[str, Any]) -> Sequence[str]:
    """Return what a prompt lists as allowed: the admissible commands, or what the environment lists in their place."""
    return info.get("listed_commands", info["admissible_commands"])


#: How an expert searches: in the order that promises most ("best"); in another but equally sensible one, drawn anew for
#: each episode ("varied"); or in one that is always the same and easy to learn ("plain").
Search = Literal["best", "varied", "plain"]


class Expert(Protocol):
    """Plays by what a policy can see: observations and admissible commands, nothing hidden."""

    def reset(self, observation: str, info: Mapping[str, Any]) -> None:
        """Start an episode; `observation` is what `reset` of the environment returned."""
        ...

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Return the next action, given the latest observation (of the reset, or of the last step).

        The last executed action may not have been the expert's own (noise was injected): the expert is told by
        `info["last_action"]` (absent at the first call) and goes on from there.
        """
        ...
