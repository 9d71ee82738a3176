"""Tables: what a page shows and a terminal prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from extrap.records.numbers import format_value

Record = TypeVar("Record")

MAX_ROWS = 400
"""Rows of a table on a page; the rest is in the run table beside it."""


class Colored(str):
    """A cell or a status with the color of its outcome.

    Attributes:
        color: `"good"`, `"warn"`, `"bad"` or `"muted"`.
    """

    __slots__ = ("color",)
    color: str

    def __new__(cls, text: str, color: str = "") -> Colored:
        """A text in a color."""
        cell = super().__new__(cls, text)
        cell.color = color
        return cell


def color_of(text: str) -> str:
    """The color of a cell or a status; empty for plain text."""
    return getattr(text, "color", "")


def dashed(value: Any, write: Callable[[Any], str] = format_value) -> str:
    """A value as a cell; a dash where there is none."""
    return "–" if value is None else write(value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table, cut after `MAX_ROWS` rows and saying so.

    Attributes:
        caption: What it shows.
        columns: Headings.
        rows: Cells; the first one is the row's heading. What follows a line break is set smaller.
        note: What was left out, or how a column is meant; may be empty.
        links: Address that the heading of each row leads to, which must be one of ours: it is
            not checked; empty for none.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    links: Sequence[str] = ()

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
