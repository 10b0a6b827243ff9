"""A word-level tokenizer for a policy made from scratch, learnt from an environment's texts.

What a small policy must get right is which thing to act on, so a thing with its number ("cabinet 6") is one
token, with every number up to a margin above those seen. What templates repeat ("you arrive at", ". In it,
you see a") is one token too: neighbouring words that stand beside each other often enough are merged, most
frequent pair first, as byte-pair encoding (arXiv 1508.07909) merges characters, but never across a thing,
or a name that things bear, nor across markup ("[SEP]"), which separates what has nothing to do with each
other; and where there is markup, only what a large share of texts repeat is merged: the rest is what the
fields hold. All other words are tokens of their own, and single characters spell whatever was never seen.

The result is an ordinary `PreTrainedTokenizerFast`: a unigram model in which each word, thing and phrase
costs the same and each single character ten times that, so that a text is cut into as few tokens as
possible. A token that follows a space holds the space, and so does one that follows a word's bracket, where none
is written: what stands in a command's brackets ("click[red]") is the same token as on the page, and can be copied.
Decoding gives back the text to the character.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN, END, ACTION = "<|pad|>", "<|unknown|>", "<|end|>", "<|action|>"
SPECIAL = (PAD, UNKNOWN, END, ACTION)

#: Stands for the space, as in SentencePiece.
SPACE = "\u2581"
TAG = rf"\[[A-Za-z_]+(?:{SPACE}[A-Za-z_]+)?\]"
#: A tag that stands apart, a thing with its number, a word, or one other character; each with the space before it.
UNIT = re.compile(
    rf"(?:{SPACE}|(?<=\n)){TAG}|{SPACE}[^\W\d_]+{SPACE}\d+(?!\w)|{SPACE}?(?:[^\W_]|')+|{SPACE}?[^{SPACE}]|{SPACE}"
)
MARKUP = re.compile(rf"{SPACE}?{TAG}")
THING = re.compile(rf"({SPACE}[^\W\d_]+)({SPACE}(\d+))")
#: Things of a name are numbered, so that of their numbers up to the highest one in so many is seen at least; else the
#: numbers are amounts ("lower than 40"), and a token for each up to the highest would be many.
SPARSE = 8
#: Printable ASCII and the line break.
CHARACTERS = ("\n", SPACE, *map(chr, range(33, 127)))

#: A bracket that follows a word: of a command. What is in it is read as if after a space.
OPENED, OPENED_SPACED = r"(?<=\w)\[", r"(?<=\w)\[ "

WORD_COST, CHARACTER_COST = 1.0, 10.0
#: More than any spelling costs, so that no text is read as a special token.
SPECIAL_COST = 1000.0


def _units(text: str) -> list[str]:
    return UNIT.findall(SPACE + re.sub(OPENED, "[ ", text).replace(" ", SPACE))


def _numbered_names(cut: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return the names that numbered things bear, with the highest number seen of each."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for units in cut:
        for unit in units:
            if thing := THING.fullmatch(unit):
                numbers[thing[1]].add(int(thing[3]))
    return {name: max(seen) for name, seen in numbers.items() if SPARSE * len(seen) >= max(seen)}


def _amounts_apart(units: Iterable[str], names: Container[str]) -> Iterator[str]:
    """Yield units, with those that look like a thing of another name cut into word and number."""
    for unit in units:
        thing = THING.fullmatch(unit)
        if thing and thing[1] not in names:
            yield thing[1]
            yield thing[2]
        else:
            yield unit


def _runs(units: Iterable[str], barriers: Container[str]) -> Iterator[tuple[str, ...]]:
    """Yield the runs of two units or more in which neighbours may be merged."""
    run: list[str] = []
    for unit in [*units, None]:
        barred = unit is None or THING.fullmatch(unit) or MARKUP.fullmatch(unit) or unit.strip(SPACE) in barriers
        if not barred:
            run.append(unit)
        # A command's bracket ends its verb.
        if barred or unit == "[":
            if len(run) > 1:
                yield tuple(run)
            run = []


def _merge(units: tuple[str, ...], left: str, right: str) -> tuple[str, ...]:
    merged: list[str] = []
    position = 0
    while position < len(units):
        if units[position] == left and units[position + 1 : position + 2] == (right,):
            merged.append(left + right)
            position += 2
        else:
            merged.append(units[position])
            position += 1
    return tuple(merged)


def _phrases(runs: Counter[tuple[str, ...]], most: int, least_count: int) -> list[str]:
    """Merge frequent neighbours within runs of words; return the phrases that are in use at the end."""
    for _ in range(most):
        pairs: Counter[tuple[str, str]] = Counter()
        for run, count in runs.items():
            for pair in pairwise(run):
                pairs[pair] += count
        if not pairs:
            break
        (left, right), count = min(pairs.items(), key=lambda item: (-item[1], item[0]))
        if count < least_count:
            break
        fresh: Counter[tuple[str, ...]] = Counter()
        for run, times in runs.items():
            fresh[_merge(run, left, right)] += times
        runs = fresh
    used: Counter[str] = Counter()
    for run, count in runs.items():
        for unit in run:
            used[unit] += count
    return [unit for unit in used if len(UNIT.findall(unit)) > 1]


def vocabulary(
    texts: Iterable[str],
    words: int = 4096,
    phrases: int = 256,
    margin: float = 0.5,
    share: float = 2e-4,
    marked_share: float = 0.1,
) -> list[str]:
    """Choose the tokens, special ones and characters aside.

    Args:
        texts: observations and actions; the order does not matter.
        words: at most so many words, the most frequent ones.
        phrases: at most so many merges.
        margin: numbers of a thing go up to (1 + margin) times the highest seen, at least two more.
        share: a pair is merged only while it occurs in this share of the texts or more (and 8 times);
        marked_share: the same where texts hold markup.

    Returns:
        Things, words and phrases, in an order that depends on the texts alone.
    """
    counts = Counter(texts)
    total = sum(counts.values())
    cut = {text: _units(text) for text in counts}
    highest = _numbered_names(cut.values())
    cut = {text: list(_amounts_apart(units, highest)) for text, units in cut.items()}
    seen: Counter[str] = Counter()
    for text, count in counts.items():
        for unit in cut[text]:
            if not THING.fullmatch(unit):
                seen[unit] += count
    barriers = {"]", *(name.strip(SPACE) for name in highest)}
    runs: Counter[tuple[str, ...]] = Counter()
    for text, count in counts.items():
        for run in _runs(cut[text], barriers):
            runs[run] += count
    things = [
        f"{name}{SPACE}{number}"
        for name in sorted(highest)
        for number in range(1, highest[name] + max(2, int(margin * highest[name])) + 1)
    ]
    names = sorted(highest)
    common = sorted(seen, key=lambda word: (-seen[word], word))[:words]
    least = marked_share if any(map(MARKUP.fullmatch, seen)) else share
    merged = sorted(_phrases(runs, phrases, max(8, int(least * total))))
    return list(dict.fromkeys([*things, *names, *common, *merged]))


def train_tokenizer(texts: Iterable[str]) -> "PreTrainedTokenizerFast":
    """Learn a tokenizer from an environment's texts.

    Args:
        texts: observations and actions, as the environment writes and reads them.

    Returns:
        A tokenizer whose `decode(encode(text))` is the text, for any text in printable ASCII that does not
        begin with a space; `eos_token` ends an action, the token `ACTION` asks for one.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = dict.fromkeys(SPECIAL, -SPECIAL_COST)
    tokens.update(dict.fromkeys(CHARACTERS, -CHARACTER_COST))
    tokens.update(dict.fromkeys(vocabulary(texts), -WORD_COST))
    model = models.Unigram(list(tokens.items()), unk_id=SPECIAL.index(UNKNOWN))
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(Regex(OPENED), "[ ")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always", split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            *(decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)),
            decoders.Replace(Regex(OPENED_SPACED), "["),
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[ACTION],
        clean_up_tokenization_spaces=False,
    )
