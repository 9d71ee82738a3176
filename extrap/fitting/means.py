"""Means of pairs and ratios of two of them, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from extrap.fitting.distributions import t_quantile
from extrap.laws.base import Array
from extrap.records import Interval, Measure


def paired_mean(differences: Iterable[float], *, level: float) -> Measure:
    """Mean with Student's t interval; nothing from fewer than two values.

    Args:
        differences: One per pair.
        level: In (0, 1).
    """
    values = np.asarray(list(differences), dtype=float)
    if len(values) < 2:
        return Measure()
    mean, se = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    half = float(t_quantile(0.5 + level / 2, len(values) - 1)) * se
    return Measure(value=mean, ci=Interval(mean - half, mean + half))


def ratio_of_means(top: Array, bottom: Array, *, level: float) -> Measure:
    """Ratio ρ of the means of pairs; its interval is open where the mean below may be 0.

    The interval holds all ρ with `(top − ρ bottom)² ≤ t² Var(top − ρ bottom)`, of the means.

    References:
        Fieller (1954), Some problems in interval estimation, J. R. Stat. Soc. B 16, 175-185.
    """
    n, above, below = len(top), float(top.mean()), float(bottom.mean())
    variance = np.cov(top, bottom) * float(t_quantile(0.5 + level / 2, n - 1)) ** 2 / n
    # the squares of ρ² − 2 half ρ + constant; a positive one says that the mean below is not 0
    square, half = below**2 - variance[1, 1], above * below - variance[0, 1]
    constant, ci = above**2 - variance[0, 0], Interval()
    if square > 0:
        # the smaller of two roots of like sign is the quotient that loses no digits
        far = half + math.copysign(math.sqrt(max(half**2 - square * constant, 0.0)), half)
        ci = Interval(*sorted((float(far / square), float(constant / far) if far else 0.0)))
    return Measure(value=above / below if bottom.any() else None, ci=ci)
