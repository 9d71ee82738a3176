"""What a compute budget buys: the next runs, and what a value that is off costs.

What to use when:

* `plan` — which runs to buy next, for the narrowest forecast at a size.
* `cost` — what a tuned value that is off costs at a size.
"""

from __future__ import annotations

from extrap.planning.costs import Cost, Penalty, PricedValue, cost
from extrap.planning.next_runs import plan
from extrap.planning.plans import Expectation, LargerSize, Plan, Purchase

__all__ = [
    "Cost",
    "Expectation",
    "LargerSize",
    "Penalty",
    "Plan",
    "PricedValue",
    "Purchase",
    "cost",
    "plan",
]
