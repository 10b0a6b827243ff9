"""Game i of a split, as files."""

import json
from dataclasses import dataclass
from pathlib import Path

from envs.alfworld.generate.furnish import furnish
from envs.alfworld.generate.goals import LIGHT, Goal, choose
from envs.alfworld.generate.problem import problem, sentence
from envs.alfworld.generate.shipped import domain, grammar
from envs.alfworld.generate.streams import stream
from envs.alfworld.generate.walkthrough import walkthrough
from envs.alfworld.settings import TASK_TYPES, Difficulty


@dataclass(frozen=True)
class GeneratedGame:
    """A game ready to be written.

    Attributes:
        name: readable and unique over all splits, e.g.
            "train-0007-pick_heat_then_place_in_recep-Egg-Microwave-11".
        goal: what it asks for.
        room: the number of its floor plan.
        content: the JSON object of `game.tw-pddl`, with the keys of the released games.
    """

    name: str
    goal: Goal
    room: int
    content: dict[str, object]

    def write(self, folder: Path) -> Path:
        """Write the game below a folder, `<name>/game.tw-pddl`, and return its path.

        Beside it goes a `traj_data.json` with what alfworld's own loader and its scripted agent read there.
        """
        place = folder / self.name
        place.mkdir(parents=True, exist_ok=True)
        lit = self.goal.task_type == LIGHT
        trajectory = {
            "task_type": self.goal.task_type,
            "task_id": self.name,
            "pddl_params": {
                "object_target": self.goal.thing,
                "object_sliced": False,
                "mrecep_target": "",
                "parent_target": "" if lit else self.goal.target,
                "toggle_target": self.goal.target if lit else "",
            },
            "scene": {"floor_plan": f"FloorPlan{self.room}", "scene_num": self.room},
        }
        (place / "traj_data.json").write_text(json.dumps(trajectory, indent=1) + "\n", encoding="utf-8")
        path = place / "game.tw-pddl"
        path.write_text(json.dumps(self.content), encoding="utf-8")
        return path


def generate(
    seed: int,
    split: str,
    index: int,
    types: tuple[str, ...] = TASK_TYPES,
    difficulty: Difficulty | None = None,
) -> GeneratedGame:
    """Make a game of a split.

    It depends on the arguments alone: not on how many games are made, nor on the order in which they are.

    Args:
        split: "train", "validation" and "valid_seen" play in the same rooms, "valid_unseen" in rooms of its own.
        index: from 0.

    Raises:
        EnvironmentDataError: the split has no room for that task type, or alfworld is not installed as expected.
    """
    difficulty = difficulty or Difficulty()
    goal, room = choose(seed, split, index, types, difficulty)
    rng = stream("game", seed, split, index)
    choice = int(rng.integers(2))
    game = furnish(goal, room, difficulty, rng)
    name = f"{split}-{index:04d}-{goal.task_type}-{goal.thing}-{goal.target}-{room.number}"
    content = {
        "pddl_domain": domain(),
        "grammar": grammar(sentence(goal, choice)),
        "pddl_problem": problem(game, name.replace("-", "_")),
        "solvable": True,
        "walkthrough": walkthrough(game),
    }
    return GeneratedGame(name, goal, room.number, content)
