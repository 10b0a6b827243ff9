"""Reading `game.tw-pddl` files, and what is known of a game without playing it."""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from envs.alfworld.settings import TASK_TYPES
from envs.base import EnvironmentDataError

_REMEDY = "download it again with `alfworld-download`, or generate the games again"


def read_game(path: str | Path) -> dict[str, Any]:
    """Return the JSON object of a game file.

    Returns:
        At least `pddl_domain`, `grammar` and `pddl_problem`, each a string.

    Raises:
        EnvironmentDataError: the file is missing, no JSON object, or lacks one of those keys; names the file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise EnvironmentDataError(
            f"cannot read the game {path}: {error.strerror}; check the path, or prepare the games"
        ) from error
    except ValueError as error:
        raise broken(path, f"it is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise broken(path, "it holds no JSON object")
    for key in ("pddl_domain", "grammar", "pddl_problem"):
        if not isinstance(data.get(key), str):
            raise broken(path, f"the key `{key}` is missing, or is no text")
    return data


def broken(path: str | Path, reason: str) -> EnvironmentDataError:
    """Return (not raise) the error that says what is wrong with a game file, and the remedy."""
    return EnvironmentDataError(f"broken game file {path}: {reason}; {_REMEDY}")


@lru_cache(maxsize=65536)
def find_task_type(path: str) -> str | None:
    """Return the game's task type as its surroundings tell it, or None.

    First `traj_data.json` beside the game, then the names of the two folders above it, which begin with the task
    type in the official layout (`<type>-<object>-...-<scene>/<trial>/game.tw-pddl`).
    """
    folder = Path(path).absolute().parent
    try:
        told = json.loads((folder / "traj_data.json").read_text(encoding="utf-8")).get("task_type")
    except (OSError, ValueError, AttributeError):
        told = None
    if told in TASK_TYPES:
        return told
    for name in (folder.name, folder.parent.name):
        for task_type in TASK_TYPES:
            if name.startswith(task_type):
                return task_type
    return None


def task_type_of_goal(problem: str) -> str:
    """Return the task type that the goal of a PDDL problem belongs to: each type has a predicate of its own."""
    goal = problem[problem.find("(:goal") :].lower()
    for predicate, task_type in (
        ("istoggled", "look_at_obj_in_light"),
        ("isclean", "pick_clean_then_place_in_recep"),
        ("ishot", "pick_heat_then_place_in_recep"),
        ("iscool", "pick_cool_then_place_in_recep"),
    ):
        if predicate in goal:
            return task_type
    two = re.search(r"\(\s*not\s*\(\s*=", goal)
    return "pick_two_obj_and_place" if two else "pick_and_place_simple"
