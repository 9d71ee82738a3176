"""Recipes and sweeps side by side: does a treatment move the law?"""

from __future__ import annotations

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
    "compare_losses",
    "compare_slopes",
]
