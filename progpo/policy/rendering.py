"""Between text and tokens: the prompts a policy reads, the responses it gives.

All stages build and read token sequences through a `Renderer` alone, so that what is trained on is what was sampled.
In the append layout the concatenation context, response, context, response, ... is the sequence that the model saw:
`start` gives the first context, `turn` each later one. In the window layout `window` gives each step's whole prompt.
"""

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache

from progpo.errors import ProgpoError
from progpo.policy.checkpoint import Policy
from progpo.policy.tokenizer import ACTION, END, SPECIAL

History = Sequence[tuple[str, str]]

#: Distinct texts whose tokens are kept; the trajectories of a group read much the same.
REMEMBERED = 1 << 14


def repeats(history: History, observation: str) -> set[str]:
    """Return the actions that were taken on the very same observation before."""
    return {action for before, action in history if before == observation}


class Renderer(ABC):
    """How one policy reads and answers.

    Attributes:
        layout: "append" or "window".
        response_limit: the longest response, in tokens, its end included.
        context_limit: the longest context that leaves room for a response.
        end_ids: tokens that end a response.
        lists_admissible: whether prompts list the admissible actions.
        constrained: whether a response is one of the admissible actions.
    """

    end_ids: frozenset[int]
    end_id: int

    def __init__(self, policy: Policy) -> None:
        settings = policy.settings
        self.layout = settings.resolved_layout
        self.steps = settings.window
        self.response_limit = settings.response_limit
        self.context_limit = settings.max_context_tokens - settings.response_limit
        self.lists_admissible = settings.lists_admissible
        self.constrained = settings.constrained
        self._no_repeat = settings.no_repeat
        self._restate = settings.restate
        self._tokenizer = copy.deepcopy(policy.tokenizer.backend_tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self.encode = lru_cache(REMEMBERED)(self._encode)
        self._utterance = lru_cache(REMEMBERED)(self._utter)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def restated(self, observation: str, first: str) -> str:
        """Return a later observation as the append layout reads it: with the task at its end, if so set.

        Args:
            first: the episode's first observation, which holds the task.

        Raises:
            ProgpoError: it does not.
        """
        if self._restate is None:
            return observation
        place = first.find(self._restate)
        if place < 0:
            raise ProgpoError(
                f"policy.restate: the first observation does not hold {self._restate!r}; set what the task begins with "
                f"there, or null. It reads: {first[:500]!r}"
            )
        # Set apart as there, so that it is cut into the same tokens.
        space = first[len(first[:place].rstrip()) : place]
        return f"{observation}{space or ' '}{first[place:].splitlines()[0]}"

    @abstractmethod
    def start(self, observation: str, admissible: Sequence[str]) -> list[int]:
        """Return the first context of an episode."""

    @abstractmethod
    def turn(self, observation: str, admissible: Sequence[str], ended: bool) -> list[int]:
        """Return what stands between a response and the next one (append layout).

        Args:
            ended: whether that response closed itself with an end token; if not, the end token belongs here.
        """

    @abstractmethod
    def prompt(self, history: History, kept: int, observation: str, admissible: Sequence[str]) -> list[int]:
        """Return a prompt that stands alone, with the task and the last `kept` steps of the history."""

    @abstractmethod
    def parse(self, response: Sequence[int]) -> tuple[str, bool]:
        """Return the action in a response, and whether the response is well-formed (if not: its text)."""

    @abstractmethod
    def response(self, action: str) -> list[int]:
        """Return the tokens of a demonstrated response, its end included."""

    def choices(self, admissible: Sequence[str], history: History, observation: str) -> list[tuple[int, ...]]:
        """Return the responses, each with its end, that a constrained policy may give.

        Actions that the tokenizer cannot write, or only in more tokens than a response has, are left out; and with
        `no_repeat` those that were taken on this observation before, if any other is left.

        Args:
            history: all (observation, action) so far.
            observation: the present one.

        Raises:
            ProgpoError: none can be written.
        """
        written = {action: tokens for action in admissible if (tokens := self._utterance(action))}
        if not written:
            raise ProgpoError(
                f"policy.constrained: none of the {len(admissible)} admissible actions can be written in "
                f"{self.response_limit} tokens (policy.max_response_tokens) of this policy's vocabulary, such as "
                f"{next(iter(admissible), 'none')!r}"
            )
        taken = repeats(history, observation) if self._no_repeat else set()
        return [tokens for action, tokens in written.items() if action not in taken] or [*written.values()]

    def _utter(self, action: str) -> tuple[int, ...]:
        tokens = tuple(self.response(action))
        return tokens if len(tokens) <= self.response_limit and self.parse(tokens) == (action, True) else ()

    def window(self, history: History, observation: str, admissible: Sequence[str]) -> tuple[list[int], int]:
        """Return a step's whole prompt (window layout), and how many steps it should have told and does not.

        The oldest steps are left out first where it would be longer than `context_limit`; the task never is, so
        that the prompt may still be too long.

        Args:
            history: all (observation, action) so far; the first observation holds the task.
        """
        most = min(self.steps, len(history))
        kept, tokens = most, self.prompt(history, most, observation, admissible)
        while kept and len(tokens) > self.context_limit:
            kept -= 1
            tokens = self.prompt(history, kept, observation, admissible)
        return tokens, most - kept


class PlainRenderer(Renderer):
    """For a policy made from scratch: observation, action token; the response is the action and an end token."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.end_id, self._action = (self._tokenizer.token_to_id(token) for token in (END, ACTION))
        self.end_ids = frozenset([self.end_id])
        self._special = frozenset(self._tokenizer.token_to_id(token) for token in SPECIAL)
        self._tokenizer.encode_special_tokens = True

    def _observe(self, observation: str, admissible: Sequence[str]) -> list[int]:
        tokens = [*self.encode(observation)]
        if self.lists_admissible:
            tokens += self.encode(", ".join(admissible))
        tokens.append(self._action)
        return tokens

    def start(self, observation: str, admissible: Sequence[str]) -> list[int]:
        return self._observe(observation, admissible)

    def turn(self, observation: str, admissible: Sequence[str], ended: bool) -> list[int]:
        tokens = self._observe(observation, admissible)
        return tokens if ended else [self.end_id, *tokens]

    def prompt(self, history: History, kept: int, observation: str, admissible: Sequence[str]) -> list[int]:
        tokens = []
        first = len(history) - kept
        if history:
            tokens += self.encode(history[0][0])
        for number, (seen, action) in enumerate(history[first:], first):
            tokens += [*(self.encode(seen) if number else ()), self._action, *self.response(action)]
        return tokens + self._observe(observation, admissible)

    def parse(self, response: Sequence[int]) -> tuple[str, bool]:
        ended = bool(response) and response[-1] in self.end_ids
        body = list(response[:-1] if ended else response)
        action = self._tokenizer.decode(body, skip_special_tokens=True)
        return action, ended and bool(action) and self._special.isdisjoint(body)

    def response(self, action: str) -> list[int]:
        return [*self.encode(action), self.end_id]


OPENING = (
    "You play a game in text: each turn you read what you observe and choose one action, until the task is done.\n\n"
)
THINK_ACTION = (
    "First think about what to do next, between <think> and </think>. Then give the one action that you choose, "
    "between <action> and </action>."
)
PLAIN = "Answer with the one action that you choose and nothing else."
TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


class ChatRenderer(Renderer):
    """For a pretrained policy: its own chat template, the environment as user, the policy as assistant.

    With `response: think_action` the answer is <think>...</think><action>...</action>, and the prompt tells the
    task, the last steps, the current observation and the admissible actions, in the manner of GiGPO's experiments
    (arXiv 2505.10978); with `response: plain` the answer is the action.

    Raises:
        ProgpoError: the template cannot render these messages, or (append layout) it renders a conversation's past
            otherwise once the conversation goes on.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._thinks = policy.settings.resolved_response == "think_action"
        self._chat = policy.tokenizer
        self._special = frozenset(policy.tokenizer.all_special_ids)
        question, answer = "first question", self._answer("first answer")
        opening = self._render([question])
        self._before, found, self._after = opening.partition(question)
        if not found:
            raise ProgpoError("policy: the chat template leaves out the user's message; use another checkpoint")
        closing = self._render([question, answer]).rpartition(answer)[2]
        closing_ids = self.encode(closing)[:1]
        self._closes = bool(closing_ids) and closing_ids[0] in self._special
        self.end_id = closing_ids[0] if self._closes else policy.tokenizer.eos_token_id
        stops = getattr(policy.model.generation_config, "eos_token_id", None)
        stops = stops if isinstance(stops, list) else [stops]
        ends = {self.end_id, policy.tokenizer.eos_token_id, *stops} - {None}
        if not ends:
            raise ProgpoError("policy: neither tokenizer nor chat template has a token that ends an answer")
        self.end_ids = frozenset(ends)
        if self.layout == "append":
            self._between = self._derive_between(opening, answer)

    def _render(self, messages: Sequence[str]) -> str:
        """Render messages, the user's and the assistant's in turn; a last one of the user's asks for an answer."""
        from jinja2 import TemplateError

        roles = [
            {"role": ("user", "assistant")[number % 2], "content": content} for number, content in enumerate(messages)
        ]
        try:
            return self._chat.apply_chat_template(roles, tokenize=False, add_generation_prompt=len(messages) % 2 == 1)
        except TemplateError as error:
            raise ProgpoError(f"policy: the chat template cannot render a conversation: {error}") from None

    def _derive_between(self, opening: str, answer: str) -> tuple[str, str]:
        """Return what the template puts between an answer and the next question, and between that and its answer."""
        second, third = "second question", "third question"
        short = self._render(["first question", answer, second])
        long = self._render(["first question", answer, second, answer, third])
        between = short.removeprefix(opening + answer)
        later = long.removeprefix(short + answer)
        parts = between.split(second)
        if between == short or later == long or len(parts) != 2 or later.split(third) != parts:
            raise ProgpoError(
                "policy.layout: this checkpoint's chat template renders earlier turns anew as the conversation goes "
                "on, so that it cannot be appended to; set `layout: window`"
            )
        return parts[0], parts[1]

    def _answer(self, action: str) -> str:
        return f"<think>\n\n</think>\n<action>{action}</action>" if self._thinks else action

    def _ask(self, observation: str, admissible: Sequence[str]) -> str:
        listed = ""
        if self.lists_admissible:
            listed = "You can do now:\n" + "".join(f"- {action}\n" for action in admissible) + "\n"
        return f"{observation.strip()}\n\n{listed}{THINK_ACTION if self._thinks else PLAIN}"

    def _alone(self, content: str) -> list[int]:
        return [*self.encode(self._before + content + self._after)]

    def start(self, observation: str, admissible: Sequence[str]) -> list[int]:
        return self._alone(OPENING + self._ask(observation, admissible))

    def turn(self, observation: str, admissible: Sequence[str], ended: bool) -> list[int]:
        before, after = self._between
        tokens = [*self.encode(before + self._ask(observation, admissible) + after)]
        return tokens[1:] if ended and self._closes else tokens

    def prompt(self, history: History, kept: int, observation: str, admissible: Sequence[str]) -> list[int]:
        if not history:
            return self.start(observation, admissible)
        first = len(history) - kept
        lines = [OPENING, "It began like this:\n", history[0][0].strip(), "\n\n"]
        if kept:
            lines.append(f"You have taken {len(history)} steps; the last {kept}:\n")
            for number, (seen, action) in enumerate(history[first:], first + 1):
                told = "as above" if number == 1 else seen.strip()
                lines.append(f"[observation {number}] {told}\n[action {number}] {action}\n")
            lines.append("\n")
        lines.append(f"[observation {len(history) + 1}, now] {self._ask(observation, admissible)}")
        return self._alone("".join(lines))

    def parse(self, response: Sequence[int]) -> tuple[str, bool]:
        ended = bool(response) and response[-1] in self.end_ids
        text = self._tokenizer.decode([*(response[:-1] if ended else response)], skip_special_tokens=True)
        if not self._thinks:
            action = text.strip().lower()
            return action, ended and bool(action)
        tagged = TAGGED.findall(text)
        if not tagged:
            return text.strip(), False
        return tagged[-1].strip().lower(), bool(THOUGHT.search(text))

    def response(self, action: str) -> list[int]:
        return [*self.encode(self._answer(action)), self.end_id]


def make_renderer(policy: Policy) -> Renderer:
    """Return the renderer of a policy; raises ProgpoError where its tokenizer cannot serve (see ChatRenderer)."""
    return PlainRenderer(policy) if policy.settings.init == "scratch" else ChatRenderer(policy)
