"""Exercises in associative recall: which of the things listed is of the kind asked for, if any?

To act well, a policy must find in what it reads the thing that its task names. A small one from scratch does not learn
this from demonstrations, or only late: until attention has found what to attend to, its gradient is faint, and guessing
by what is common is the easier way down. In exercises made of nothing else the same is learned in minutes
(multi-query associative recall, arXiv 2312.04927; why it comes so suddenly: arXiv 2505.17863), and the demonstrations
then build on it.

An exercise lists numbered things of the policy's own vocabulary, each of another kind, drawn at random so that nothing
but the list tells the answer. Then it asks, several times: a kind's name and the token that asks for an action; the
answer is the thing of that kind, or the token that ends an action where there is none.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from progpo.errors import ProgpoError
from progpo.policy.composition import NUMBERED
from progpo.policy.lessons import Lesson
from progpo.policy.tokenizer import ACTION, END
from progpo.seeds import stream

#: How many things a list holds, and how many questions follow.
LEAST_LISTED, MOST_LISTED = 3, 15
QUESTIONS = 12
#: Share of the questions that ask for a kind that is not listed.
ABSENT = 0.5
#: Exercises that share a stream of random numbers.
BLOCK = 64


class Exercises:
    """Exercises without end.

    Args:
        vocabulary: each token's id; things are those of a name and a number whose name is a token too.
        seed: of what is listed and asked.

    Raises:
        ProgpoError: too few kinds of numbered things.
    """

    def __init__(self, vocabulary: Mapping[str, int], seed: int) -> None:
        things: dict[str, list[int]] = {}
        for token, number in sorted(vocabulary.items()):
            if (match := NUMBERED.fullmatch(token)) and match[1] in vocabulary:
                things.setdefault(match[1], []).append(number)
        if len(things) <= MOST_LISTED:
            raise ProgpoError(
                f"warmup.recall: the vocabulary holds {len(things)} kinds of numbered things, and exercises need more "
                f"than {MOST_LISTED}; leave it out"
            )
        self._names = [vocabulary[name] for name in things]
        self._things = list(things.values())
        self._ask, self._none = vocabulary[ACTION], vocabulary[END]
        self._seed = seed

    def stream(self, start: int = 0) -> Iterator[tuple[int, Lesson]]:
        """Yield exercises from the `start`-th on, each with its number; the answers alone are to be predicted."""
        block, skipped = divmod(start, BLOCK)
        while True:
            rng = stream("recall", self._seed, block)
            for place in range(BLOCK):
                exercise = self._draw(rng)
                if place >= skipped:
                    yield block * BLOCK + place, exercise
            block, skipped = block + 1, 0

    def _draw(self, rng: np.random.Generator) -> Lesson:
        kinds = rng.permutation(len(self._things)).tolist()
        count = int(rng.integers(LEAST_LISTED, MOST_LISTED + 1))
        listed = [self._things[kind][rng.integers(len(self._things[kind]))] for kind in kinds[:count]]
        tokens, places = list(listed), []
        for absent in (rng.random(QUESTIONS) < ABSENT).tolist():
            place = int(rng.integers(count, len(kinds)) if absent else rng.integers(count))
            places.append(len(tokens) + 2)
            tokens += [self._names[kinds[place]], self._ask, self._none if absent else listed[place]]
        return Lesson(np.array(tokens, np.int32), np.array(places, np.int64), np.ones(len(places), bool))
