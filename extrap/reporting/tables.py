"""Tables of finished text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["MAX_ROWS", "Link", "Table", "capped_table", "records_table"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def capped_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = ""
) -> Table:
    """A table cut after `MAX_ROWS` rows, and saying so."""
    if len(rows) > MAX_ROWS:
        note = f"The first {MAX_ROWS} of {len(rows)} rows. {note}".strip()
    kept = tuple(tuple(row) for row in rows[:MAX_ROWS])
    return Table(caption=caption, columns=tuple(columns), rows=kept, note=note)


def records_table(caption: str, rows: Sequence[Mapping[str, str]], *, note: str = "") -> Table:
    """A table from rows that map headings to cells, all the same headings."""
    columns = tuple(rows[0]) if rows else ()
    return capped_table(caption, columns, [tuple(row.values()) for row in rows], note=note)
