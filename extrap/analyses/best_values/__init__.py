"""The laws of a table of the best values of each size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.best_values.value_law import (
        THEORY,
        BestValues,
        ValueLaw,
        best_values,
        laws_of_values,
    )

__all__ = [
    "ANALYSIS",
    "THEORY",
    "BestValues",
    "ValueLaw",
    "best_values",
    "laws_of_values",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={"BestValues": "page.best_values_blocks"},
)

__getattr__ = on_first_use(
    __name__,
    {
        "value_law": "THEORY BestValues ValueLaw best_values laws_of_values",
    },
)
