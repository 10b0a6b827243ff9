"""Low-rank adapters: merged, switched off, saved and taken up."""

from pathlib import Path

import pytest
import torch
from two_processes import make_model, make_sequences

from progpo.errors import ProgpoError
from progpo.policy.lora import FOLDER, Adapters
from progpo.policy.team import gathered
from progpo.policy.update import Updater
from progpo.settings.stages import UpdateSettings
from progpo.settings.training import LoraSettings

pytest.importorskip("peft")
LORA = LoraSettings(rank=3, alpha=6)
TOKENS = torch.arange(20)[None]


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=TOKENS).logits


@pytest.fixture
def trained() -> tuple[torch.nn.Module, Adapters, Updater]:
    """A model whose adapters an update has moved."""
    model = make_model()
    adapters = Adapters(model, LORA, seed=1)
    updater = Updater(model, adapters, UpdateSettings(learning_rate=0.01, kl=0.1, minibatches=2, epochs=3))
    updater.update(make_sequences(), 5, 0.8, seed=0, iteration=1)
    return model, adapters, updater


def test_new_adapters_change_nothing_and_freeze_the_rest() -> None:
    model = make_model()
    before = logits(model)
    Adapters(model, LORA, seed=1)
    assert torch.equal(logits(model), before)
    trained = [name for name, item in model.named_parameters() if item.requires_grad]
    assert len(trained) == 2 * 7 * 2
    assert all(".lora_" in name for name in trained)


def test_merged_weights_compute_what_the_adapters_do(trained: tuple) -> None:
    model, adapters, updater = trained
    plain = make_model()
    assert (logits(model) - logits(plain)).abs().max() > 0.01
    merged = adapters.merged(updater.optimisation.weights())
    assert merged.keys() == dict(plain.named_parameters()).keys()
    plain.load_state_dict(merged, strict=False)
    torch.testing.assert_close(logits(plain), logits(model), rtol=1e-4, atol=1e-5)


def test_the_reference_is_the_model_without_its_adapters(trained: tuple) -> None:
    model, adapters, _ = trained
    seen = []
    adapters.without(lambda: seen.append(logits(model)))()
    assert torch.equal(seen[0], logits(make_model()))
    assert not torch.equal(logits(model), seen[0])


def test_saved_adapters_are_taken_up_here_and_by_peft(trained: tuple, tmp_path: Path) -> None:
    from peft import PeftModel

    model, adapters, updater = trained
    adapters.save(updater.optimisation.weights(trained=True), tmp_path)
    other = make_model()
    again = Adapters(other, LORA, seed=9)
    again.load(tmp_path)
    assert torch.equal(logits(other), logits(model))
    theirs = PeftModel.from_pretrained(make_model(), tmp_path / FOLDER)
    torch.testing.assert_close(logits(theirs), logits(model), rtol=1e-5, atol=1e-6)


def test_adapters_that_do_not_fit_are_refused(trained: tuple, tmp_path: Path) -> None:
    model, adapters, _ = trained
    saved = gathered({name: item for name, item in model.named_parameters() if item.requires_grad}, True)
    adapters.save(saved, tmp_path)
    other = Adapters(make_model(), LoraSettings(rank=5), seed=1)
    with pytest.raises(ProgpoError, match="not adapters as `lora` asks for"):
        other.load(tmp_path)
    with pytest.raises(ProgpoError, match="missing or damaged"):
        other.load(tmp_path / "nowhere")
    with pytest.raises(ProgpoError, match=r"lora\.targets: .*no_such_layer"):
        Adapters(make_model(), LoraSettings(targets=("no_such_layer",)), seed=1)
