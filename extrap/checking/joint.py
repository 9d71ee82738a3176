"""Is a configuration off by its loss: by itself, and among all that are checked?

Each is compared with its own interval, whatever else is in the table: with the sealed one, and
above it with what is expected at its own values. How surprising the largest deviation of a
whole table is follows from one factor: the law's error is common to all larger runs, since they
extrapolate the same fit, and the noise of each is its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from extrap.checking.cases import Case
from extrap.checking.settings import Settings, law_deviation
from extrap.laws.base import Array

LARGEST = 6.0
"""Normal deviation beyond which the sum of all p-values bounds the joint one closely enough."""
N_NODES, N_DEVIATIONS = 241, 61
"""Points of the common factor, and of the deviations, at which the joint p-value is computed."""
LOADINGS = 2
"""Decimals of the share of the common factor: deviations that agree so far are one kind."""
SMALLEST = 1e-300
"""Of a p-value, so that it has a normal deviation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the loss of one configuration says.

    Attributes:
        p_value: Two-sided, of its mean deviation from the law; None without a loss.
        p_adjusted: How often the largest deviation of the table would be as large.
        is_off: Whether its loss is an alarm.
        is_inside: Whether it lies in its prediction interval, or within the tolerance.
    """

    p_value: float | None
    p_adjusted: float | None
    is_off: bool
    is_inside: bool = False


def judge_losses(
    cases: Sequence[Case],
    settings: Sequence[Settings | None],
    *,
    alpha: float,
    tolerance: float,
    familywise: bool = False,
) -> list[Judgement]:
    """Compare every configuration with its interval.

    Args:
        cases: The configurations.
        settings: What is expected at their own values.
        alpha: Probability of a false alarm of each of them.
        tolerance: Relative deviation that is no alarm, however significant.
        familywise: Let alpha be the probability of any false alarm among all of them.

    Returns:
        One judgement a case, in order.
    """
    off = np.array([math.nan if c.log_deviation is None else c.log_deviation for c in cases])
    p_values, common = np.full(len(cases), math.nan), np.zeros(len(cases))
    alike: dict[int, list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        if case.log_deviation is not None:
            alike[id(case.prediction)].append(i)
    for members in alike.values():
        case = cases[members[0]]
        p_values[members] = case.prediction.p_values(case.log_loss + off[members])
        total = case.prediction.log_sd
        common[members] = case.prediction.curve_log_sd / total if total > 0 else 1.0
    known = ~np.isnan(p_values)
    adjusted = np.full(len(cases), math.nan)
    adjusted[known] = adjust_jointly(p_values[known], common[known])
    is_above = np.array([law_deviation(case) > 0 for case in cases], dtype=bool)
    unexplained = np.array([0.0 if own is None else own.p_above for own in settings])
    decides = np.where(is_above, np.maximum(p_values, unexplained), p_values)
    if familywise:
        decides[known] = adjust_jointly(decides[known], common[known])
    is_large = np.abs(np.expm1(off)) > tolerance
    is_off = (decides <= alpha) & is_large
    is_inside = (p_values > alpha) | (known & ~is_large)
    return [
        Judgement(
            p_value=float(p) if k else None,
            p_adjusted=float(a) if k else None,
            is_off=bool(o or (case.off_replicates and abs(case.off_replicates) > tolerance)),
            is_inside=bool(i),
        )
        for case, p, a, o, i, k in zip(
            cases, p_values, adjusted, is_off, is_inside, known, strict=True
        )
    ]


def adjust_jointly(p_values: Array, common: Array) -> Array:
    """P-values of the largest deviation among all, with one error that all have in common.

    `P(max |z| ≥ z_i)` with `z_j = λ_j ξ + √(1 − λ_j²) ε_j` of independent standard normal ξ and
    ε_j; given ξ the deviations are independent, so that one integral over ξ gives it exactly.

    Args:
        p_values: Two-sided p-values, shape (n,), each of which stands for |z|.
        common: λ: standard deviation of the common error as a share of the whole, shape (n,).

    Returns:
        Adjusted p-values, shape (n,), none below its own.

    References:
        Dunnett, Sobel (1955), Approximations to the probability integral and certain percentage
        points of a multivariate analogue of Student's t-distribution, for the one integral;
        Westfall, Young (1993), Resampling-based multiple testing, Sec. 2.5, for the single step.
    """
    n = len(p_values)
    if n == 1:
        return np.asarray(p_values)
    loadings, counts = np.unique(np.round(common, LOADINGS), return_counts=True)
    rest = np.sqrt(np.maximum(1 - loadings**2, 10.0 ** (-2 * LOADINGS)))
    xi = np.linspace(-8, 8, N_NODES)
    weight = np.exp(-(xi**2) / 2)
    bound = np.linspace(0, LARGEST, N_DEVIATIONS)[:, None, None]
    middle = (loadings * xi[:, None])[None]
    inside = special.ndtr((bound - middle) / rest) - special.ndtr((-bound - middle) / rest)
    none_beyond = np.exp(np.log(np.maximum(inside, SMALLEST)) @ counts.astype(float))
    joint = 1 - none_beyond @ (weight / weight.sum())
    deviation = -special.ndtri(np.maximum(p_values, SMALLEST) / 2)
    found = np.interp(deviation, bound[:, 0, 0], joint)
    found = np.where(deviation > LARGEST, n * p_values, found)
    return np.clip(found, p_values, 1.0)
