"""First embeddings of numbered things."""

import pytest
import torch
from torch.nn.functional import cosine_similarity

from progpo.policy.checkpoint import create_scratch
from progpo.policy.composition import compose
from progpo.policy.tokenizer import SPACE
from progpo.settings.stages import PolicySettings

TEXTS = [
    "You see a cabinet 6, a cabinet 5, and a drawer 6.",
    "Your task is to: put a mug in cabinet.",
    "go to drawer 6",
]


def test_things_alike_begin_alike() -> None:
    words = ["mug", f"{SPACE}mug", f"{SPACE}mug{SPACE}1", f"{SPACE}mug{SPACE}2", f"{SPACE}pan{SPACE}1", f"{SPACE}a"]
    vocabulary = {word: row for row, word in enumerate(words)}
    torch.manual_seed(0)
    before = torch.randn(len(words), 4096) * 0.3
    after = before.clone()
    assert compose(after, vocabulary) == 3
    assert torch.equal(after[[0, 1, 5]], before[[0, 1, 5]])
    torch.testing.assert_close(after.std(dim=1), torch.full((6,), 0.3), atol=0.02, rtol=0)
    mug, one, two, pan = after[1:5]
    assert cosine_similarity(mug, one, 0) == pytest.approx((0.9 / 2) ** 0.5, abs=0.05)
    assert cosine_similarity(one, two, 0) == pytest.approx(0.45, abs=0.05)
    assert cosine_similarity(one, pan, 0) == pytest.approx(0.45, abs=0.05)
    assert cosine_similarity(two, pan, 0) == pytest.approx(0, abs=0.05)


def test_only_numbered_things_begin_otherwise() -> None:
    sizes = {"hidden_size": 32, "layers": 1, "heads": 2, "intermediate_size": 32}
    plain = create_scratch(PolicySettings(**sizes), TEXTS, seed=0)
    composed = create_scratch(PolicySettings(**sizes, embeddings="composed"), TEXTS, seed=0)
    assert composed.tokenizer.get_vocab() == plain.tokenizer.get_vocab()
    tokens = plain.tokenizer.convert_ids_to_tokens(range(len(plain.tokenizer)))
    left, right = (item.model.get_input_embeddings().weight for item in (plain, composed))
    changed = {token for token, same in zip(tokens, (left == right).all(dim=1).tolist(), strict=True) if not same}
    assert changed == {
        token for token in tokens if token.startswith((f"{SPACE}cabinet{SPACE}", f"{SPACE}drawer{SPACE}"))
    }
    assert len(changed) > 3
    for name, item in plain.model.named_parameters():
        if "embed_tokens" not in name:
            assert torch.equal(item, composed.model.get_parameter(name))
    again = create_scratch(PolicySettings(**sizes, embeddings="composed"), TEXTS, seed=0)
    assert torch.equal(again.model.get_input_embeddings().weight, right)


def test_wide_embeddings_give_the_same_first_logits() -> None:
    sizes = {"hidden_size": 32, "layers": 1, "heads": 2, "intermediate_size": 32, "embeddings": "composed"}
    plain, wide = (
        create_scratch(PolicySettings(**sizes, embedding_scale=scale), TEXTS, seed=0).model for scale in (1, 4)
    )
    for name, item in plain.named_parameters():
        factor = {"model.embed_tokens.weight": 4, "model.norm.weight": 0.25}.get(name, 1)
        assert torch.equal(wide.get_parameter(name), item * factor)
    # Without the layers, which add less to them: the same up to rounding.
    tokens = torch.arange(8)
    left, right = (
        item.model.norm(item.get_input_embeddings()(tokens)) @ item.get_output_embeddings().weight.T
        for item in (plain, wide)
    )
    torch.testing.assert_close(left, right, atol=1e-4, rtol=1e-3)
