"""Text environments behind the Gymnasium API; importable without torch and without progpo."""

from envs.base import PATH_OPTIONS, EnvironmentDataError, Exercise, Expert, Search, Task, listed_commands, was_valid
from envs.registry import Entry, entry, make, register

__all__ = [
    "PATH_OPTIONS",
    "Entry",
    "EnvironmentDataError",
    "Exercise",
    "Expert",
    "Search",
    "Task",
    "entry",
    "listed_commands",
    "make",
    "register",
    "was_valid",
]
