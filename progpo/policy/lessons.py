"""From demonstrations to token sequences to imitate, pass after pass.

Nothing random is drawn but from streams of (seed, pass, demonstration): the stream of lessons can be taken up
anywhere by counting.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from progpo.errors import ProgpoError
from progpo.policy.rendering import Renderer
from progpo.seeds import stream
from progpo.trajectories.records import Trajectory

#: `augment(texts of one trajectory, rng) -> texts`: the same story under other names.
Augment = Callable[[list[str], np.random.Generator], list[str]]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One sequence to learn from.

    Attributes:
        tokens: (L,) int32.
        positions: (R,) int64 places of the tokens to predict, ascending; none is 0.
        actions: (R,) bool: whether a token belongs to an action (else: to an observation).
    """

    tokens: np.ndarray
    positions: np.ndarray
    actions: np.ndarray


class Lessons:
    """The lessons in demonstrations.

    In the append layout a demonstration is one lesson; its actions are learned, but for injected noise, and with
    `observations` all other tokens too. In the window layout each step is a lesson: its prompt, and the action.

    Args:
        demonstrations: in a fixed order.
        renderer: of the policy.
        augment: gives the texts of a demonstration new names at each pass but the first; None: never.
        observations: whether the tokens of observations are to be predicted as well (append layout).
        seed: of the order and of the names.

    Attributes:
        count: lessons in a pass, at most (those too long for the context are left out).

    Raises:
        ProgpoError: not one step to imitate.
    """

    def __init__(
        self,
        demonstrations: Sequence[Trajectory],
        renderer: Renderer,
        augment: Augment | None,
        observations: bool,
        seed: int,
    ) -> None:
        self._demonstrations, self._renderer, self._augment = demonstrations, renderer, augment
        self._observations, self._seed = observations, seed
        if renderer.layout == "append":
            #: (demonstration, step that is asked for, or -1 for all)
            self._units = [
                (number, -1) for number, item in enumerate(demonstrations) if any(step.imitate for step in item.steps)
            ]
        else:
            self._units = [
                (number, place)
                for number, item in enumerate(demonstrations)
                for place, step in enumerate(item.steps)
                if step.imitate
            ]
        self.count = len(self._units)
        if not self._units:
            raise ProgpoError("the demonstrations hold no step to imitate; make them anew with `progpo demonstrate`")

    def stream(self, start: int = 0) -> Iterator[tuple[int, Lesson]]:
        """Yield lessons without end, each pass in a new order, from the `start`-th on, each with its number.

        Raises:
            ProgpoError: a whole pass of lessons too long for the context.
        """
        number = start
        while True:
            turn, place = divmod(number, self.count)
            order = stream("lessons", self._seed, turn).permutation(self.count)[place:]
            texts: dict[int, Trajectory] = {}
            fruitless = place == 0
            for unit in order.tolist():
                demonstration, step = self._units[unit]
                if demonstration not in texts:
                    texts[demonstration] = self._renamed(demonstration, turn)
                lesson = self._whole(texts[demonstration]) if step < 0 else self._step(texts[demonstration], step)
                if lesson is not None:
                    fruitless = False
                    yield number, lesson
                number += 1
            if fruitless:
                raise ProgpoError(
                    "policy.max_context_tokens: shorter than every demonstrated prompt and its response; set it higher"
                )

    def _renamed(self, number: int, turn: int) -> Trajectory:
        """Return a demonstration as it reads in a pass."""
        told = self._demonstrations[number]
        if self._augment is None or turn == 0:
            return told
        texts: list[str] = []
        listed = self._renderer.lists_admissible
        for step in told.steps:
            texts += [step.observation, step.action, *(step.admissible if listed else ())]
        renamed = iter(self._augment(texts, stream("names", self._seed, turn, number)))
        copy = Trajectory(told.group, told.trajectory, told.task, told.task_type)
        for step in told.steps:
            observation, action = next(renamed), next(renamed)
            admissible = [next(renamed) for _ in step.admissible] if listed else ()
            copy.steps.append(replace(step, observation=observation, action=action, admissible=admissible))
        return copy

    def _whole(self, told: Trajectory) -> Lesson | None:
        """Return a demonstration as one sequence, cut before the first context that does not fit."""
        renderer = self._renderer
        tokens: list[int] = []
        actions: list[bool] = []
        predicted: list[bool] = []
        for number, step in enumerate(told.steps):
            if number == 0:
                context = renderer.start(step.observation, step.admissible)
            else:
                seen = renderer.restated(step.observation, told.steps[0].observation)
                context = renderer.turn(seen, step.admissible, ended=True)
            response = renderer.response(step.action)
            if len(tokens) + len(context) > renderer.context_limit:
                break
            tokens += [*context, *response]
            actions += [False] * len(context) + [True] * len(response)
            predicted += [self._observations] * len(context) + [step.imitate] * len(response)
        return _lesson(tokens, actions, predicted)

    def _step(self, told: Trajectory, place: int) -> Lesson | None:
        """Return one step as a sequence, if it fits the context."""
        step = told.steps[place]
        history = [(item.observation, item.action) for item in told.steps[:place]]
        context, _ = self._renderer.window(history, step.observation, step.admissible)
        if len(context) > self._renderer.context_limit:
            return None
        response = self._renderer.response(step.action)
        own = [False] * len(context) + [True] * len(response)
        return _lesson([*context, *response], own, own)


def _lesson(tokens: list[int], actions: list[bool], predicted: list[bool]) -> Lesson | None:
    places = np.flatnonzero(np.array(predicted[1:], bool)) + 1
    if not places.size:
        return None
    return Lesson(np.array(tokens, np.int32), places, np.array(actions, bool)[places])


def batches(lessons: Iterator[tuple[int, Lesson]], tokens: int) -> Iterator[tuple[int, list[Lesson]]]:
    """Group lessons, in their order, into batches of at most `tokens` tokens, but at least one lesson each.

    Yields:
        The number of the first lesson that is in no batch so far, and the batch.
    """
    batch: list[Lesson] = []
    used = 0
    for number, lesson in lessons:
        if batch and used + len(lesson.tokens) > tokens:
            yield number, batch
            batch, used = [], 0
        batch.append(lesson)
        used += len(lesson.tokens)
