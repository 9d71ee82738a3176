"""Recipes compared: every number is a function of a table of losses of arm × size × seed.

* `compare` — two or more recipes: differences by size and at a target.
* `contrast_arms` — two of them, as tables of tuned losses; `tuned_arm` makes these from runs.
* `judge_experiments` — a log of experiments: candidates, what is confirmed, what to run next.
* `find_group`, `with_check` — a group of a study, and its runs at the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extrap.on_first_use import on_first_use
from extrap.registry import Analysis

if TYPE_CHECKING:
    from extrap.analyses.comparison.comparing import compare
    from extrap.analyses.comparison.comparison_results import (
        ArmCost,
        Comparison,
        Contrast,
        SizeDifference,
    )
    from extrap.analyses.comparison.contrasts import contrast_arms
    from extrap.analyses.comparison.experiments import Change, Experiments, judge_experiments
    from extrap.analyses.comparison.moved_values import moves
    from extrap.analyses.comparison.seed_losses import Arm, tuned_arm
    from extrap.analyses.comparison.spec import ComparisonStudy, RecipeGroup, ablations
    from extrap.analyses.comparison.treatments import GroupFindings

__all__ = [
    "ANALYSIS",
    "Arm",
    "ArmCost",
    "Change",
    "Comparison",
    "ComparisonStudy",
    "Contrast",
    "Experiments",
    "GroupFindings",
    "RecipeGroup",
    "SizeDifference",
    "ablations",
    "compare",
    "contrast_arms",
    "judge_experiments",
    "moves",
    "tuned_arm",
]

ANALYSIS = Analysis(
    package=__name__,
    blocks={
        "Comparison": "page.comparison_blocks",
        "Experiments": "experiments_page.experiments_blocks",
    },
    kinds={"COMPARISON": "study"},
    commands={"More analyses": "command.compare_command"},
    pages={"comparison": "comparison"},
    meanings="flags.MEANINGS",
)

__getattr__ = on_first_use(
    __name__,
    {
        "moved_values": "moves",
        "spec": "ComparisonStudy RecipeGroup ablations",
        "comparing": "compare",
        "comparison_results": "ArmCost Comparison Contrast SizeDifference",
        "contrasts": "contrast_arms",
        "experiments": "Change Experiments judge_experiments",
        "seed_losses": "Arm tuned_arm",
        "treatments": "GroupFindings",
    },
)
