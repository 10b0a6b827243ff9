"""Search over a catalogue: what the shop's search field does."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from envs.webshop.search.index import Index

if TYPE_CHECKING:
    from envs.webshop.catalogue import Catalogue
    from envs.webshop.products import Product

#: How many results there are at most.
LIMIT = 50
#: Of so many queries the results are kept.
REMEMBERED = 1024


class Search:
    """Ranked full-text search over the products of a catalogue."""

    def __init__(self, source: "Catalogue | str | Path") -> None:
        """Index a catalogue, or that of a folder (see `load_catalogue`, which raises EnvironmentDataError)."""
        if isinstance(source, str | Path):
            from envs.webshop.catalogue import load_catalogue

            source = load_catalogue(source)
        self._products = source.products
        # The episodes of a group often search alike.
        self.products = lru_cache(maxsize=REMEMBERED)(self._find)
        self._index = Index(map(document, source.products))
        asins = np.array([product.asin for product in source.products])
        # Equal scores are ordered by asin.
        self._rank = np.empty(len(asins), np.int64)
        self._rank[np.argsort(asins, kind="stable")] = np.arange(len(asins))

    def __call__(self, query: str, limit: int = LIMIT) -> list[str]:
        """Return the asins of the best products, best first; none where no word of the query is known."""
        return [product.asin for product in self.products(query, limit)]

    def _find(self, query: str, limit: int = LIMIT) -> tuple["Product", ...]:
        """Return the best products, best first."""
        found, scores = self._index.scores(query)
        if len(found) > limit:
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            kept = scores >= least
            found, scores = found[kept], scores[kept]
        best = np.lexsort((self._rank[found], -scores))[:limit]
        return tuple(self._products[number] for number in found[best].tolist())


def document(product: "Product") -> str:
    """Return the text that a product is found by: title, description, first bullet point, options."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    first = product.bullet_points[0] if product.bullet_points else ""
    return " ".join((product.title, product.description, first, options)).lower()
