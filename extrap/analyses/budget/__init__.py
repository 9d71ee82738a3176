"""Where a compute budget goes: parameters and tokens, repeated data, serving.

What to use when:

* `allocate` — from a table of runs to the split of a budget, with intervals and warnings.
* `fit_split` — several budgets by one fit: `fit_split(read_points(runs)).at(flops)`.
* `optimal_split`, `repeated_split`, `served_split` — from a law whose coefficients are known.
* `check_allocation` — runs at the budget against the split that was recommended.
"""

from __future__ import annotations

from extrap.analyses.budget.allocation import Allocation, FittedSplit, allocate, fit_split
from extrap.analyses.budget.checks import AllocationCheck, AllocationReport, check_allocation
from extrap.analyses.budget.points import Points, read_points

__all__ = [
    "Allocation",
    "AllocationCheck",
    "AllocationReport",
    "FittedSplit",
    "Points",
    "allocate",
    "check_allocation",
    "fit_split",
    "read_points",
]
