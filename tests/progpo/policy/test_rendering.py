"""Prompts and responses, plain and as chat, appended and in windows."""

import pytest

from progpo.errors import ProgpoError
from progpo.policy.checkpoint import load_pretrained
from progpo.policy.rendering import make_renderer
from progpo.settings.stages import PolicySettings

FIRST = "You are in a corridor. Along it you see a room 1, a room 2, a room 3.\n\nYour task is to: find the coin."
SEEN = "You are in room 2. In it, you see nothing."
CAN = ["go to room 1", "go to room 3", "look"]

#: Leaves thoughts out of earlier answers, as some released templates do.
FORGETFUL = (
    "{% for message in messages %}{% set content = message['content'] %}"
    "{% if not loop.last and message['role'] == 'assistant' %}"
    "{% set content = content.split('</think>')[-1] %}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
BROKEN = "{{ raise_exception('a system message is missing') }}"


@pytest.fixture(scope="module")
def chat(pretrained):
    def load(**settings):
        return load_pretrained(PolicySettings(init="pretrained", path=str(pretrained), **settings))

    return load


def decode(policy, tokens):
    return policy.tokenizer.decode(tokens, skip_special_tokens=False)


def test_plain_contexts_append_to_one_conversation(scratch):
    renderer = make_renderer(scratch)
    tokens = renderer.start(FIRST, CAN) + renderer.response("go to room 2") + renderer.turn(SEEN, CAN, ended=True)
    assert decode(scratch, tokens) == f"{FIRST}<|action|> go to room 2<|end|> {SEEN}<|action|>"
    cut = renderer.response("go to room 2")[:-1]
    assert renderer.start(FIRST, CAN) + cut + renderer.turn(SEEN, CAN, ended=False) == tokens


def test_a_plain_response_is_read_back(scratch):
    renderer = make_renderer(scratch)
    response = renderer.response("take coin 1 from room 2")
    assert renderer.parse(response) == ("take coin 1 from room 2", True)
    assert response[-1] in renderer.end_ids
    assert renderer.parse(response[:-1]) == ("take coin 1 from room 2", False)
    assert renderer.parse([scratch.tokenizer.pad_token_id, *response]) == ("take coin 1 from room 2", False)
    assert renderer.parse(response[-1:]) == ("", False)
    assert renderer.parse([]) == ("", False)


def test_plain_prompts_list_the_admissible_actions_where_asked(scratch):
    policy = type(scratch)(scratch.model, scratch.tokenizer, scratch.settings.model_copy(update={"admissible": True}))
    tokens = make_renderer(policy).start(FIRST, CAN)
    assert decode(policy, tokens) == f"{FIRST} go to room 1, go to room 3, look<|action|>"


def test_a_plain_window_holds_the_task_and_the_last_steps(scratch):
    policy = type(scratch)(scratch.model, scratch.tokenizer, scratch.settings.model_copy(update={"layout": "window"}))
    renderer = make_renderer(policy)
    history = [(FIRST, "go to room 2"), (SEEN, "look"), (SEEN, "go to room 3")]
    text = decode(policy, renderer.window(history, "You are in room 3.", CAN)[0])
    assert (
        text
        == f"{FIRST} {SEEN}<|action|> look<|end|> {SEEN}<|action|> go to room 3<|end|> You are in room 3.<|action|>"
    )
    assert renderer.window([], FIRST, CAN) == (renderer.start(FIRST, CAN), 0)
    early = decode(policy, renderer.window(history[:1], SEEN, CAN)[0])
    assert early == f"{FIRST}<|action|> go to room 2<|end|> {SEEN}<|action|>"


def test_the_task_is_told_again_where_asked(scratch):
    told = scratch.settings.model_copy(update={"restate": "Your task is to:"})
    renderer = make_renderer(type(scratch)(scratch.model, scratch.tokenizer, told))
    assert renderer.restated(SEEN, f"{FIRST}\nGood luck.") == f"{SEEN}\n\nYour task is to: find the coin."
    assert renderer.restated(SEEN, "Your task is to: wait.") == f"{SEEN} Your task is to: wait."
    assert make_renderer(scratch).restated(SEEN, FIRST) == SEEN
    with pytest.raises(ProgpoError, match=r"policy\.restate: the first observation does not hold 'Your task is to:'"):
        renderer.restated(SEEN, "You are in a corridor.")
    with pytest.raises(ValueError, match="restate: each prompt of the window layout tells the task"):
        PolicySettings(restate="Your task", layout="window")


def test_appended_chat_is_what_the_template_renders(chat):
    policy = chat(layout="append")
    renderer = make_renderer(policy)
    answers = ["<think>left?</think><action>go to room 2</action>", "<think></think><action>look</action>"]
    said = [[*renderer.encode(answer), renderer.end_id] for answer in answers]
    contexts = [renderer.start(FIRST, CAN), *(renderer.turn(SEEN, CAN[:k], ended=True) for k in (2, 3))]
    tokens = contexts[0] + said[0] + contexts[1] + said[1] + contexts[2]
    questions = [decode(policy, context) for context in contexts]
    questions = [text.split("<|im_start|>user\n")[1].split("<|im_end|>")[0] for text in questions]
    messages = [
        {"role": role, "content": content}
        for pair in zip(questions, [*answers, None], strict=True)
        for role, content in zip(("user", "assistant"), pair, strict=True)
        if content is not None
    ]
    whole = policy.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert decode(policy, tokens) == whole
    assert tokens == policy.tokenizer.encode(whole, add_special_tokens=False)
    unended = contexts[0] + said[0][:-1] + renderer.turn(SEEN, CAN[:2], ended=False)
    assert unended == contexts[0] + said[0] + contexts[1]
    assert "find the coin" in questions[0]
    assert "- go to room 3" in questions[0]


def test_a_template_that_cannot_be_appended_to_needs_windows(chat):
    for layout in ("append", "window"):
        policy = chat(layout=layout)
        policy.tokenizer.chat_template = FORGETFUL
        if layout == "append":
            with pytest.raises(ProgpoError, match="layout: window"):
                make_renderer(policy)
        else:
            assert make_renderer(policy).end_id == policy.tokenizer.eos_token_id


def test_a_broken_template_is_named(chat):
    policy = chat()
    policy.tokenizer.chat_template = BROKEN
    with pytest.raises(ProgpoError, match=r"chat template cannot render.*a system message is missing"):
        make_renderer(policy)


@pytest.mark.parametrize(
    ("text", "action", "formed"),
    [
        ("<think>hm</think><action> Go to Room 2\n</action>", "go to room 2", True),
        ("<think>say <action>look</action>?</think>\n<action>go to room 2</action>", "go to room 2", True),
        ("<action>look</action>", "look", False),
        ("<think>hm</think> look ", "<think>hm</think> look", False),
        ("<think>hm<action>look</action>", "look", False),
        ("", "", False),
    ],
)
def test_the_last_tagged_action_is_read(chat, text, action, formed):
    policy = chat()
    renderer = make_renderer(policy)
    tokens = [*renderer.encode(text)]
    assert renderer.parse(tokens) == (action, formed)
    assert renderer.parse([*tokens, renderer.end_id]) == (action, formed)


@pytest.mark.parametrize("response", ["plain", "think_action"])
def test_a_demonstrated_chat_response_is_read_back(chat, response):
    renderer = make_renderer(chat(response=response))
    tokens = renderer.response("take coin 1 from room 2")
    assert renderer.parse(tokens) == ("take coin 1 from room 2", True)
    assert tokens[-1] in renderer.end_ids


def test_a_chat_window_holds_task_history_and_actions(chat):
    policy = chat()
    renderer = make_renderer(policy)
    history = [(FIRST, "go to room 2"), (SEEN, "look"), (SEEN, "go to room 3")]
    text = decode(policy, renderer.window(history, "You are in room 3.", CAN)[0])
    assert text.count("find the coin") == 1
    assert "[action 1]" not in text
    assert "[action 2] look" in text
    assert "[observation 4, now] You are in room 3." in text
    assert "- go to room 1" in text
    assert text.endswith("<|im_start|>assistant\n")


def test_a_long_window_loses_its_oldest_steps_but_not_the_task(chat):
    history = [(FIRST, "go to room 2"), (SEEN, "look"), (SEEN, "go to room 3")]
    whole, cut = make_renderer(chat(window=3)).window(history, SEEN, CAN)
    assert cut == 0
    policy = chat(window=3, max_context_tokens=len(whole) + 19, max_response_tokens=20)
    renderer = make_renderer(policy)
    tokens, cut = renderer.window(history, SEEN, CAN)
    assert len(tokens) <= renderer.context_limit
    assert cut == 1
    text = decode(policy, tokens)
    assert "find the coin" in text
    assert "[action 1]" not in text
    assert "[action 3] go to room 3" in text
    none = make_renderer(chat(window=3, max_context_tokens=len(whole) // 2, max_response_tokens=len(whole) // 2 - 32))
    tokens, cut = none.window(history, SEEN, CAN)
    assert len(tokens) > none.context_limit
    assert cut == 3
    assert "find the coin" in decode(policy, tokens)
