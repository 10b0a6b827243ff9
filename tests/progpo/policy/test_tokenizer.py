"""The tokenizer learnt from an environment's texts."""

import random

import pytest
from corridor import texts as corridor_texts

from progpo.policy.tokenizer import ACTION, CHARACTERS, SPECIAL, train_tokenizer, vocabulary

INTRO = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
    "a cabinet 3, a cabinet 2, a desk 1, and a toaster 1.\n\nYour task is to: {task}."
)
KITCHEN = [
    *[INTRO.format(task=task) for task in ("put some mug on desk", "put a clean mug in cabinet")] * 10,
    *["go to cabinet 3", "You arrive at cabinet 3. The cabinet 3 is closed."] * 10,
    *["open cabinet 3", "You open the cabinet 3. The cabinet 3 is open. In it, you see a mug 2, and a mug 1."] * 10,
    *["take mug 1 from cabinet 3", "You pick up the mug 1 from the cabinet 3."] * 10,
    *["move mug 1 to desk 1", "You move the mug 1 to the desk 1."] * 10,
]


SHOP = [
    text
    for bound in range(10, 1000, 10)
    for text in (
        f"Find me slim fit jackets with color: blue, and price lower than {bound}.00 dollars [SEP] Search",
        f"Back to Search [SEP] Page 1 (Total results: 50) [SEP] B0GABC{bound % 7} [SEP] jacket 2022 [SEP] ${bound}.99",
        *(["sugar free fruit bar"] if bound % 90 == 0 else []),
        "[button] Buy Now [button_]\n[clicked button] blue [clicked button_]",
        "click[blue]",
        "click[buy now]",
    )
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(KITCHEN)


@pytest.fixture(scope="module")
def shop():
    return train_tokenizer(SHOP)


def tokens(tokenizer, text):
    return tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).tokens


def test_a_thing_with_its_number_and_a_phrase_are_one_token(tokenizer):
    assert tokens(tokenizer, "go to cabinet 3") == ["▁go▁to", "▁cabinet▁3"]
    assert tokens(tokenizer, "move mug 1 to desk 1") == ["▁move", "▁mug▁1", "▁to", "▁desk▁1"]
    arrival = tokens(tokenizer, "You arrive at cabinet 3. The cabinet 3 is closed.")
    assert arrival == ["▁You▁arrive▁at", "▁cabinet▁3", ".▁The", "▁cabinet▁3", "▁is▁closed."]


def test_names_of_things_are_never_part_of_a_phrase(tokenizer):
    for name in ("cabinet", "mug", "desk", "toaster"):
        assert {token for token in vocabulary(KITCHEN) if name in token.split("▁")[:-1] and "to:" in token} == set()
        assert f"▁{name}" in tokenizer.get_vocab()


def test_numbers_go_up_to_a_margin_above_those_seen(tokenizer):
    vocabulary = tokenizer.get_vocab()
    assert "▁cabinet▁5" in vocabulary
    assert "▁cabinet▁6" not in vocabulary
    assert tokenizer.decode(tokenizer.encode("go to cabinet 17")) == "go to cabinet 17"


def test_amounts_are_tokens_apart_from_the_word_before(shop):
    assert "▁than▁40" not in shop.get_vocab()
    assert not [token for token in shop.get_vocab() if token.startswith("▁jacket▁")]
    found = tokens(shop, "and price lower than 40.00 dollars")
    assert [token for token in found if "40" in token] == ["▁40"]


def test_markup_is_one_token_and_no_phrase_spans_it(shop):
    assert tokens(shop, "Back to Search [SEP] Page 1") == ["▁Back▁to▁Search", "▁[SEP]", "▁Page▁1"]
    assert tokens(shop, "[button] Buy Now [button_]\n[clicked button] blue") == [
        *("▁[button]", "▁Buy▁Now", "▁[button_]", "\n", "[clicked▁button]", "▁blue"),
    ]
    assert not [token for token in shop.get_vocab() if "[SEP]" in token and token != "▁[SEP]"]


def test_what_stands_in_a_command_s_brackets_is_the_token_of_the_page(shop):
    assert tokens(shop, "click[blue]") == ["▁click[", "▁blue", "]"]
    assert "▁blue" in tokens(shop, "color [SEP] blue [SEP]")
    assert tokens(shop, "click[Buy Now]") == ["▁click[", "▁Buy▁Now", "]"]
    for text in ("click[blue]", "click[ blue]", "click[[x]]", "a [b] c", "search[ ]", "x[", "7[ 8", "click [x]"):
        assert shop.decode(shop.encode(text)) == text


def test_what_few_marked_texts_repeat_is_no_phrase(shop):
    assert tokens(shop, "sugar free fruit bar") == ["▁sugar", "▁free", "▁fruit", "▁bar"]
    plain = train_tokenizer([text for text in SHOP if "[" not in text] * 2)
    assert tokens(plain, "sugar free fruit bar") == ["▁sugar▁free▁fruit▁bar"]


@pytest.mark.parametrize("text", [*KITCHEN[::10], "search[Red shoes, size 7.5]", "quite  new WORDS\n\nwith_lines", ""])
def test_decodes_to_the_same_text(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unk_token_id not in tokenizer.encode(text)


def test_text_is_never_read_as_a_special_token(tokenizer):
    backend = tokenizer.backend_tokenizer
    backend.encode_special_tokens = True
    try:
        ids = backend.encode(f"say {ACTION}").ids
    finally:
        backend.encode_special_tokens = False
    assert set(ids).isdisjoint(tokenizer.all_special_ids)
    assert tokenizer.decode(ids) == f"say {ACTION}"


def test_the_order_of_the_texts_does_not_matter():
    shuffled = KITCHEN.copy()
    random.Random(0).shuffle(shuffled)
    assert vocabulary(shuffled) == vocabulary(KITCHEN)


def test_fresh_tasks_hold_no_unknown_token_and_few_characters(tasks):
    train = [task for task in tasks if task.split == "train"]
    tokenizer = train_tokenizer(corridor_texts(train))
    fixed = len(SPECIAL) + len(CHARACTERS)
    for text in corridor_texts([task for task in tasks if task.split != "train"]):
        ids = tokenizer.encode(text)
        assert tokenizer.unk_token_id not in ids
        assert sum(token < fixed and tokenizer.convert_ids_to_tokens(token).isalnum() for token in ids) == 0
