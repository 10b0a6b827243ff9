"""A generator of WebShop catalogues, in the original's schema, with nothing but this project's words."""

from envs.webshop.generate.files import generate
from envs.webshop.generate.products import Product

__all__ = ["Product", "generate"]
