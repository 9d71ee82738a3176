"""Figures of pages that are not yet made of blocks."""

from __future__ import annotations

from extrap.reporting.figures.canvas import Drawing, draw_svg, style_sheet

__all__ = ["Drawing", "draw_svg", "style_sheet"]
