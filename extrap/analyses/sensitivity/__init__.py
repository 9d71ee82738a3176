"""Fixed values ranked by what they will cost at a larger size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.sensitivity.settings import SMALL_COST, Sensitivity, Setting, sensitivity

__all__ = [
    "ANALYSIS",
    "SMALL_COST",
    "Sensitivity",
    "Setting",
    "sensitivity",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={"Sensitivity": "page.sensitivity_blocks"},
    commands={"More analyses": "command.knobs_command"},
    meanings="flags.MEANINGS",
)

__getattr__ = on_first_use(
    __name__,
    {
        "settings": "SMALL_COST Sensitivity Setting sensitivity",
    },
)
