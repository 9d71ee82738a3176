"""Figures of pages that are not yet made of blocks."""

from __future__ import annotations

from extrap.reporting.figures.allocations import (
    IsoflopProfiles,
    SplitCourse,
    draw_isoflop_profiles,
    draw_split_course,
    isoflop_profiles_info,
    split_course_info,
)
from extrap.reporting.figures.beside import Beside, draw_beside
from extrap.reporting.figures.canvas import Drawing, draw_svg, style_sheet

__all__ = [
    "Beside",
    "Drawing",
    "IsoflopProfiles",
    "SplitCourse",
    "draw_beside",
    "draw_isoflop_profiles",
    "draw_split_course",
    "draw_svg",
    "isoflop_profiles_info",
    "split_course_info",
    "style_sheet",
]
