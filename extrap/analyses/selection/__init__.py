"""The hardest or the easiest training examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.selection.prototypes import Selection, choose_next, select

__all__ = [
    "ANALYSIS",
    "Selection",
    "choose_next",
    "select",
]

ANALYSIS = Analysis(
    package=__name__,
    commands={"More analyses": "command.select_command"},
)

__getattr__ = on_first_use(
    __name__,
    {
        "prototypes": "Selection choose_next select",
    },
)
