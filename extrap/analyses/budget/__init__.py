"""Where a compute budget goes: what a tuned value costs, and which runs to train next.

* `cost` — what tuned values cost at a size, in loss, compute, hours and money.
* `plan` — options for the next runs, with their cost and the intervals they would leave.
"""

from __future__ import annotations

from extrap.analyses.budget.cost import Cost, Penalty, cost
from extrap.analyses.budget.plan import Option, Plan, PlannedRun, plan

__all__ = ["Cost", "Option", "Penalty", "Plan", "PlannedRun", "cost", "plan"]
