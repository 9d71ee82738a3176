"""Blocks: what a page, a terminal text and a Markdown summary are made of.

A result becomes a `Page` of blocks once; `html`, `text` and `markdown` render the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from extrap.reporting.glossary import Explanation

if TYPE_CHECKING:
    from extrap.reporting.charts import Chart

__all__ = [
    "MAX_ROWS",
    "Answer",
    "Block",
    "Columns",
    "Details",
    "Equation",
    "Figure",
    "Link",
    "Page",
    "Paragraph",
    "Table",
    "Warnings",
    "capped_table",
    "tables_of",
]

MAX_ROWS = 400
"""Rows of a table on a page; the rest is in the run table beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the question of a page or command.

    Attributes:
        text: One or two sentences with numbers.
        confidence: How far to trust it and why, a sentence; empty where it makes no forecast.
        kind: Decides the colour: `forecast`, `on`, `mixed`, `mistuned`, `off`, `none`.
    """

    text: str
    confidence: str = ""
    kind: str = "forecast"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Sentences; `is_small` sets them smaller."""

    text: str
    is_small: bool = False


@dataclass(frozen=True, slots=True)
class Equation:
    """A fitted law: pieces of text, each with whether it is raised, and a sentence about it."""

    pieces: tuple[tuple[str, bool], ...]
    text: str


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


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with a caption; the numbers behind it are a closed table below."""

    chart: Chart
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """Blocks side by side on wide screens."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Warnings:
    """Reasons to doubt the answer, each with what it means, why it matters and what to do."""

    items: tuple[Explanation, ...]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks under a heading that a reader opens."""

    title: str
    blocks: tuple[Block, ...]


Block = Answer | Paragraph | Equation | Table | Figure | Columns | Warnings | Details


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything on a page.

    Attributes:
        kind: What it is about: `report`, `comparison`, `batches`, …
        title: Name of the study or table.
        question: The question it answers, one sentence: the heading.
        created: When, ISO 8601.
        blocks: The first one is the `Answer`.
        numbers: What the page is made of, as JSON; empty embeds none.
        status: What became of it in a few words, such as `on law`; may be empty.
        ok: Whether every judged run is on law, as `extrap check` exits; None where none is judged.
        made_by: What wrote it, for the last line.
    """

    kind: str
    title: str
    question: str
    created: str
    blocks: tuple[Block, ...]
    numbers: dict[str, Any] = field(default_factory=dict)
    status: str = ""
    ok: bool | None = None
    made_by: str = "extrap"

    @property
    def answer(self) -> Answer:
        """The answer, which is the first block."""
        first = self.blocks[0]
        assert isinstance(first, Answer)
        return first


def tables_of(blocks: Sequence[Block]) -> Iterator[Table]:
    """Every table among blocks, those within other blocks too."""
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Columns | Details):
            yield from tables_of(block.blocks)


def capped_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, note: str = ""
) -> Table:
    """A table cut after `MAX_ROWS` rows, and saying so."""
    if len(rows) > MAX_ROWS:
        note = f"The first {MAX_ROWS} of {len(rows)} rows. {note}".strip()
    kept = tuple(tuple(row) for row in rows[:MAX_ROWS])
    return Table(caption=caption, columns=tuple(columns), rows=kept, note=note)
