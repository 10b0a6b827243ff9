"""The metrics of an update, summed over its tokens and its processes."""

import torch
from torch import Tensor

from progpo.policy.team import Team

#: Over the tokens computed: tokens, entropies, clipped tokens, k3 to the reference, k3 to the policy that sampled;
#: tokens and ratios of the first epoch; tokens and distances from 1 before the first step; importance weights.
SUMS = ("tokens", "entropy", "clipped", "kl", "moved", "first_tokens", "ratio", "before_tokens", "deviation")
SUMS += ("importance", "truncated")
LARGEST = ("ratio", "difference")


class Tally:
    """Sums over the tokens that this process computed.

    Attributes:
        first_epoch, stepped: whether the first epoch is under way; whether an optimiser step was taken.
        done: tokens read.
    """

    def __init__(self) -> None:
        self.first_epoch, self.stepped = True, False
        self.done = 0
        self._sums = dict.fromkeys(SUMS, 0.0)
        self._largest = dict.fromkeys(LARGEST, 0.0)

    @torch.no_grad()
    def add(
        self,
        gap: Tensor,
        ratio: Tensor,
        hit: Tensor,
        entropies: Tensor,
        divergence: Tensor | None,
        importance: tuple[Tensor, Tensor] | None,
    ) -> None:
        """Add n tokens.

        Args:
            gap: (n,) log-probability less that at sampling.
            ratio: (n,) of PPO.
            hit: (n,) bool, which tokens were clipped.
            entropies: (n,) in nats.
            divergence: (n,) k3 to the reference, if there is one.
            importance: (n,) weights for the gap, and which of them were truncated; None where the ratio has the gap in
                it.
        """
        sums, largest = self._sums, self._largest
        apart = ratio if importance is None else torch.exp(gap)
        sums["tokens"] += len(ratio)
        sums["clipped"] += float(hit.sum())
        sums["moved"] += float((apart - 1 - gap).sum())
        sums["entropy"] += float(entropies.sum())
        if divergence is not None:
            sums["kl"] += float(divergence.sum())
        if importance is not None:
            sums["importance"] += float(importance[0].sum())
            sums["truncated"] += float(importance[1].sum())
        if self.first_epoch:
            sums["first_tokens"] += len(ratio)
            sums["ratio"] += float(ratio.sum())
            largest["ratio"] = max(largest["ratio"], float(ratio.max()))
        if not self.stepped:
            sums["before_tokens"] += len(ratio)
            largest["difference"] = max(largest["difference"], float(gap.abs().max()))
            sums["deviation"] += float((apart - 1).abs().sum())

    def metrics(self, team: Team, divergence: bool, weighted: bool) -> dict[str, float | None]:
        """Return the means and the largest over all processes, which must take part; null: nothing was computed.

        Args:
            divergence: whether there is a reference.
            weighted: whether there are importance weights.
        """
        sums = dict(zip(SUMS, team.sum(self._sums.values()), strict=True))
        largest = dict(zip(LARGEST, team.max(self._largest.values()), strict=True))
        count = sums["tokens"]

        def mean(name: str, among: str = "tokens") -> float | None:
            return sums[name] / sums[among] if count else None

        found = {
            "kl": mean("kl") if divergence else None,
            "entropy": mean("entropy"),
            "clip_fraction": mean("clipped"),
            "ratio_mean": mean("ratio", "first_tokens"),
            "ratio_max": largest["ratio"] if count else None,
            "policy_kl": mean("moved"),
            "logprob_difference": largest["difference"] if count else None,
            "ratio_deviation": mean("deviation", "before_tokens"),
        }
        if weighted:
            found |= {"importance_mean": mean("importance"), "importance_truncated": mean("truncated")}
        return found
