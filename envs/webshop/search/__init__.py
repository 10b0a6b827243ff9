"""Full-text search over a catalogue, with the results of Lucene: same list, same order."""

from envs.webshop.search.engine import LIMIT, Search

__all__ = ["LIMIT", "Search"]
