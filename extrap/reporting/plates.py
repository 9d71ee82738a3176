"""Plates: a picture with its words and the tables behind it."""

from __future__ import annotations

from dataclasses import dataclass

from extrap.reporting.tables import Table

__all__ = ["Plate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plate:
    """A picture, or two drawings of the same for wide and narrow pages.

    Attributes:
        title: A heading; may be empty.
        svg: Inline SVG.
        narrow_svg: The same for narrow pages; empty if one serves all.
        text: What to see in it.
        tables: The numbers behind it.
    """

    title: str
    svg: str
    narrow_svg: str = ""
    text: str = ""
    tables: tuple[Table, ...] = ()
