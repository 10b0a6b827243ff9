"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft: attached to a policy, switched off, saved, merged.

What is saved as the policy is an ordinary checkpoint, the adapters' product added to the weights, which rollouts and
other engines read as any other; the adapters lie beside it in peft's own format, and training goes on from them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from progpo.errors import ProgpoError
from progpo.seeds import stream
from progpo.settings.training import LoraSettings

#: Where adapters lie in a policy's folder, and how peft calls its files.
FOLDER, WEIGHTS = "adapter", "adapter_model.safetensors"
#: The name of the one set of adapters, which stands in parameters' names but not in files.
NAME = "default"
#: What peft puts before the names of parameters in files.
PREFIX = "base_model.model."


class Adapters:
    """A policy's adapters. They alone are trained: all other weights are frozen.

    Args:
        model: of transformers; changed in place.
        settings: of the adapters.
        seed: of their first values. Their product is 0 at first.

    Raises:
        ProgpoError: peft is not installed, or there is no such layer.
    """

    def __init__(self, model: Any, settings: LoraSettings, seed: int) -> None:
        try:
            from peft import LoraConfig, get_peft_model
            from peft.tuners.lora import LoraLayer
        except ImportError:
            raise ProgpoError("lora: peft is not installed; pip install 'progpo[lora]'") from None
        self._config = LoraConfig(
            task_type="CAUSAL_LM",
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=list(settings.targets) if settings.targets else "all-linear",
        )
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(stream("adapters", seed).integers(2**62)))
                get_peft_model(model, self._config, adapter_name=NAME)
        except ValueError as error:
            raise ProgpoError(f"lora.targets: {str(error).splitlines()[0]}") from None
        self._layers = {name: item for name, item in model.named_modules() if isinstance(item, LoraLayer)}
        self._model = model

    def without(self, forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return a forward pass with the adapters off.

        They are scaled by 0 and computed all the same: a policy that is divided among processes is so gathered in the
        same way in every pass.
        """

        def run(*arguments: Any) -> Tensor:
            with self._off():
                return forward(*arguments)

        return run

    @contextmanager
    def _off(self) -> Iterator[None]:
        for layer in self._layers.values():
            layer.set_scale(NAME, 0)
        try:
            yield
        finally:
            for layer in self._layers.values():
                layer.set_scale(NAME, 1)

    def merged(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the policy's weights under their plain names, with the adapters' products added.

        Args:
            weights: all parameters, whole, by name (`Optimisation.weights`).
        """
        found = {}
        for name, item in weights.items():
            if ".lora_" not in name:
                found[name.replace(".base_layer.", ".")] = item
        for name, layer in self._layers.items():
            product = weights[f"{name}.lora_B.{NAME}.weight"] @ weights[f"{name}.lora_A.{NAME}.weight"]
            found[f"{name}.weight"] = found[f"{name}.weight"] + product * layer.scaling[NAME]
        return found

    def save(self, weights: Mapping[str, Tensor], folder: Path) -> None:
        """Write the adapters into a new folder, as peft reads them (`PeftModel.from_pretrained`).

        Args:
            weights: those that are trained, whole, by name.
            folder: of the policy.
        """
        from safetensors.torch import save_file

        place = folder / FOLDER
        place.mkdir()
        # Not the place of the files that were read: the same adapters give the same bytes everywhere.
        self._config.base_model_name_or_path = None
        self._config.save_pretrained(place)
        tensors = {f"{PREFIX}{name.replace(f'.{NAME}.', '.')}": item.contiguous() for name, item in weights.items()}
        save_file(tensors, place / WEIGHTS, metadata={"format": "pt"})

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """Take up the adapters in a policy's folder.

        Raises:
            ProgpoError: missing, damaged or of another shape.
        """
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        file = folder / FOLDER / WEIGHTS
        try:
            saved = load_file(file)
        except (OSError, SafetensorError) as error:
            raise ProgpoError(f"{file}: missing or damaged ({error}); rerun the update that makes it") from None
        ours = {
            f"{PREFIX}{name.replace(f'.{NAME}.', '.')}": item
            for name, item in self._model.named_parameters()
            if item.requires_grad
        }
        for name in sorted({*ours, *saved}):
            if name not in ours or name not in saved or ours[name].shape != saved[name].shape:
                raise ProgpoError(f"{file}: not adapters as `lora` asks for ({name}); make the policy anew")
            ours[name].copy_(saved[name])
