"""Recipes compared: every number is a function of a table of losses of arm × size × seed.

* `compare` — two or more recipes: differences by size and at a target.
* `contrast_arms` — two of them, as tables of tuned losses; `tuned_arm` makes these from runs.
* `find_group`, `with_check` — a group of a study, and its runs at the target.
"""

from __future__ import annotations

from extrap.analyses.comparison.compare import compare
from extrap.analyses.comparison.comparison_results import (
    ArmCost,
    ArmLaw,
    Comparison,
    Contrast,
    SizeDifference,
)
from extrap.analyses.comparison.contrasts import contrast_arms
from extrap.analyses.comparison.seed_losses import Arm, tuned_arm
from extrap.analyses.comparison.treatments import GroupFindings

__all__ = [
    "Arm",
    "ArmCost",
    "ArmLaw",
    "Comparison",
    "Contrast",
    "GroupFindings",
    "SizeDifference",
    "compare",
    "contrast_arms",
    "tuned_arm",
]
