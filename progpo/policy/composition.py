"""First embeddings of numbered things, composed of their name's and their number's.

A tokenizer from scratch gives a thing with its number ("cabinet 6") one token. With independent first embeddings a
policy learns for each of them anew what it is and which word of the task means it; composed, they begin as the same
thing with different numbers. Nothing but the start differs: the model stays an ordinary Qwen2, and each embedding then
goes its own way.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from progpo.policy.tokenizer import SPACE

#: A token of a name and a number.
NUMBERED = re.compile(rf"({SPACE}?[^\W\d_]+){SPACE}(\d+)")
#: Share of a composed embedding's variance that is the token's own.
OWN = 0.1


@torch.no_grad()
def compose(embeddings: Tensor, vocabulary: Mapping[str, int]) -> int:
    """Compose the rows of numbered things.

    A name that is a token gives its row, another name and each number a vector drawn like the rows; all have the same
    variance, and so have the composed rows.

    Args:
        embeddings: (tokens, hidden size), drawn independently; changed in place.
        vocabulary: each token's row.

    Returns:
        How many rows were composed.
    """
    width = embeddings.std()
    found = [(match, row) for token, row in sorted(vocabulary.items()) if (match := NUMBERED.fullmatch(token))]
    names = sorted({match[1] for match, _ in found})
    numbers = sorted({int(match[2]) for match, _ in found})
    of_name = {
        name: embeddings[vocabulary[name]].clone() if name in vocabulary else _draw(embeddings, width) for name in names
    }
    of_number = {number: _draw(embeddings, width) for number in numbers}
    for match, row in found:
        shared = (of_name[match[1]] + of_number[int(match[2])]) * ((1 - OWN) / 2) ** 0.5
        embeddings[row] = shared + OWN**0.5 * embeddings[row]
    return len(found)


def _draw(embeddings: Tensor, width: Tensor) -> Tensor:
    return torch.randn(embeddings.shape[1]) * width
