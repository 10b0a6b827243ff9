"""A generator of ALFWorld games, from what the alfworld package ships.

Domain and grammar of a generated game are, character by character, those of all released games (the task sentence
aside): `shipped.domain()` and `shipped.grammar(task)`. Whoever recognises games by these texts finds them there.
"""

from envs.alfworld.generate.games import GeneratedGame, generate
from envs.alfworld.generate.shipped import domain, grammar

__all__ = ["GeneratedGame", "domain", "generate", "grammar"]
