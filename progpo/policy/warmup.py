"""The warm-up: supervised fine-tuning on demonstrations.

Cross entropy on the actions, plus a weighted one on the observations (which makes a small policy learn what goes
with what faster than the few action tokens do). AdamW, linear warm-up, cosine decay; a budget of tokens, so that the
result does not depend on the machine's load.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from progpo.policy.lessons import Lesson, batches
from progpo.policy.logprobs import check_model, pack, total_loss
from progpo.policy.optimisation import AdamWSettings, Optimisation, schedule
from progpo.policy.sequences import divide, passes
from progpo.policy.team import checkpoint_layers
from progpo.progress import Progress
from progpo.settings.stages import WarmupSettings

#: What a process computes that has no lesson left, while others have: one token, of weight 0.
IDLE = Lesson(np.zeros(2, np.int32), np.ones(1, np.int64), np.zeros(1, bool))
#: Points of the learning curve that are kept, about.
CURVE_POINTS = 200


class LessonSource(Protocol):
    """Lessons without end: `Lessons` of demonstrations, or `progpo.policy.recall.Exercises`."""

    def stream(self, start: int = 0) -> Iterator[tuple[int, Lesson]]:
        """Yield lessons from the `start`-th on, each with its number."""


class Warmup:
    """A policy's warm-up.

    Args:
        model: changed in place.
        lessons: to learn from.
        settings: of the warm-up.
        label: of the progress on stderr.

    Attributes:
        optimisation: model and optimiser.
        done: tokens trained on.
        consumed: lessons trained on, the number of the next one.
        curve: points of the learning curve (step, tokens, learning_rate, losses, gradient_norm).

    Raises:
        ProgpoError: an architecture that cannot be trained here.
    """

    def __init__(self, model: Any, lessons: LessonSource, settings: WarmupSettings, label: str = "warmup") -> None:
        check_model(model)
        if settings.gradient_checkpointing:
            checkpoint_layers(model)
        self._lessons, self._settings, self._label = lessons, settings, label
        adamw = AdamWSettings(settings.learning_rate, settings.betas, settings.weight_decay, settings.max_gradient_norm)
        self.optimisation = Optimisation(model, adamw, settings.precision, settings.strategy, settings.muon)
        self.done = self.consumed = 0
        self.curve: list[dict[str, float | int | None]] = []

    def train(self, save: Callable[[], None] | None = None) -> None:
        """Train until the budget is used up.

        Args:
            save: called after every `save_every` optimiser steps.

        Raises:
            ProgpoError: the loss, the gradient or a parameter is no longer finite.
        """
        with Progress(self._label, self._settings.tokens, "tokens", before=self.done) as progress:
            self._train(progress, save)
        self.optimisation.check_parameters()

    def _train(self, progress: Progress, save: Callable[[], None] | None) -> None:
        settings = self._settings
        every = max(1, settings.tokens // settings.batch_tokens // CURVE_POINTS)
        before = self.done
        for following, batch in batches(self._lessons.stream(self.consumed), settings.batch_tokens):
            if self.done >= settings.tokens:
                break
            self.done += sum(len(lesson.tokens) for lesson in batch)
            self.consumed = following
            share = schedule(
                self.done / settings.tokens,
                settings.warmup_steps * settings.batch_tokens / settings.tokens,
                settings.min_learning_rate_ratio,
            )
            rate = share * settings.learning_rate
            losses = self._accumulate(batch)
            self.optimisation.require_finite(losses["loss"], "the loss")
            norm = self.optimisation.step(rate)
            if (self.optimisation.steps - 1) % every == 0 or self.done >= settings.tokens:
                point = {"step": self.optimisation.steps, "tokens": self.done, "learning_rate": rate}
                self.curve.append({**point, **losses, "gradient_norm": norm})
            progress.update(self.done, partial(_note, self.done - before, losses["action_loss"]))
            if save and self.optimisation.steps % settings.save_every == 0 and self.done < settings.tokens:
                self.optimisation.check_parameters()
                save()

    def _accumulate(self, batch: Sequence[Lesson]) -> dict[str, float | None]:
        """Add the gradient of a batch; return its losses: the one trained on, and the means of its two parts."""
        settings, optimisation = self._settings, self.optimisation
        weights = [np.where(lesson.actions, 1.0, settings.observation_loss) for lesson in batch]
        total = sum(float(item.sum()) for item in weights)
        sums = np.zeros(2)
        lengths = [len(lesson.tokens) for lesson in batch]
        homes = divide(lengths, optimisation.team.count)
        budget = settings.pass_tokens or settings.batch_tokens
        for part in passes(lengths, homes, optimisation.team.index, budget, together=optimisation.sharded):
            lessons = [batch[index] for index in part] or [IDLE]
            device = optimisation.device
            packed = pack([item.tokens for item in lessons], [item.positions for item in lessons], device)
            own = np.concatenate([weights[index] for index in part]) if part else np.zeros(1)
            objective = _Objective(
                torch.from_numpy(own.astype(np.float32) / np.float32(total)).to(device),
                torch.from_numpy(np.concatenate([item.actions for item in lessons])).to(device),
                sums if part else np.zeros(2),
            )
            optimisation.backward(optimisation.forward(total_loss, packed, objective))
        sums = np.array(optimisation.team.sum(sums.tolist()))
        counts = np.array([sum(int((lesson.actions == kind).sum()) for lesson in batch) for kind in (True, False)])
        means = [float(value / count) if count else None for value, count in zip(sums, counts, strict=True)]
        loss = float((sums * [1.0, settings.observation_loss]).sum() / total)
        return {"loss": loss, "action_loss": means[0], "observation_loss": means[1]}


def _note(tokens: int, loss: float | None, seconds: float) -> str:
    """Return the end of a line of progress."""
    told = "" if loss is None else f", loss of actions {loss:.3f}"
    return f", {tokens / seconds:.0f} a second{told}"


class _Objective:
    """Weighted cross entropy, chunk by chunk; adds up the two parts' unweighted sums in `sums`."""

    def __init__(self, weights: Tensor, actions: Tensor, sums: np.ndarray) -> None:
        self._weights, self._actions, self._sums = weights, actions, sums

    def __call__(self, found: Tensor, entropies: Tensor | None, part: slice) -> Tensor:
        actions = self._actions[part]
        with torch.no_grad():
            of_actions = float(found[actions].sum())
            self._sums -= [of_actions, float(found.sum()) - of_actions]
        return -found * self._weights[part]
