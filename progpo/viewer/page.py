"""The page: data, style and script in one file, which asks nothing of the network.

What environments say is not to be trusted. It stands in the page as JSON in which no `<` occurs, and the script puts
it there as text, never as markup; the page's policy (CSP) moreover lets no other script run than its own.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

#: What JSON may hold and a script element, or JavaScript, may not.
UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
PLACE = re.compile(r"\{\{(\w+)\}\}")


def render(data: Mapping[str, Any]) -> str:
    """Return the page that shows what `progpo.viewer.collect.collect` returned."""
    style, script = (_resource(f"page.{kind}") for kind in ("css", "js"))
    parts = {
        "title": html.escape(" and ".join(source["label"] for source in data["sources"])),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "data": embed(data),
    }
    return PLACE.sub(lambda found: parts[found[1]], _resource("page.html"))


def embed(data: Any) -> str:
    """Return JSON that can stand in a script element, whatever texts it holds."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).translate(UNSAFE)


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
