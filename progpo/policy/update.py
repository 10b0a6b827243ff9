"""The policy update: PPO's clipped surrogate on given advantages, with a KL term to the warm-up policy.

Each epoch divides the trajectories anew among the minibatches, each minibatch is one AdamW step, and its gradient is
gathered over forward passes of bounded size. Nothing random is drawn but that division, from a stream of the seed, the
iteration and the epoch; so the optimiser's state is all that must travel from one iteration to the next.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from progpo.policy.logprobs import check_model, logprobs, pack, total_loss
from progpo.policy.loss import clipped, clipped_surrogate, k3, token_weights
from progpo.policy.optimisation import AdamWSettings, Optimisation
from progpo.policy.sequences import TokenSequence, micro_batches, minibatches
from progpo.progress import Progress
from progpo.settings.stages import UpdateSettings


class Updater:
    """A policy in training, over one or more iterations.

    Args:
        model: changed in place.
        reference: the model that the KL term is measured to; needed where `settings.kl` is not 0.
        settings: of the update.

    Attributes:
        optimisation: the optimiser, whose state travels with the policy.

    Raises:
        ProgpoError: an architecture that cannot be trained here.
    """

    def __init__(self, model: Any, reference: Any | None, settings: UpdateSettings) -> None:
        check_model(model)
        self._settings = settings
        adamw = AdamWSettings(settings.learning_rate, settings.betas, settings.weight_decay, settings.max_gradient_norm)
        self.optimisation = Optimisation(model, adamw, settings.precision)
        self._reference = reference.to(self.optimisation.device) if settings.kl else None

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
            largest distance of a log-probability from that at sampling, and the mean distance of the ratio from 1.
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
        tally = _Tally()
        references: dict[int, Tensor] = {}
        before = self.optimisation.steps
        norms, losses = [], []
        expected = settings.epochs * _tokens(learnt)
        with Progress(f"update: iteration {iteration}", expected, "tokens") as progress:
            for epoch in range(settings.epochs):
                for owners in minibatches(trajectories, settings.minibatches, seed, iteration, epoch):
                    weights = np.zeros(trajectories)
                    weights[owners] = token_weights(counts[owners], settings.loss, settings.constant_tokens)
                    chosen = [number for number, item in enumerate(learnt) if weights[item.owner]]
                    if not chosen:
                        continue
                    loss = 0.0
                    for part in micro_batches([len(learnt[number].tokens) for number in chosen], settings.batch_tokens):
                        numbers = [chosen[index] for index in part]
                        loss += self._accumulate(learnt, numbers, weights, temperature, references, tally)
                        progress.update(tally.done)
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
            **tally.metrics(),
        }

    def _accumulate(
        self,
        learnt: Sequence[TokenSequence],
        numbers: Sequence[int],
        weights: np.ndarray,
        temperature: float,
        references: dict[int, Tensor],
        tally: "_Tally",
    ) -> float:
        """Add the gradient of one forward pass's sequences; return their part of the loss."""
        device = self.optimisation.device
        items = [learnt[number] for number in numbers]
        batch = pack([item.tokens for item in items], [item.positions for item in items], device)
        reference = None
        if self._reference is not None:
            # Computed in the first epoch, in the same passes as the policy's: where both models are the same, so are
            # the numbers to the last bit, and the KL term has no gradient at all.
            if numbers[0] not in references:
                with self.optimisation.autocast():
                    found = logprobs(self._reference, batch, temperature)
                references.update(zip(numbers, found.split([len(item.positions) for item in items]), strict=True))
            reference = torch.cat([references[number] for number in numbers])
        objective = _Objective(
            _gather([item.logprobs for item in items], device),
            _gather([item.advantages for item in items], device),
            _gather([np.full(len(item.positions), weights[item.owner], np.float32) for item in items], device),
            reference,
            self._settings,
            tally,
        )
        with self.optimisation.autocast():
            loss = total_loss(self.optimisation.model, batch, objective, temperature, entropy=True)
        self.optimisation.backward(loss)
        tally.done += sum(len(item.tokens) for item in items)
        return float(loss.detach())


class _Objective:
    """The loss of a pass's tokens, chunk by chunk; takes the metrics down on the way."""

    def __init__(
        self,
        old: Tensor,
        advantages: Tensor,
        weights: Tensor,
        reference: Tensor | None,
        settings: UpdateSettings,
        tally: "_Tally",
    ) -> None:
        self._old, self._advantages, self._weights, self._reference = old, advantages, weights, reference
        self._settings, self._tally = settings, tally

    def __call__(self, now: Tensor, entropies: Tensor | None, part: slice) -> Tensor:
        old, advantages = self._old[part], self._advantages[part]
        ratio = torch.exp(now - old)
        losses = clipped_surrogate(ratio, advantages, self._settings.clip)
        divergence = None
        if self._reference is not None:
            divergence = k3(now, self._reference[part])
            losses = losses + self._settings.kl * divergence
        with torch.no_grad():
            hit = clipped(ratio, advantages, self._settings.clip)
            self._tally.add(now - old, ratio, hit, entropies, divergence)
        return losses * self._weights[part]


class _Tally:
    """Sums over the tokens computed."""

    def __init__(self) -> None:
        self.first_epoch, self.stepped = True, False
        self.done = 0
        self._tokens = self._first_tokens = 0
        self._entropy = self._divergence = self._clipped = self._ratio = 0.0
        self._ratio_max = self._difference = self._deviation = self._moved = 0.0
        self._before_tokens = 0
        self._with_divergence = False

    def add(
        self, difference: Tensor, ratio: Tensor, hit: Tensor, entropies: Tensor | None, divergence: Tensor | None
    ) -> None:
        self._tokens += len(ratio)
        self._clipped += float(hit.sum())
        self._moved += float((ratio - 1 - difference).sum())
        self._entropy += float(entropies.sum())
        if divergence is not None:
            self._with_divergence = True
            self._divergence += float(divergence.sum())
        if self.first_epoch:
            self._first_tokens += len(ratio)
            self._ratio += float(ratio.sum())
            self._ratio_max = max(self._ratio_max, float(ratio.max()))
        if not self.stepped:
            self._before_tokens += len(ratio)
            self._difference = max(self._difference, float(difference.abs().max()))
            self._deviation += float((ratio - 1).abs().sum())

    def metrics(self) -> dict[str, float | None]:
        count = self._tokens
        return {
            "kl": self._divergence / count if self._with_divergence else None,
            "entropy": self._entropy / count if count else None,
            "clip_fraction": self._clipped / count if count else None,
            "ratio_mean": self._ratio / self._first_tokens if count else None,
            "ratio_max": self._ratio_max if count else None,
            "policy_kl": self._moved / count if count else None,
            "logprob_difference": self._difference if count else None,
            "ratio_deviation": self._deviation / self._before_tokens if count else None,
        }


def _tokens(sequences: Sequence[TokenSequence]) -> int:
    return sum(len(item.tokens) for item in sequences)


def _gather(arrays: Sequence[np.ndarray], device: torch.device) -> Tensor:
    return torch.from_numpy(np.concatenate(arrays)).to(device)
