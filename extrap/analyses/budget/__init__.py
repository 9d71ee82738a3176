"""Where a compute budget goes: what a tuned value costs, and which runs to train next.

* `cost` — what tuned values cost at a size, in loss, compute, hours and money.
"""

from __future__ import annotations

from extrap.analyses.budget.cost import Cost, Penalty
from extrap.analyses.budget.cost import cost as _cost
from extrap.documents import of_forecast

cost = of_forecast(_cost)

__all__ = ["Cost", "Penalty", "cost"]
