"""Recipes and sweeps side by side: does a treatment move the law?

What to use when:

* `compare` — two or more recipes over the same sizes: shift, exponent, worth, crossing, costs.
* `compare_slopes`, `compare_losses` — two forecasts: how the optima move, what loss they reach.
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
from extrap.comparing.sweeps import (
    LossContrast,
    Slope,
    SlopeContrast,
    TunedLoss,
    check_comparable,
    compare_losses,
    compare_slopes,
)

__all__ = [
    "ArmCost",
    "Comparison",
    "Contrast",
    "Crossover",
    "EffectiveCompute",
    "LossContrast",
    "SizeDifference",
    "Slope",
    "SlopeContrast",
    "TunedLoss",
    "check_comparable",
    "compare",
    "compare_losses",
    "compare_slopes",
]
