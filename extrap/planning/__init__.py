"""Where a compute budget goes: the next runs, parameters and tokens, repeated data, serving.

What to use when:

* `allocate` — from a table of runs to the split of a budget, with intervals and warnings.
* `allocate_each` — several budgets by one fit.
* `optimal_split` — the same from a law whose coefficients are known.
* `repeated_split` — with fewer unique tokens than the split asks for.
* `served_split` — when the model will be used so much that a smaller one is cheaper.
* `check_allocation` — runs at the budget against the split that was recommended.
* `profile_optima` — the best size of every isoFLOP profile.
"""

from __future__ import annotations

from extrap.planning.allocation import allocate, allocate_each
from extrap.planning.checks import (
    AllocationCheck,
    AllocationReport,
    CheckedSplit,
    check_allocation,
)
from extrap.planning.envelope import envelope_optima
from extrap.planning.parametric import FittedLaw, fit_chinchilla, law_of
from extrap.planning.points import Points, read_points
from extrap.planning.profiles import (
    Profile,
    around_best,
    find_profiles,
    minimum,
    profile_optima,
)
from extrap.planning.results import Allocation, Estimated, RepeatedData, Serving
from extrap.planning.splits import (
    ChinchillaLaw,
    Split,
    optimal_split,
    repeated_split,
    served_split,
)

__all__ = [
    "Allocation",
    "AllocationCheck",
    "AllocationReport",
    "CheckedSplit",
    "ChinchillaLaw",
    "Estimated",
    "FittedLaw",
    "Points",
    "Profile",
    "RepeatedData",
    "Serving",
    "Split",
    "allocate",
    "allocate_each",
    "around_best",
    "check_allocation",
    "envelope_optima",
    "find_profiles",
    "fit_chinchilla",
    "law_of",
    "minimum",
    "optimal_split",
    "profile_optima",
    "read_points",
    "repeated_split",
    "served_split",
]
