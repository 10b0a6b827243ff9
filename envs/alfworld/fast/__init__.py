"""ALFWorld games in plain Python: the official engine's behaviour to the byte, thousands of times faster."""

from envs.alfworld.fast.episode import FastEpisode, Snapshot
from envs.alfworld.fast.game import Game, load_game
from envs.alfworld.fast.rules import DOMAINS, GRAMMARS, UnsupportedGameError

__all__ = ["DOMAINS", "GRAMMARS", "FastEpisode", "Game", "Snapshot", "UnsupportedGameError", "load_game"]
