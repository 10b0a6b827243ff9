"""Which games this engine knows: their domain and grammar, recognised by digest."""

import re
from functools import lru_cache
from hashlib import sha256

#: SHA-256 of the PDDL domains that this engine plays: that of all released games, and the one alfworld 0.4.2 ships.
#: They differ in a condition that no game can meet (a receptacle of type SinkType), so both are played alike.
DOMAINS = {
    "released": "0af55e7f92d12b09d28515aa730e4d03fddd17228ef1fd7b18a3ee8ba49b27b9",
    "shipped": "f1473041ed01da514de1f87adfd7ef0804862361f83ccf63c75e43633b0eb280",
}

#: SHA-256 of the text grammars without the task's sentence, i.e. with what follows "Your task is to: " up to the
#: closing quote left out. The two differ in how the help text is written, which comes out the same.
GRAMMARS = {
    "released": "10da93e13b58e1a6039723f5d4a59ceae7c60772515bfab9fc603bafa7f8ee06",
    "shipped": "c294eb280206a4428664cdb4e2037e267e86de5b7fa862212718a961513a7de4",
}

#: What `help` answers. The grammar writes a line break before it, which the official parser drops.
HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""

_BEFORE_TASK = '"rhs": "Your task is to: '
#: Sentences without a character that means something in a grammar or in JSON.
_PLAIN = re.compile(r"[ !$-:=?-Z^-z~&'()*+,\-./%]*")


class UnsupportedGameError(Exception):
    """A game that this engine does not play, though the official one may; the message says why."""


def check_domain(domain: str) -> None:
    """Raise UnsupportedGameError unless the domain is one that this engine plays."""
    if not _known(domain, "domain"):
        raise UnsupportedGameError("another PDDL domain")


def task_sentence(grammar: str) -> str:
    """Return "Your task is to: ..." as the grammar has it.

    Raises:
        UnsupportedGameError: the grammar is not one that this engine knows, or the sentence holds characters that the
            official engine would take for grammar.
    """
    start = grammar.find(_BEFORE_TASK) + len(_BEFORE_TASK)
    end = grammar.find('"', start)
    if start < len(_BEFORE_TASK) or end < 0 or not _known(grammar[:start] + grammar[end:], "grammar"):
        raise UnsupportedGameError("another text grammar")
    sentence = grammar[start:end]
    if not _PLAIN.fullmatch(sentence):
        raise UnsupportedGameError("a task sentence with special characters")
    return f"Your task is to: {sentence}"


# Keyed by the text itself, since hashing a string for a dictionary is far cheaper than its SHA-256.
@lru_cache(maxsize=16)
def _known(text: str, kind: str) -> bool:
    digests = DOMAINS if kind == "domain" else GRAMMARS
    return sha256(text.encode()).hexdigest() in digests.values()
