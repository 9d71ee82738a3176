"""`ln N_opt` against `ln C`: the line through optima, and what it says at a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from extrap.errors import DataError, FitError
from extrap.fitting import (
    DISCREPANCY,
    LossPrediction,
    fit,
    predict_log,
    relative_sizes,
)
from extrap.laws.base import Array
from extrap.planning.results import Estimated
from extrap.records import Interval, Measure

__all__ = ["Optima", "extend"]

UNKNOWN = Measure(value=None, ci=Interval(None, None))
SMALLEST_SE = 1e-6
"""Of a log size; noise-free optima have none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optima:
    """Compute-optimal runs, one a budget.

    Attributes:
        log_flops: ln C, shape (n,).
        log_params: ln N_opt, shape (n,).
        log_params_se: Its standard errors, shape (n,); equal where they are not known.
        is_known: Whether the errors are in units of ln N, not only relative weights.
        loss: Loss at the optimum, shape (n,).
        how: How they were found.
    """

    log_flops: Array
    log_params: Array
    log_params_se: Array
    is_known: bool
    loss: Array
    how: str


def extend(optima: Optima, flops: float, *, level: float) -> Estimated:
    """Weighted least squares of ln N_opt on ln C, with Student's t intervals.

    Where optima scatter more about the line than their errors say, one variance is added to all
    of them: what differs from budget to budget, such as rates that were not tuned for each.

    Raises:
        DataError: Fewer than three optima, or all at one budget.

    References:
        Paule, Mandel (1982), Consensus values and weighting factors, Journal of Research of the
        National Bureau of Standards 87(5), for the added variance.
    """
    n = len(optima.log_flops)
    if n < 3 or np.ptp(optima.log_flops) < math.log(2):
        raise DataError(
            f"a line through optima needs three budgets over a factor of two, got {n}; "
            "add budgets."
        )
    middle = float(optima.log_flops.mean())
    design = np.column_stack([np.ones(n), optima.log_flops - middle])
    theta, covariance = _line(design, optima)
    t = float(stats.t.ppf((1 + level) / 2, n - 2))
    row = np.array([1.0, math.log(flops) - middle])
    log_params, half = float(row @ theta), t * math.sqrt(float(row @ covariance @ row))
    slope, slope_half = float(theta[1]), t * math.sqrt(float(covariance[1, 1]))
    budget = math.log(flops / 6)
    loss, by_law = _losses(optima, flops, level=level)
    return Estimated(
        params=_around(log_params, half),
        tokens=_around(budget - log_params, half),
        tokens_per_param=_around(budget - 2 * log_params, 2 * half),
        loss=loss,
        loss_if_right=by_law,
        exponent=Measure(value=slope, ci=Interval(slope - slope_half, slope + slope_half)),
        n_points=n,
        how=optima.how,
    )


def _line(design: Array, optima: Optima) -> tuple[Array, Array]:
    """Intercept and slope with their covariance."""
    own, dof = np.maximum(optima.log_params_se, SMALLEST_SE) ** 2, len(design) - 2

    def solve(added: float) -> tuple[Array, Array, float]:
        weight = 1 / (own + added)
        covariance = np.asarray(np.linalg.inv(design.T @ (design * weight[:, None])), dtype=float)
        theta = covariance @ (design.T @ (weight * optima.log_params))
        square = float(np.sum(weight * (optima.log_params - design @ theta) ** 2))
        return theta, covariance, square

    theta, covariance, square = solve(0.0)
    if not optima.is_known:
        return theta, covariance * square / dof
    if square > dof:
        widest = float(np.var(optima.log_params)) * len(design)
        added = optimize.brentq(lambda extra: solve(extra)[2] - dof, 0.0, widest)
        theta, covariance, _ = solve(float(added))
    return theta, covariance


def _around(centre: float, half: float) -> Measure:
    return Measure(value=math.exp(centre), ci=Interval.around_log(centre, half))


def _losses(optima: Optima, flops: float, *, level: float) -> tuple[Measure, Measure]:
    """A power law with a floor through the losses of the optima, if they carry one.

    What it changes from the largest optimum on is not known better than `DISCREPANCY` of it;
    second comes the loss without that.
    """
    try:
        fitted = fit(
            "power_floor", {"flops": np.exp(optima.log_flops).tolist()}, optima.loss.tolist()
        )
    except (DataError, FitError):
        return UNKNOWN, UNKNOWN
    last = float(np.exp(optima.log_flops.max()))
    log_loss, errors = predict_log(fitted, relative_sizes(fitted, {"flops": flops}))
    inside, _ = predict_log(fitted, relative_sizes(fitted, {"flops": min(flops, last)}))
    at, se, near = (float(each[0]) for each in (log_loss, errors, inside))
    own, structural = (se**2, float(fitted.dof)), ((DISCREPANCY * (at - near)) ** 2, math.inf)
    intervals = [
        LossPrediction(log_loss=at, curve=curve, run=()).interval(level, new_run=False)
        for curve in ((own, structural), (own,))
    ]
    both, alone = (Measure(value=math.exp(at), ci=each) for each in intervals)
    return both, alone
