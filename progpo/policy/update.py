"""The policy update: PPO's clipped surrogate on given advantages, with a KL term to the warm-up policy.

Each epoch divides the trajectories anew among the minibatches, each minibatch is one AdamW step, and its gradient is
gathered over forward passes of bounded size. Nothing random is drawn but that division, from a stream of the seed, the
iteration and the epoch; so the optimiser's state is all that must travel from one iteration to the next.

Several processes divide each minibatch's sequences among them; what one of them computes, it computes in all epochs.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from progpo.policy.logprobs import Batch, check_model, logprobs, pack, total_loss
from progpo.policy.lora import Adapters
from progpo.policy.loss import clipped, clipped_surrogate, importance_weights, k3, token_weights
from progpo.policy.optimisation import AdamWSettings, Optimisation
from progpo.policy.sequences import TokenSequence, divide, minibatches, passes
from progpo.policy.tally import Tally
from progpo.policy.team import checkpoint_layers
from progpo.progress import Progress
from progpo.settings.stages import UpdateSettings

#: What a process computes that has no sequence left, while others have: one token, of weight 0.
IDLE = TokenSequence(0, np.zeros(2, np.int32), np.ones(1, np.int64), np.zeros(1, np.float32), np.zeros(1, np.float32))


class Updater:
    """A policy in training, over one or more iterations.

    Args:
        model: changed in place.
        reference: the model that the KL term is measured to; needed where `settings.kl` is not 0. Or the model's own
            adapters: the reference is then the model without them.
        settings: of the update.

    Attributes:
        optimisation: the optimiser, whose state travels with the policy.

    Raises:
        ProgpoError: an architecture that cannot be trained here.
    """

    def __init__(self, model: Any, reference: Any | Adapters | None, settings: UpdateSettings) -> None:
        check_model(model)
        if settings.gradient_checkpointing:
            checkpoint_layers(model)
        self._settings = settings
        adamw = AdamWSettings(settings.learning_rate, settings.betas, settings.weight_decay, settings.max_gradient_norm)
        self.optimisation = Optimisation(model, adamw, settings.precision, settings.strategy)
        self._reference = None
        if settings.kl and isinstance(reference, Adapters):
            self._reference = reference.without(self.optimisation.forward)
        elif settings.kl:
            self._reference = self.optimisation.prepare(reference)

    def update(
        self, sequences: Sequence[TokenSequence], trajectories: int, temperature: float, seed: int, iteration: int
    ) -> dict[str, Any]:
        """Learn from one iteration's sequences.

        Where all advantages of a sequence are 0 and there is no KL term, it has no gradient and is not computed, but it
        counts in the averages. A minibatch without any gradient takes no optimiser step.

        Args:
            sequences: as `make_sequences` returns them.
            trajectories: that they belong to.
            temperature: of sampling.
            seed, iteration: key of the division into minibatches.

        Returns:
            Metrics. `kl`, `entropy` (nats), `clip_fraction` and the ratios are means over the tokens computed; ratios
            are those of the first epoch; `policy_kl` is the k3 estimate of the divergence from the policy that sampled.
            `logprob_difference` and `ratio_deviation` are of what was computed before the first optimiser step: the
            largest distance of a log-probability from that at sampling, and the mean distance from 1 of the
            probabilities' ratio. `importance_mean` and `importance_truncated` are the mean of the weights that correct
            for the sampler (see `importance_weights`), and the share that was truncated.
            Null: nothing was computed.

        Raises:
            ProgpoError: the loss, the gradient or a parameter is no longer finite.
        """
        settings = self._settings
        counts = np.zeros(trajectories, np.int64)
        signal = np.zeros(trajectories, bool)
        for sequence in sequences:
            counts[sequence.owner] += len(sequence.positions)
            signal[sequence.owner] |= bool(sequence.advantages.any())
        learnt = list(sequences) if settings.kl else [live for item in sequences if (live := item.live())]
        lengths = [len(item.tokens) for item in learnt]
        team = self.optimisation.team
        division = _Division(learnt, counts, settings, seed, iteration)
        homes = np.zeros(len(learnt), np.int64)
        for _, chosen in division.epoch(0):
            homes[chosen] = divide([lengths[number] for number in chosen], team.count)

        def planned(chosen: list[int]) -> list[list[int]]:
            """Return this process's forward passes over sequences."""
            own = passes(
                [lengths[number] for number in chosen],
                homes[chosen].tolist(),
                team.index,
                settings.batch_tokens,
                together=self.optimisation.sharded,
            )
            return [[chosen[index] for index in part] for part in own]

        tally = Tally()
        references: dict[int, Tensor] = {}
        before = self.optimisation.steps
        norms, losses = [], []
        expected = settings.epochs * _tokens(learnt)
        with Progress(f"update: iteration {iteration}", expected, "tokens") as progress:
            start = None
            if settings.old_logprobs == "recompute":
                start = {}
                for _, chosen in division.epoch(0):
                    for numbers in planned(chosen):
                        self._recompute(learnt, numbers, self.optimisation.forward, temperature, start)
            for epoch in range(settings.epochs):
                for weights, chosen in division.epoch(epoch):
                    loss = 0.0
                    for numbers in planned(chosen):
                        if tally.first_epoch and self._reference is not None:
                            # In the same passes as the policy's: where both models are the same, so are the numbers
                            # to the last bit, and the KL term has no gradient at all.
                            self._recompute(learnt, numbers, self._reference, temperature, references)
                        loss += self._accumulate(learnt, numbers, weights, temperature, references, start, tally)
                        progress.update(min(tally.done * team.count, expected))
                    (loss,) = team.sum([loss])
                    self.optimisation.require_finite(loss, "the loss")
                    losses.append(loss)
                    norms.append(self.optimisation.step())
                    tally.stepped = True
                tally.first_epoch = False
        self.optimisation.check_parameters()
        return {
            "trajectories": trajectories,
            "zero_advantage_share": float(1 - signal.mean()),
            "sequences": len(sequences),
            "computed_sequences": len(learnt),
            "tokens": _tokens(sequences),
            "computed_tokens": _tokens(learnt),
            "response_tokens": int(counts.sum()),
            "optimizer_steps": self.optimisation.steps - before,
            "total_optimizer_steps": self.optimisation.steps,
            "loss": float(np.mean(losses)) if losses else None,
            "gradient_norm": float(np.mean(norms)) if norms else None,
            **tally.metrics(team, self._reference is not None, settings.old_logprobs == "recompute"),
        }

    def _recompute(
        self, learnt: Sequence[TokenSequence], numbers: Sequence[int], model: Any, temperature: float, found: dict
    ) -> None:
        """Find the log-probabilities of one forward pass's sequences under a model, by their numbers."""
        items = [learnt[number] for number in numbers] or [IDLE]
        batch = _pack(items, self.optimisation.device)
        parts = model(logprobs, batch, temperature).split([len(item.positions) for item in items])
        found.update(zip(numbers, parts, strict=False))

    def _accumulate(
        self,
        learnt: Sequence[TokenSequence],
        numbers: Sequence[int],
        weights: np.ndarray,
        temperature: float,
        references: dict[int, Tensor],
        start: dict[int, Tensor] | None,
        tally: Tally,
    ) -> float:
        """Add the gradient of one forward pass's sequences; return their part of the loss."""
        device = self.optimisation.device
        items = [learnt[number] for number in numbers] or [IDLE]
        batch = _pack(items, device)
        scaled = [(item, weights[item.owner] if numbers else 0.0) for item in items]
        objective = _Objective(
            _gather([item.logprobs for item in items], device),
            _gather([item.advantages for item in items], device),
            _gather([np.full(len(item.positions), each, np.float32) for item, each in scaled], device),
            torch.cat([references[number] for number in numbers]) if self._reference and numbers else None,
            torch.cat([start[number] for number in numbers]) if start is not None and numbers else None,
            self._settings,
            tally if numbers else None,
        )
        loss = self.optimisation.forward(total_loss, batch, objective, temperature, True)
        self.optimisation.backward(loss)
        tally.done += sum(len(learnt[number].tokens) for number in numbers)
        return float(loss.detach())


class _Division:
    """The minibatches of an iteration."""

    def __init__(
        self, learnt: Sequence[TokenSequence], counts: np.ndarray, settings: UpdateSettings, seed: int, iteration: int
    ) -> None:
        self._learnt, self._counts, self._settings = learnt, counts, settings
        self._key = (seed, iteration)

    def epoch(self, epoch: int) -> Iterator[tuple[np.ndarray, list[int]]]:
        """Yield token weights by trajectory, and sequences' numbers, of each minibatch that has a gradient."""
        settings, trajectories = self._settings, len(self._counts)
        for owners in minibatches(trajectories, settings.minibatches, *self._key, epoch):
            weights = np.zeros(trajectories)
            weights[owners] = token_weights(self._counts[owners], settings.loss, settings.constant_tokens)
            chosen = [number for number, item in enumerate(self._learnt) if weights[item.owner]]
            if chosen:
                yield weights, chosen


class _Objective:
    """The loss of a pass's tokens, chunk by chunk; takes the metrics down on the way."""

    def __init__(
        self,
        sampled: Tensor,
        advantages: Tensor,
        weights: Tensor,
        reference: Tensor | None,
        start: Tensor | None,
        settings: UpdateSettings,
        tally: Tally | None,
    ) -> None:
        self._sampled, self._advantages, self._weights = sampled, advantages, weights
        self._reference, self._start = reference, start
        self._settings, self._tally = settings, tally

    def __call__(self, now: Tensor, entropies: Tensor | None, part: slice) -> Tensor:
        sampled, advantages = self._sampled[part], self._advantages[part]
        old = sampled if self._start is None else self._start[part]
        ratio = torch.exp(now - old)
        losses = clipped_surrogate(ratio, advantages, self._settings.clip)
        importance = None
        if self._start is not None:
            importance = importance_weights(old, sampled, self._settings.importance_cap)
            losses = losses * importance[0]
        divergence = None
        if self._reference is not None:
            divergence = k3(now, self._reference[part])
            losses = losses + self._settings.kl * divergence
        if self._tally is not None:
            hit = clipped(ratio, advantages, self._settings.clip)
            self._tally.add(now - sampled, ratio, hit, entropies, divergence, importance)
        return losses * self._weights[part]


def _tokens(sequences: Sequence[TokenSequence]) -> int:
    return sum(len(item.tokens) for item in sequences)


def _pack(items: Sequence[TokenSequence], device: torch.device) -> Batch:
    return pack(
        [item.tokens for item in items], [item.positions for item in items], device, [item.allowed for item in items]
    )


def _gather(arrays: Sequence[np.ndarray], device: torch.device) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays)).to(device)
