"""The two usual ways to sample episodes with transformers, as straightforward code has them.

Both play the same episodes through the same renderer (append layout) as the sampler does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from progpo.policy.checkpoint import Policy
from progpo.policy.play import Episode
from progpo.policy.rendering import Renderer, make_renderer


@dataclass
class Played:
    """What was done.

    Attributes:
        episodes, steps: finished.
        tokens: read and sampled, each once, whatever was read again.
        actions: of each episode.
    """

    episodes: int = 0
    steps: int = 0
    tokens: int = 0
    actions: list[list[str]] = field(default_factory=list)


@dataclass
class Slot:
    """An episode on its way, with the tokens of its whole conversation and those not read yet."""

    renderer: Renderer
    environment: Any
    context: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)
    over: bool = False

    def begin(self, episode: Episode) -> None:
        """Reset the environment and make the first context."""
        observation, info = self.environment.reset(options=dict(episode.task.options))
        self.context = self.renderer.start(observation, info["admissible_commands"])
        self.unread = list(self.context)

    def act(self, response: list[int], played: Played) -> None:
        """Execute a response and make the next context; count both."""
        action, _ = self.renderer.parse(response)
        observation, _, terminated, truncated, info = self.environment.step(action)
        self.actions.append(action)
        ended = response[-1] in self.renderer.end_ids
        following = self.renderer.turn(observation, info["admissible_commands"], ended)
        self.over = terminated or truncated
        played.steps += 1
        played.tokens += len(response) + (0 if self.over else len(following))
        self.context += response + following
        self.unread = [response[-1], *following]
        self.over |= len(self.context) > self.renderer.context_limit


def start(
    episodes: Sequence[Episode], renderer: Renderer, make_environment: Callable[[], Any], played: Played
) -> list[Slot]:
    """Begin episodes, each in an environment of its own."""
    slots = []
    for episode in episodes:
        slots.append(Slot(renderer, make_environment()))
        slots[-1].begin(episode)
        played.tokens += len(slots[-1].context)
    return slots


def finish(slots: Sequence[Slot], played: Played) -> None:
    """Count episodes that are over, and close their environments."""
    for slot in slots:
        played.episodes += 1
        played.actions.append(slot.actions)
        slot.environment.close()


def generate_each_turn(
    policy: Policy, episodes: Sequence[Episode], make_environment: Callable[[], Any], temperature: float, batch: int
) -> Played:
    """Each turn `generate` reads the whole contexts of all live episodes again, padded on the left."""
    renderer, played = make_renderer(policy), Played()
    pad = policy.tokenizer.pad_token_id
    choice = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    for first in range(0, len(episodes), batch):
        slots = start(episodes[first : first + batch], renderer, make_environment, played)
        while live := [slot for slot in slots if not slot.over]:
            width = max(len(slot.context) for slot in live)
            padded = torch.tensor([[pad] * (width - len(slot.context)) + slot.context for slot in live])
            mask = torch.tensor([[0] * (width - len(slot.context)) + [1] * len(slot.context) for slot in live])
            with torch.inference_mode():
                found = policy.model.generate(
                    input_ids=padded,
                    attention_mask=mask,
                    max_new_tokens=renderer.response_limit,
                    pad_token_id=pad,
                    eos_token_id=list(renderer.end_ids),
                    **choice,
                )
            for slot, row in zip(live, found[:, width:].tolist(), strict=True):
                slot.act(_until_end(row, renderer), played)
        finish(slots, played)
    return played


def _until_end(row: list[int], renderer: Renderer) -> list[int]:
    for place, token in enumerate(row):
        if token in renderer.end_ids:
            return row[: place + 1]
    return row


def padded_cache(
    policy: Policy, episodes: Sequence[Episode], make_environment: Callable[[], Any], temperature: float, batch: int
) -> Played:
    """One cache for the batch: all rows take their turns together, what is shorter is padded, and no row leaves."""
    renderer, played = make_renderer(policy), Played()
    for first in range(0, len(episodes), batch):
        slots = start(episodes[first : first + batch], renderer, make_environment, played)
        conversation = _PaddedConversation(policy, len(slots), temperature)
        while not all(slot.over for slot in slots):
            responses = conversation.turn([[] if slot.over else slot.unread for slot in slots], renderer)
            for slot, response in zip(slots, responses, strict=True):
                if not slot.over:
                    slot.act(response, played)
        finish(slots, played)
    return played


class _PaddedConversation:
    def __init__(self, policy: Policy, rows: int, temperature: float) -> None:
        self.model, self.temperature = policy.model, temperature
        self.cache = DynamicCache()
        self.mask = torch.zeros(rows, 0, dtype=torch.long)
        self.pad = policy.tokenizer.pad_token_id

    def read(self, chunks: Sequence[Sequence[int]]) -> Tensor:
        """Read a chunk a row, padded on the left, and return the logits (B, V) after it."""
        width = max(map(len, chunks))
        tokens = torch.tensor([[self.pad] * (width - len(chunk)) + [*chunk] for chunk in chunks])
        fresh = torch.tensor([[0] * (width - len(chunk)) + [1] * len(chunk) for chunk in chunks])
        before = self.mask.sum(1, keepdim=True)
        self.mask = torch.cat((self.mask, fresh), 1)
        with torch.inference_mode():
            return self.model(
                input_ids=tokens,
                attention_mask=self.mask,
                position_ids=(before + fresh.cumsum(1) - 1).clamp_(min=0),
                cache=self.cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]

    def turn(self, chunks: Sequence[Sequence[int]], renderer: Renderer) -> list[list[int]]:
        """Read the chunks and sample responses, all rows in step; an empty chunk asks for none."""
        responses: list[list[int]] = [[] for _ in chunks]
        open_rows = [row for row, chunk in enumerate(chunks) if chunk]
        logits = self.read(chunks)
        while True:
            tokens = self.choose(logits).tolist()
            for row in open_rows:
                responses[row].append(tokens[row])
            open_rows = [
                row
                for row in open_rows
                if responses[row][-1] not in renderer.end_ids and len(responses[row]) < renderer.response_limit
            ]
            if not open_rows:
                return responses
            going = set(open_rows)
            logits = self.read([[tokens[row]] if row in going else [] for row in range(len(chunks))])

    def choose(self, logits: Tensor) -> Tensor:
        if not self.temperature:
            return logits.argmax(-1)
        return torch.multinomial(torch.softmax(logits / self.temperature, -1), 1)[:, 0]
