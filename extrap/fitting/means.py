"""Means of pairs and ratios of two of them, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from statsmodels.stats.weightstats import DescrStatsW

from extrap.fitting.distributions import t_quantile
from extrap.laws.base import Array
from extrap.records import Interval, Measure


class Ratios(NamedTuple):
    """The ratios that Fieller's theorem accepts.

    Attributes:
        lower: Smaller root.
        upper: Larger root.
        is_between: Whether they lie between the roots, as where the bottom is distinguished from
            0; else outside them.
    """

    lower: float
    upper: float
    is_between: bool


def paired_mean(differences: Iterable[float], *, level: float) -> Measure:
    """Mean with Student's t interval; nothing from fewer than two values.

    Args:
        differences: One per pair.
        level: In (0, 1).
    """
    values = np.asarray(list(differences), dtype=float)
    if len(values) < 2:
        return Measure()
    ends = DescrStatsW(values).tconfint_mean(alpha=1 - level)
    return Measure(value=float(values.mean()), ci=Interval(*map(float, ends)))


def fieller(top: float, bottom: float, covariance: Array) -> Ratios | None:
    """All ratios ρ with `(top − ρ bottom)² ≤ Var(top − ρ bottom)`.

    Args:
        top: Mean above.
        bottom: Mean below.
        covariance: Of the two, times the square of the quantile, shape (2, 2).

    Returns:
        Where they lie; None where every ratio is accepted, since neither mean is distinguished
        from 0.

    References:
        Fieller (1954), Some problems in interval estimation, J. R. Stat. Soc. B 16, 175-185.
    """
    (v_top, v_both), (_, v_bottom) = np.asarray(covariance, dtype=float).tolist()
    square, half, rest = bottom**2 - v_bottom, top * bottom - v_both, top**2 - v_top
    discriminant = half**2 - square * rest
    if square <= 0 and discriminant <= 0:
        return None
    root = math.sqrt(max(discriminant, 0.0))
    # the smaller of two roots of like sign is the quotient that loses no digits
    far = half + math.copysign(root, half)
    ends = sorted((far / square if square else math.inf, rest / far if far else 0.0))
    return Ratios(ends[0], ends[1], is_between=square > 0)


def ratio_of_means(top: Array, bottom: Array, *, level: float) -> Measure:
    """Ratio of the means of pairs, its interval open where the one below may be 0 (Fieller)."""
    n = len(top)
    variance = np.cov(top, bottom) * float(t_quantile(0.5 + level / 2, n - 1)) ** 2 / n
    ends = fieller(float(top.mean()), float(bottom.mean()), variance)
    ci = Interval(ends.lower, ends.upper) if ends and ends.is_between else Interval()
    return Measure(value=float(top.mean() / bottom.mean()) if bottom.any() else None, ci=ci)
