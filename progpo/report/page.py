"""The report's page: tables, figures and settings in one file, which runs no script and asks nothing of the network.

All texts are escaped, and the page's policy (CSP) lets it load nothing but the figures that it holds.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from progpo.report.captions import CAPTIONS
from progpo.report.collect import Content, Table

PLACE = re.compile(r"\{\{(\w+)\}\}")
#: Which tables stand under which figure, by how their titles begin. Others stand in a section of their own.
UNDER = {
    "Success %": "success",
    "Training": "learning",
    "Validation": "learning",
    "Best iteration": "learning",
}
ALARMS = "<p>Signs of trouble in training; none of them stopped it. The limits stand in the manual of settings.</p>"
NUMBER = re.compile(r"[-+]?[\d.]+(\s\[.*\])?\*?|-|")


def render(content: Content, figures: Path) -> str:
    """Return the page.

    Args:
        content: what it shows.
        figures: the folder that `progpo.report.figures.draw` wrote to.
    """
    sections = [(name, title, list(_figure(content, figures, name))) for name, (title, _) in CAPTIONS.items()]
    others = [table for table in content.tables if _place(table) is None]
    if others:
        sections.insert(-1, ("alarms", "Alarms", [ALARMS, *(part for table in others for part in _table(table))]))
    sections.append(("settings", "Settings", list(_settings(content))))
    style = _resource("page.css")
    escape = html.escape
    parts = {
        "title": escape(content.settings.experiment),
        "summary": escape(_summary(content)),
        "style": style,
        "style_hash": f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}",
        "contents": "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in sections),
        "sections": "\n".join(
            "\n".join([f'<section id="{name}">', f"<h2>{escape(title)}</h2>", *body, "</section>"])
            for name, title, body in sections
        ),
        "made": escape(f"Made by progpo {' and '.join(content.versions) or '(version not recorded)'}."),
    }
    return PLACE.sub(lambda found: parts[found[1]], _resource("page.html"))


def _summary(content: Content) -> str:
    arms = ", ".join(content.arms[1:] if content.arms[0] == "warmup" else content.arms)
    settings = content.settings
    plural = "s" if settings.iterations > 1 else ""
    seeds = ", ".join(map(str, settings.seeds))
    return f"{content.title}. Arms: {arms}; {settings.iterations} iteration{plural}; seeds {seeds}."


def _figure(content: Content, folder: Path, name: str) -> Iterator[str]:
    """Yield a figure with its caption, and the tables that belong to it."""
    title, caption = CAPTIONS[name]
    if name == "time" and not content.usage:
        yield "<p>Nothing was measured: these artifacts were not made by the workflow.</p>"
        return
    image = base64.b64encode((folder / f"{name}.svg").read_bytes()).decode()
    yield (
        f'<figure><img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{image}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )
    for table in content.tables:
        if _place(table) == name:
            yield from _table(table)
    if name == "time":
        header = ["stage", "jobs", "minutes", "CPU minutes", "longest job, minutes", "memory, GiB"]
        cells = [
            [
                row["stage"],
                str(row["jobs"]),
                *(f"{row[column] / 60:.1f}" for column in ("seconds", "cpu_seconds", "longest")),
                "-" if row["memory"] is None else f"{row['memory']:.2f}",
            ]
            for row in content.usage
        ]
        yield from _table(("By stage, all jobs together", header, cells))


def _place(table: Table) -> str | None:
    return next((name for start, name in UNDER.items() if table[0].startswith(start)), None)


def _table(table: Table) -> Iterator[str]:
    """Yield a table; of words, to the left, unless all but its first column are numbers."""
    title, header, cells = table
    numbers = all(NUMBER.fullmatch(cell) for row in cells for cell in row[1:])
    yield f"<h3>{html.escape(title)}</h3>"
    yield f'<div class="table"><table{"" if numbers else " class=words"}>'
    yield f"<thead><tr>{_cells('th', header)}</tr></thead><tbody>"
    yield from (f"<tr>{_cells('td', row)}</tr>" for row in cells)
    yield "</tbody></table></div>"


def _cells(kind: str, row: Sequence[str]) -> str:
    # Long names may be broken where their words meet.
    return "".join(f"<{kind}>{html.escape(cell).replace('_', '_<wbr>')}</{kind}>" for cell in row)


def _settings(content: Content) -> Iterator[str]:
    """Yield the settings: the arms' in view, each other stage's to be opened."""
    yield "<p>As the artifacts' manifests hold them, of the first seed; every default is written out.</p>"
    yield "<h3>Arms</h3>"
    yield _yaml(content.recipes)
    for name, settings in content.stages.items():
        yield f"<details><summary>{html.escape(name)}</summary>{_yaml(settings)}</details>"


def _yaml(settings: Mapping[str, Any]) -> str:
    return f"<pre>{html.escape(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))}</pre>"


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
