"""The hardest or the easiest training examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.analyses import on_first_use

if TYPE_CHECKING:
    from extrap.analyses.selection.prototypes import Selection, choose_next, select

__all__ = [
    "Selection",
    "choose_next",
    "select",
]

__getattr__ = on_first_use(
    __name__,
    {
        "prototypes": "Selection choose_next select",
    },
)
