"""Two arms compared: every number is a function of one table of losses of arm × size × seed.

* `tuned_arm` — the tuned losses of an arm, at the optimum that its forecast states.
* `arm_table` — two arms at their common sizes, paired by seed where they share seeds.
* `compare_arms` — differences by size, on average, at a target; exponents, worth and crossing.
"""

from __future__ import annotations

from extrap.analyses.comparison.arm_table import ArmTable, arm_table
from extrap.analyses.comparison.differences import Differences, compare_arms
from extrap.analyses.comparison.seed_losses import Arm, seed_losses, tuned_arm

__all__ = [
    "Arm",
    "ArmTable",
    "Differences",
    "arm_table",
    "compare_arms",
    "seed_losses",
    "tuned_arm",
]
