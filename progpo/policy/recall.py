"""Exercises in associative recall: which of the things listed is of the kind asked for, if any?

To act well, a policy must find in what it reads the thing that its task names. A small one from scratch does not learn
this from demonstrations, or only late: until attention has found what to attend to, its gradient is faint, and guessing
by what is common is the easier way down. In exercises made of nothing else the same is learned in minutes
(multi-query associative recall, arXiv 2312.04927; why it comes so suddenly: arXiv 2505.17863), and the demonstrations
then build on it.

`Bare` exercises are made of tokens alone: they are short, and learned first. `Told` ones ask the same in an
environment's own sentences, where the kind asked for stands among other words and the answer is how an action begins;
what is learned there holds in the demonstrations.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from envs import Exercise
from progpo.errors import ProgpoError
from progpo.policy.composition import NUMBERED
from progpo.policy.lessons import Lesson
from progpo.policy.rendering import Renderer
from progpo.policy.tokenizer import ACTION, END
from progpo.seeds import stream

#: Bare exercises: how many things a list holds, and how many questions follow.
LEAST_LISTED, MOST_LISTED = 3, 15
QUESTIONS = 12
#: Share of the questions that ask for a kind that is not listed.
ABSENT = 0.5
#: Exercises that share a stream of random numbers.
BLOCK = 64


class Exercises(ABC):
    """Exercises without end.

    Args:
        name: of their stream of random numbers.
        seed: of what is listed and asked.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._name, self._seed = name, seed

    def stream(self, start: int = 0) -> Iterator[tuple[int, Lesson]]:
        """Yield exercises from the `start`-th on, each with its number; the answers alone are to be predicted."""
        block, skipped = divmod(start, BLOCK)
        while True:
            rng = stream(self._name, self._seed, block)
            for place in range(BLOCK):
                exercise = self._draw(rng)
                if place >= skipped:
                    yield block * BLOCK + place, exercise
            block, skipped = block + 1, 0

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> Lesson: ...


class Bare(Exercises):
    """Numbered things of a policy's vocabulary, each of another kind, at random; then questions.

    A question is a kind's name and the token that asks for an action; the answer is the thing of that kind, or the
    token that ends an action where there is none.

    Args:
        vocabulary: each token's id; things are those of a name and a number whose name is a token too.
        seed: of what is listed and asked.

    Raises:
        ProgpoError: too few kinds of numbered things.
    """

    def __init__(self, vocabulary: Mapping[str, int], seed: int) -> None:
        super().__init__("recall", seed)
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


class Told(Exercises):
    """An environment's exercises, as a policy reads them.

    One context shows the place and tells a task; further tasks follow, each after the answer to the one before. To be
    predicted is how the action begins.

    Args:
        draw: draws an exercise.
        renderer: of the policy.
        seed: of what is drawn.
    """

    def __init__(self, draw: Callable[[np.random.Generator], Exercise], renderer: Renderer, seed: int) -> None:
        super().__init__("told", seed)
        self._exercise, self._renderer = draw, renderer

    def _draw(self, rng: np.random.Generator) -> Lesson:
        exercise = self._exercise(rng)
        tokens: list[int] = []
        places: list[int] = []
        for number, (task, beginning) in enumerate(exercise.questions):
            seen = task if number else exercise.observation + task
            tokens += self._renderer.turn(seen, (), ended=not number)
            answer = self._renderer.encode(beginning)
            places += range(len(tokens), len(tokens) + len(answer))
            tokens += answer
        return Lesson(np.array(tokens, np.int32), np.array(places, np.int64), np.ones(len(places), bool))
