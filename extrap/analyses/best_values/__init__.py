"""The law of a table of the best value of each size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.analyses import on_first_use

if TYPE_CHECKING:
    from extrap.analyses.best_values.value_law import (
        THEORY,
        BestValues,
        best_values,
        law_of_values,
    )

__all__ = [
    "THEORY",
    "BestValues",
    "best_values",
    "law_of_values",
]

__getattr__ = on_first_use(
    __name__,
    {
        "value_law": "THEORY BestValues best_values law_of_values",
    },
)
