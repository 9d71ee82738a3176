"""Tables of finished text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Record = TypeVar("Record")

MAX_ROWS = 400
"""Rows of a table on a page; the rest is in the run table beside it."""


class Link(str):
    """A cell that leads to an address, which must be one of ours: it is not checked."""

    href: str

    def __new__(cls, text: str, href: str = "") -> Link:
        """A text and where it leads."""
        link = super().__new__(cls, text)
        link.href = href
        return link


@dataclass(frozen=True, slots=True)
class Table:
    """A table of finished text.

    Attributes:
        caption: What it shows.
        columns: Headings.
        rows: Cells, already formatted; the first one is the row's heading. What follows a line
            break is set smaller.
        note: What was left out, or how a column is meant; may be empty.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(map(tuple, self.rows)))


def capped_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = ""
) -> Table:
    """A table cut after `MAX_ROWS` rows, and saying so."""
    if len(rows) > MAX_ROWS:
        note = f"The first {MAX_ROWS} of {len(rows)} rows. {note}".strip()
    return Table(caption, columns, rows[:MAX_ROWS], note)


def tabulated(
    caption: str,
    records: Iterable[Record],
    columns: Mapping[str, Callable[[Record], str]],
    *,
    note: str = "",
) -> Table:
    """A table of records: heading → what a record has in that column."""
    cells = [[cell(record) for cell in columns.values()] for record in records]
    return capped_table(caption, tuple(columns), cells, note=note)


def records_table(caption: str, rows: Sequence[Mapping[str, str]], *, note: str = "") -> Table:
    """A table from rows that map headings to cells, all the same headings."""
    columns = tuple(rows[0]) if rows else ()
    return capped_table(caption, columns, [tuple(row.values()) for row in rows], note=note)
