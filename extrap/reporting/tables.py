"""Tables: what a page shows, a spreadsheet reads and a terminal prints.

In a CSV file each part of a cell has a column of its own: `loss`, `loss se`, `loss from`,
`loss to`, and `loss, note` for words beside a number.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from extrap.files import csv_text
from extrap.records.numbers import NBSP, TableCell, format_exact

Record = TypeVar("Record")

EMPTY = ("", "–", "unknown", "not known")
LONGEST_NAME = 60
"""Characters of a file's name."""
_HEADS = {
    "value": "{}",
    "error": "{} se",
    "lower": "{} from",
    "upper": "{} to",
    "note": "{}, note",
}
"""Part of a cell → heading of its column."""
MAX_ROWS = 400
"""Rows of a table on a page; the rest is in the run table beside it."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, cut after `MAX_ROWS` rows and saying so.

    Attributes:
        caption: What it shows.
        columns: Headings.
        rows: Cells, see `TableCell`, or words; the first one is the row's heading.
        note: What was left out, or how a column is meant; may be empty.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        if (n := len(self.rows)) > MAX_ROWS:
            note = f"The first {MAX_ROWS} of {n} rows. {self.note}".strip()
            object.__setattr__(self, "note", note)
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(map(tuple, self.rows[:MAX_ROWS])))


def tabulated(
    caption: str,
    records: Iterable[Record],
    columns: Mapping[str, Callable[[Record], str]],
    *,
    note: str = "",
) -> Table:
    """A table of records: heading → what a record has in that column."""
    cells = [[cell(record) for cell in columns.values()] for record in records]
    return Table(caption, tuple(columns), cells, note)


def keyed_table(caption: str, rows: Sequence[Mapping[str, str]], *, note: str = "") -> Table:
    """A table from rows that map headings to cells, all the same headings."""
    return Table(caption, tuple(rows[0]) if rows else (), [[*row.values()] for row in rows], note)


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
    if len(name) > LONGEST_NAME:  # cut between words, unless the first alone is too long
        name = name[: LONGEST_NAME + 1].rpartition("-")[0] or name[:LONGEST_NAME]
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
