"""Tables as CSV, with the numbers of their cells as every program reads them.

Each part of a cell has a column of its own: `loss`, `loss se`, `loss from`, `loss to`, and
`loss, note` for words beside a number.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from extrap.files import csv_text
from extrap.records.numbers import NBSP, TableCell, format_exact

if TYPE_CHECKING:
    from extrap.reporting.tables import Table

EMPTY = ("", "–", "unknown", "not known")
LONGEST = 60
"""Characters of a file's name."""
_HEADS = {
    "value": "{}",
    "error": "{} se",
    "lower": "{} from",
    "upper": "{} to",
    "note": "{}, note",
}
"""Part of a cell → heading of its column."""


def cell_number(cell: str) -> float | None:
    """The number that a cell is sorted by: its value, or the end of its interval that is known."""
    if not isinstance(cell, TableCell):
        return None
    return next((n for n in (cell.value, *cell.sides) if n is not None), None)


def table_csv(table: Table) -> str:
    """A table as the text of a CSV file, one column for each part of its cells."""
    header: list[str] = []
    cells: list[list[str]] = []
    for name, *column in zip(table.columns, *table.rows, strict=False):
        parts = [_parts(cell) for cell in column]
        used = [key for key in _HEADS if any(part.get(key) for part in parts)]
        for key in used or ["value"]:
            header.append(_HEADS[key].format(_plain(name).removesuffix(" ± se")))
            cells.append([part.get(key, "") for part in parts])
    return csv_text(header, list(zip(*cells, strict=True)))


def file_name(text: str, suffix: str) -> str:
    """A name for a file that says what is in it: letters, digits and hyphens only."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain.lower())
    name = "-".join(words)
    if len(name) > LONGEST:  # cut between words, unless the first alone is too long
        name = name[: LONGEST + 1].rpartition("-")[0] or name[:LONGEST]
    return f"{name or 'table'}.{suffix}"


def _parts(cell: str) -> dict[str, str]:
    """What a cell says: a number's text for each part that it has, else its words."""
    if not isinstance(cell, TableCell) or cell_number(cell) is None:
        words = [line for line in _plain(cell).split("\n") if line not in EMPTY]
        return {"value": "; ".join(words)}
    numbers = {"value": cell.value, "error": cell.error}
    numbers |= {"lower": cell.sides.lower, "upper": cell.sides.upper}
    found = {name: "" if n is None else format_exact(n) for name, n in numbers.items()}
    return {**found, "note": _plain(cell.note)}


def _plain(text: str) -> str:
    return text.replace(NBSP, " ").strip()
