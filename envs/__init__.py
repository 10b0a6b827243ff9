"""Text environments behind the Gymnasium API; importable without torch and without progpo."""

from envs.base import EnvironmentDataError, Expert, Task
from envs.registry import Entry, entry, make, register

__all__ = ["Entry", "EnvironmentDataError", "Expert", "Task", "entry", "make", "register"]
