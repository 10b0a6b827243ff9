"""A policy as training leaves it, to be saved: whole, and as an ordinary checkpoint, however it was trained."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from progpo.policy.checkpoint import Policy, save_files
from progpo.policy.lora import Adapters
from progpo.policy.optimisation import Optimisation


class Trained:
    """A policy with its weights gathered. All processes must make one; the main one can then save it.

    Args:
        policy: that was trained; its fingerprints are set by `save`.
        optimisation: that trained it.
        adapters: its adapters, if it has any.
    """

    def __init__(self, policy: Policy, optimisation: Optimisation, adapters: Adapters | None) -> None:
        self._policy, self._adapters = policy, adapters
        self._weights = None
        if optimisation.sharded or adapters is not None:
            self._weights = optimisation.weights()
        self._trained = optimisation.weights(trained=True) if adapters is not None else {}

    def save(self, folder: Path) -> None:
        """Write checkpoint, adapters and `progpo.json` into a folder."""
        if self._weights is None:
            save_files(self._policy, folder)
            return
        weights = self._weights
        if self._adapters is not None:
            weights = self._adapters.merged(weights)
            self._adapters.save(self._trained, folder)
        whole = replace(self._policy, model=_Plain(self._policy.model, weights))
        save_files(whole, folder)
        self._policy.fingerprint = whole.fingerprint
        self._policy.tokenizer_fingerprint = whole.tokenizer_fingerprint


class _Plain:
    """A model of transformers with weights that lie outside of it."""

    def __init__(self, model: Any, weights: dict[str, Any]) -> None:
        self._model, self._weights = model, weights

    def save_pretrained(self, folder: Path) -> None:
        self._model.save_pretrained(folder, state_dict=self._weights)
