"""Recipes side by side: does a treatment move the law?

What to use when:

* `compare` — two or more recipes over the same sizes: shift, exponent, worth, crossing, costs.
"""

from __future__ import annotations

from extrap.comparing.recipes import compare
from extrap.comparing.results import (
    ArmCost,
    Comparison,
    Contrast,
    Crossover,
    EffectiveCompute,
    SizeDifference,
)

__all__ = [
    "ArmCost",
    "Comparison",
    "Contrast",
    "Crossover",
    "EffectiveCompute",
    "SizeDifference",
    "compare",
]
