"""Tables as CSV, Markdown and plain text."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

Cells = Sequence[Sequence[str]]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of the same keys as CSV, None as an empty cell; no rows, no text."""
    file = io.StringIO()
    if rows:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return file.getvalue()


def to_markdown(header: Sequence[str], cells: Cells) -> list[str]:
    """Return a table's lines in Markdown."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in cells]


def to_text(header: Sequence[str], cells: Cells) -> list[str]:
    """Return a table's lines in columns, the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [header, *cells]) for column in range(len(header))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in [header, *cells]
    ]
