"""Where a compute budget goes: next runs, parameters and tokens, and what a tuned value costs.

What to use when:

* `allocate` — from a table of runs to the split of a budget, with intervals and warnings.
* `fit_split` — several budgets by one fit: `fit_split(read_points(runs)).at(flops)`.
* `optimal_split`, `repeated_split`, `served_split` — from a law whose coefficients are known.
* `check_allocation` — runs at the budget against the split that was recommended.
* `cost` — what tuned values cost at a size, in loss, compute, hours and money.
* `plan` — options for the next runs, with their cost and the intervals they would leave.
"""

from __future__ import annotations

from extrap.analyses.budget.allocation import Allocation, allocate, fit_split
from extrap.analyses.budget.checks import AllocationCheck, AllocationReport, check_allocation
from extrap.analyses.budget.mistuning_cost import Cost, Penalty, cost
from extrap.analyses.budget.planning import Option, Plan, PlannedRun, plan
from extrap.analyses.budget.points import read_points

__all__ = [
    "Allocation",
    "AllocationCheck",
    "AllocationReport",
    "Cost",
    "Option",
    "Penalty",
    "Plan",
    "PlannedRun",
    "allocate",
    "check_allocation",
    "cost",
    "fit_split",
    "plan",
    "read_points",
]
