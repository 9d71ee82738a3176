"""A compute budget split between parameters and tokens.

What to use when:

* `allocate` — from a table of runs to the split of a budget, with intervals and warnings.
* `fit_split` — several budgets by one fit: `fit_split(read_points(runs)).at(flops)`.
* `optimal_split`, `repeated_split`, `served_split` — from a law whose coefficients are known.
* `check_allocation` — runs at the budget against the split that was recommended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.allocation.allocation import Allocation, allocate, fit_split
    from extrap.analyses.allocation.checks import (
        AllocationCheck,
        AllocationReport,
        check_allocation,
    )
    from extrap.analyses.allocation.points import read_points
    from extrap.analyses.allocation.spec import AllocationStudy

__all__ = [
    "ANALYSIS",
    "Allocation",
    "AllocationCheck",
    "AllocationReport",
    "AllocationStudy",
    "allocate",
    "check_allocation",
    "fit_split",
    "read_points",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={"Allocation": "page.allocation_blocks"},
    kinds={"ALLOCATION": "study"},
    commands={"More analyses": "command.allocate_command"},
    pages={"allocation": "allocation"},
    meanings="flags.MEANINGS",
)

__getattr__ = on_first_use(
    __name__,
    {
        "spec": "AllocationStudy",
        "allocation": "Allocation allocate fit_split",
        "checks": "AllocationCheck AllocationReport check_allocation",
        "points": "read_points",
    },
)
