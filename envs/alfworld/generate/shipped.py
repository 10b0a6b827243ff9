"""What the alfworld package ships, read without importing the package.

Importing alfworld makes a folder in the user's cache and sets an environment variable, and its game code imports
OpenCV and AI2-THOR; the files and the two plain tables read here need none of that.
"""

import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType

from envs.base import EnvironmentDataError

#: The line of the shipped domain that is a comment there and a condition in all released games.
_SINK = "(receptacleType ?r SinkType)"
#: In the shipped grammar the help text is a rule of its own; in all released games it stands inline.
_HELP = re.compile(r'feedback :: "#help\.feedback#";\s*grammar :: """(.*?)""";', re.DOTALL)


@cache
def package() -> Path:
    """Return the folder of the installed alfworld package; raises EnvironmentDataError where there is none."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentDataError("the package alfworld is not installed; install it: pip install 'alfworld>=0.4.2'")
    return Path(next(iter(spec.submodule_search_locations)))


def _read(*parts: str) -> str:
    path = package().joinpath(*parts)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise EnvironmentDataError(
            f"{path}: {error.strerror}; the installed alfworld is not as expected: reinstall alfworld 0.4.2"
        ) from None


@cache
def _module(name: str) -> ModuleType:
    path = package() / "gen" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_shipped_{name}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise EnvironmentDataError(f"{path}: {error.strerror}; reinstall alfworld 0.4.2") from None
    return module


def constants() -> ModuleType:
    """Return the tables of `alfworld.gen.constants`: what goes where, what can be heated, cleaned, cooled, sliced."""
    return _module("constants")


def goal(task_type: str) -> tuple[str, list[str]]:
    """Return a task type's goal (PDDL with fields {obj}, {recep}, {toggle}) and its two task sentences."""
    entry = _module("goal_library").gdict[task_type]
    return entry["pddl"].replace("#", "-"), entry["templates"]


@cache
def domain() -> str:
    """Return the PDDL domain of the released games.

    It is the shipped `alfred.pddl` with the condition on SinkType let in (no receptacle has that type) and without
    the empty line before its last bracket.
    """
    text = _read("data", "alfred.pddl").rstrip().removesuffix(")").rstrip()
    return text.replace(f";{_SINK}", _SINK) + "\n)\n"


def grammar(task: str) -> str:
    """Return the text grammar of the released games with a task sentence in it, e.g. "put a mug in desk"."""
    return _grammar().replace("UNKNOWN GOAL", task)


@cache
def _grammar() -> str:
    """Return the shipped `alfred.twl2` with the help text inline."""
    text = _read("data", "alfred.twl2")
    found = _HELP.search(text)
    if found is None:
        raise EnvironmentDataError(f"{package() / 'data/alfred.twl2'}: no help text; reinstall alfworld 0.4.2")
    help_text = json.loads(found[1])["help.feedback"][0]["rhs"]
    return text[: found.start()] + f'feedback :: "{help_text}";' + text[found.end() :]


def floor_plan(room: int) -> tuple[list[str], dict[str, list[float]], Path]:
    """Return a room's object types, its receptacles with the pose that reaches each, and its layout file.

    A pose is [x, z, rotation in degrees, horizon in degrees], lengths in metres; the layout is a numpy array
    (points, 2) of the places where an agent can stand.
    """
    kinds = json.loads(_read("gen", "layouts", f"FloorPlan{room}-objects.json"))
    poses = json.loads(_read("gen", "layouts", f"FloorPlan{room}-openable.json"))
    return kinds, poses, package() / "gen" / "layouts" / f"FloorPlan{room}-layout.npy"
