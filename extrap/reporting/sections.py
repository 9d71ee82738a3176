"""Sections: parts of a page, each words, plates and tables under a heading."""

from __future__ import annotations

from dataclasses import dataclass

from extrap.reporting.cards import Card
from extrap.reporting.glossary import Explanation
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["Section"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page.

    Attributes:
        key: Its anchor, unique within the page; letters and digits.
        title: Its heading.
        words: Paragraphs.
        cards: Verdicts, below the words.
        panels: Plates two abreast.
        plates: Plates across the page.
        tables: Tables below them; long ones are folded.
        flags: Reasons to doubt it, in three parts each.
        notes: A list at its end.
    """

    key: str
    title: str
    words: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    panels: tuple[Plate, ...] = ()
    plates: tuple[Plate, ...] = ()
    tables: tuple[Table, ...] = ()
    flags: tuple[Explanation, ...] = ()
    notes: tuple[str, ...] = ()
