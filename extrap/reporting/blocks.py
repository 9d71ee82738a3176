"""Blocks: what a page, a terminal text and a Markdown summary are made of.

A result becomes a `Page` of blocks once; `html`, `text` and `markdown` render the same blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from extrap.records.numbers import NBSP
from extrap.reporting.flags import Explanation
from extrap.reporting.tables import Table

if TYPE_CHECKING:
    from extrap.reporting.charts import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to the question of a page or command.

    Attributes:
        text: One or two sentences with numbers.
        confidence: How far to trust it and why, a sentence; empty where it makes no forecast.
        color: `"good"`, `"warn"`, `"bad"`, or empty where nothing was judged.
    """

    text: str
    confidence: str = ""
    color: str = ""

    @property
    def plain(self) -> str:
        """The answer and its confidence as plain text, for JSON."""
        return " ".join(filter(None, [self.text, self.confidence])).replace(NBSP, " ")


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


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with a caption."""

    chart: Chart
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Columns:
    """Blocks side by side on wide screens."""

    blocks: Sequence[Block]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", shown(self.blocks))


@dataclass(frozen=True, slots=True)
class Warnings:
    """Reasons to doubt the answer, each with what it means, why it matters and what to do."""

    items: Sequence[Explanation]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks under a heading that a reader opens."""

    title: str
    blocks: Sequence[Block]

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", shown(self.blocks))


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
        status: What became of it in a few words, such as `on law`; may be empty.
        ok: Whether every judged run is on law, as `extrap check` exits; None where none is judged.
        made_by: What wrote it, for the last line.
    """

    kind: str
    title: str
    question: str
    created: str
    blocks: Sequence[Block]
    status: str = ""
    ok: bool | None = None
    made_by: str = "extrap"

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", shown(self.blocks))

    @property
    def answer(self) -> Answer:
        """The answer, which is the first block."""
        first = self.blocks[0]
        assert isinstance(first, Answer)
        return first


def shown(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Blocks but for those with nothing in them."""
    return tuple(block for block in blocks if not _is_empty(block))


def _is_empty(block: Block) -> bool:
    match block:
        case Columns() | Details():
            return not block.blocks
        case Paragraph():
            return not block.text
        case Table():
            return not block.rows
        case Warnings():
            return not block.items
    return False
