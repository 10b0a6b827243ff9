"""A corridor of rooms: the smallest environment that the pipeline can be run on, registered as "corridor".

Someone walks from room to room, finds a coin and, in tasks of type "deliver", brings it to another room.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from pydantic import BaseModel, ConfigDict

import envs

TASK_TYPES = ("fetch", "deliver")


class EnvironmentSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    max_steps: int = 12


class TaskSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    splits: dict[str, int] = {"train": 6, "valid": 4}
    seed: int = 0


class Corridor(gymnasium.Env):
    def __init__(self, max_steps: int = 12) -> None:
        self.max_steps = max_steps
        self.over = True

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[str, dict]:
        super().reset(seed=seed)
        self.rooms, self.coin, self.goal = options["rooms"], options["coin"], options["goal"]
        self.place, self.steps, self.over, self.held, self.done = 1, 0, False, False, False
        rooms = ", ".join(f"a room {number}" for number in range(1, self.rooms + 1))
        task = "find the coin" if self.goal is None else f"bring the coin to room {self.goal}"
        return f"You are in a corridor. Along it you see {rooms}.\n\nYour task is to: {task}.", self._info()

    def _admissible(self) -> list[str]:
        commands = [f"go to room {room}" for room in (self.place - 1, self.place + 1) if 1 <= room <= self.rooms]
        if self.held:
            commands.append(f"put coin 1 in room {self.place}")
        elif self.place == self.coin:
            commands.append(f"take coin 1 from room {self.place}")
        return sorted([*commands, "look"])

    def _info(self) -> dict[str, Any]:
        return {
            "admissible_commands": self._admissible(),
            "won": self.done,
            "score": float(self.done),
            "task_type": TASK_TYPES[self.goal is not None],
            "state_key": f"{self.place}-{int(self.held)}",
        }

    def _look(self) -> str:
        there = "a coin 1" if self.place == self.coin and not self.held else "nothing"
        return f"You are in room {self.place}. In it, you see {there}."

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise RuntimeError("the episode is over: call reset")
        self.steps += 1
        observation = "Nothing happens."
        if action in self._admissible():
            if action == "look":
                observation = self._look()
            elif action.startswith("go to"):
                self.place = int(action.split()[-1])
                observation = self._look()
            elif action.startswith("take"):
                self.held = True
                observation = f"You take the coin 1 from the room {self.place}."
                self.done = self.goal is None
            else:
                self.held, self.coin = False, self.place
                observation = f"You put the coin 1 in the room {self.place}."
                self.done = self.place == self.goal
        truncated = not self.done and self.steps >= self.max_steps
        self.over = self.done or truncated
        return observation, float(self.done), self.done, truncated, self._info()


class CorridorExpert:
    """Walks to the end and back until it sees the coin; varied, it looks around at times."""

    def __init__(self, rng: np.random.Generator, search: envs.Search = "best") -> None:
        self.rng, self.search = rng, search

    def reset(self, observation: str, info: Mapping[str, Any]) -> None:
        goal = re.search(r"to room (\d+)\.$", observation)
        self.goal = int(goal[1]) if goal else None
        self.direction = 1

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        commands = info["admissible_commands"]
        for command in commands:
            if command.startswith("take") or command == f"put coin 1 in room {self.goal}":
                return command
        if self.search == "varied" and self.rng.random() < 0.2:
            return "look"
        there = sorted(int(command.split()[-1]) for command in commands if command.startswith("go to"))
        held = next((command for command in commands if command.startswith("put")), None)
        if held:
            place = int(held.split()[-1])
            return f"go to room {place + (1 if self.goal > place else -1)}"
        return f"go to room {there[-1]}"


def make(**options: Any) -> Corridor:
    return Corridor(**options)


def prepare(settings: TaskSettings, folder: Path) -> list[envs.Task]:
    tasks = []
    for split, count in settings.splits.items():
        rng = np.random.default_rng([settings.seed, len(split)])
        for number in range(count):
            rooms = int(rng.integers(3, 6))
            coin, goal = int(rng.integers(2, rooms + 1)), int(rng.integers(1, rooms + 1))
            goal = goal if number % 2 and goal != coin else None
            options = {"rooms": rooms, "coin": coin, "goal": goal}
            tasks.append(envs.Task(f"{split}-{number}", split, TASK_TYPES[goal is not None], options))
    return tasks


def texts(tasks: list[envs.Task]) -> list[str]:
    """Observations and actions of the expert on these tasks."""
    seen = []
    environment = make()
    for task in tasks:
        observation, info = environment.reset(options=task.options)
        expert = CorridorExpert(np.random.default_rng(0))
        expert.reset(observation, info)
        seen.append(observation)
        over = False
        while not over:
            action = expert.act(observation, info)
            observation, _, won, truncated, info = environment.step(action)
            seen += [action, observation]
            over = won or truncated
    return seen


ENTRY = envs.registry.Entry(
    name="corridor",
    make="corridor:make",
    settings="corridor:EnvironmentSettings",
    task_settings="corridor:TaskSettings",
    prepare="corridor:prepare",
    expert="corridor:CorridorExpert",
)
envs.register(ENTRY)
