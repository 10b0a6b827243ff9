"""WebShop (arXiv 2207.01206): shopping in a catalogue of products, by search and click."""

from envs.webshop.catalogue import Catalogue, load_catalogue
from envs.webshop.goals import Goal, Goals, make_goals
from envs.webshop.rating import reward
from envs.webshop.search import Search

__all__ = ["Catalogue", "Goal", "Goals", "Search", "load_catalogue", "make_goals", "reward"]
