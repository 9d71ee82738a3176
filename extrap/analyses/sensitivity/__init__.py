"""Fixed values ranked by what they will cost at a larger size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.analyses import on_first_use

if TYPE_CHECKING:
    from extrap.analyses.sensitivity.settings import SMALL_COST, Sensitivity, Setting, sensitivity

__all__ = [
    "SMALL_COST",
    "Sensitivity",
    "Setting",
    "sensitivity",
]

__getattr__ = on_first_use(
    __name__,
    {
        "settings": "SMALL_COST Sensitivity Setting sensitivity",
    },
)
