"""How well a tuned value transfers to a larger size when it is not tuned again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from extrap.errors import DataError
from extrap.fitting.distributions import chi2_quantile
from extrap.fitting.excess_curve import CEILING, ExcessCurve
from extrap.fitting.recommendation import expected_excess
from extrap.fitting.spread import OptimumSpread, predict_optimum
from extrap.laws.base import Array
from extrap.records import Fit, Interval, Optimum

TOLERATED = 0.01
"""The robustness is the range of values that cost at most this log excess."""
SCATTER_POINTS = 31
FARTHEST = 20.0
"""Octaves beyond which the tolerated range counts as unbounded."""
BISECTIONS = 50
"""Steps of a bisection; 20 octaves / 2^50 leave an error of 2e-14 octaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferQuality:
    """Three measures of how well one tuned value transfers, each with an interval at `level`.

    Attributes:
        tuned: Tuned column.
        kept: The value that is kept.
        kept_from: The size it was tuned at.
        size: The size it is carried to.
        level: Content of the intervals.
        octaves: log2(kept / predicted optimum at `size`).
        penalty: Expected log excess there if the value is kept; other tuned values at their
            optimum.
        penalty_pi: Its interval: of where the optimum lies and of the excess-loss curve's scatter.
            It reaches at least to the expected excess, which a skewed distribution has beyond it.
        robustness: Width in octaves of the range of values that cost at most 1 %.
        robustness_pi: Its interval, of the excess-loss curve's scatter.
        steepening: Exponent with which the excess-loss curve's curvature changes as all sizes grow
            alike; positive where an error of one octave costs more at scale.
        fit_error: Standard deviation, in octaves, of one optimum about its law.
        fit_error_ci: Its interval, of the chi-square distribution.
    """

    tuned: str
    kept: float
    kept_from: Mapping[str, float]
    size: Mapping[str, float]
    level: float
    octaves: float
    penalty: float
    penalty_pi: Interval
    robustness: float
    robustness_pi: Interval
    steepening: float
    fit_error: float
    fit_error_ci: Interval


def transfer_quality(
    laws: Mapping[str, Fit],
    optima: Sequence[Optimum],
    size: Mapping[str, float],
    *,
    excess_curve: ExcessCurve,
    level: float,
    from_largest: bool = True,
) -> tuple[TransferQuality, ...]:
    """What it costs to keep the tuned value of a fitted size, for every tuned column.

    Args:
        laws: Tuned column → law of its optimum, in the excess-loss curve's order.
        optima: The optima they were fitted to, smallest first.
        size: The size the value is carried to.
        excess_curve: What a distance from the optimum costs.
        level: Content of the intervals, in (0, 1).
        from_largest: Keep the value of the largest size with a point estimate, else of the
            smallest.

    Raises:
        DataError: No optimum has a point estimate.

    References:
        Kalra, Barkeshli (2026), arXiv 2605.21486, for three measures of transfer: the quality of
        the law's fit, the robustness to errors of extrapolation, the loss penalty. Changes from
        the paper: (1) the fit error is a scatter in octaves; (2) robustness is a width at the
        target, with the exponent of the curvature beside it; (3) the penalty is that of keeping a
        value at one size, not the asymptotic one of a parametrisation.
    """
    spread = predict_optimum(laws, size)
    return tuple(
        _one_column(
            i, law, spread, optima, size, excess_curve=excess_curve, level=level, last=from_largest
        )
        for i, law in enumerate(laws.values())
    )


def _one_column(
    i: int,
    law: Fit,
    spread: OptimumSpread,
    optima: Sequence[Optimum],
    size: Mapping[str, float],
    *,
    excess_curve: ExcessCurve,
    level: float,
    last: bool,
) -> TransferQuality:
    name = spread.tuned[i]
    known = [o for o in optima if o.tuned[name].value is not None]
    if not known:
        raise DataError(
            f"a transfer of {name} needs a size whose optimum is bracketed, got none; extend the "
            f"grid of {name}."
        )
    start = known[-1 if last else 0]
    kept = float(start.tuned[name].value or math.nan)
    octaves = math.log2(kept) - spread.centre[i]
    offsets, weights = spread.alone(name).nodes()
    at = _along(i, octaves - offsets[:, 0], len(spread.tuned))
    scatter = _scatter(excess_curve)
    costs = np.minimum(np.outer(excess_curve.excesses(at, size), scatter), CEILING)
    shares = np.repeat(weights[:, None] / len(scatter), len(scatter), axis=1)
    widths = _tolerated(i, excess_curve, size, TOLERATED / np.array([1.0, *scatter]))
    sd = law.scatter / math.log(2)
    penalty = expected_excess(spread, {name: kept}, size, excess_curve=excess_curve)
    low, high = _central(costs.ravel(), shares.ravel(), level)
    return TransferQuality(
        tuned=name,
        kept=kept,
        kept_from=dict(start.size),
        size=dict(size),
        level=level,
        octaves=octaves,
        penalty=penalty,
        penalty_pi=Interval(low, max(high or penalty, penalty)),
        robustness=float(widths[0]),
        robustness_pi=_central(widths[1:], np.ones(len(scatter)), level),
        steepening=float(sum(excess_curve.trend)),
        fit_error=sd,
        fit_error_ci=_of_sd(sd, law.dof, level),
    )


def _along(i: int, octaves: Array, n_tuned: int) -> Array:
    points = np.zeros((len(octaves), n_tuned))
    points[:, i] = octaves
    return points


def _scatter(excess_curve: ExcessCurve) -> Array:
    """Equally likely factors on an excess: lognormal, mean 1, as runs scatter about the curve."""
    log_sd = math.sqrt(math.log1p((excess_curve.relative_sd or 0.0) ** 2))
    p = (np.arange(SCATTER_POINTS) + 0.5) / SCATTER_POINTS
    return np.asarray(np.exp(log_sd * special.ndtri(p) - log_sd**2 / 2))


def _tolerated(
    i: int, excess_curve: ExcessCurve, size: Mapping[str, float], excesses: Array
) -> Array:
    """Widths in octaves, (n,), of the ranges that cost at most each of the log excesses, (n,).

    By bisection on either side of the optimum; a side without a bound counts as `FARTHEST`.
    """
    total = np.zeros(len(excesses))
    for farthest in (-FARTHEST, FARTHEST):
        near, far = np.zeros(len(excesses)), np.full(len(excesses), farthest)
        for _ in range(BISECTIONS):
            middle = (near + far) / 2
            costs = excess_curve.excesses(_along(i, middle, len(excess_curve.tuned)), size)
            near, far = np.where(costs > excesses, (near, middle), (middle, far))
        total += np.abs(far)
    return total


def _central(values: Array, weights: Array, level: float) -> Interval:
    """Central interval of weighted values: quantiles of their stepwise distribution, joined."""
    order = np.argsort(values)
    mass = np.cumsum(weights[order]) - weights[order] / 2
    ends = np.interp([0.5 - level / 2, 0.5 + level / 2], mass / weights.sum(), values[order])
    return Interval(float(ends[0]), float(ends[1]))


def _of_sd(sd: float, dof: int, level: float) -> Interval:
    """Interval of a standard deviation with so many degrees of freedom."""
    high, low = chi2_quantile([0.5 + level / 2, 0.5 - level / 2], dof)
    return Interval(float(sd * math.sqrt(dof / high)), float(sd * math.sqrt(dof / low)))
