"""`ln N_opt` against `ln C`: the line through optima, and what it says at a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats

from extrap.errors import DataError, FitError
from extrap.fitting import Noise, fit_loss_model
from extrap.fitting.lines import fit_line, weighted_line
from extrap.laws.base import Array
from extrap.planning.results import Estimated
from extrap.planning.splits import SIX_N_D, ComputeRule
from extrap.records import Interval, Measure

NO_NOISE = Noise(own_sd=None, own_dof=0, size_sd=None, source="none")
"""No optimum was found twice."""
SMALLEST_SE = 1e-6
"""Of a log size; noise-free optima have none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optima:
    """Compute-optimal runs, one per budget.

    Attributes:
        log_flops: ln C, shape (n,).
        log_params: ln N_opt, shape (n,).
        log_params_se: Its standard errors, shape (n,); equal where they are not known.
        is_known: Whether the errors are in units of ln N, not only relative weights.
        loss: Loss at the optimum, shape (n,).
        how: How they were found.
        rule: How compute follows from parameters and tokens.
    """

    log_flops: Array
    log_params: Array
    log_params_se: Array
    is_known: bool
    loss: Array
    how: str
    rule: ComputeRule = SIX_N_D


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
            "a line through optima needs three budgets that span a factor of two, got "
            f"{n}; add budgets."
        )
    middle = float(optima.log_flops.mean())
    design = np.column_stack([np.ones(n), optima.log_flops - middle])
    theta, covariance = _line(design, optima)
    t = float(stats.t.ppf((1 + level) / 2, n - 2))
    row = np.array([1.0, math.log(flops) - middle])
    log_params, half = float(row @ theta), t * math.sqrt(float(row @ covariance @ row))
    slope, slope_half = float(theta[1]), t * math.sqrt(float(covariance[1, 1]))
    p, log_tokens = optima.rule.p, math.log(flops / optima.rule.k) - optima.rule.p * log_params
    loss, by_law = _losses(optima, flops, level=level)
    return Estimated(
        params=_around(log_params, half),
        tokens=_around(log_tokens, p * half),
        tokens_per_param=_around(log_tokens - log_params, (1 + p) * half),
        loss=loss,
        loss_if_right=by_law,
        exponent=Measure(value=slope, ci=Interval(slope - slope_half, slope + slope_half)),
        n_points=n,
        how=optima.how,
    )


def _line(design: Array, optima: Optima) -> tuple[Array, Array]:
    """Intercept and slope with their covariance."""
    se = np.maximum(optima.log_params_se, SMALLEST_SE)
    if optima.is_known:
        found = fit_line(design, optima.log_params, se)
    else:
        found = weighted_line(design, optima.log_params, 1 / se**2)
    return found.values, found.covariance


def _around(centre: float, half: float) -> Measure:
    return Measure(value=math.exp(centre), ci=Interval.around_log(centre, half))


def _losses(optima: Optima, flops: float, *, level: float) -> tuple[Measure, Measure]:
    """The forecast of the least losses over compute, if they carry one.

    It is that of `extrap.forecast` for a table of the optima with compute as its size; second
    comes the same by the laws of its family alone.
    """
    compute = {"flops": np.exp(optima.log_flops).tolist()}
    try:
        model = fit_loss_model(compute, optima.loss.tolist(), loss_se=None)
    except (DataError, FitError):
        return Measure(), Measure()
    found = []
    for band in ("default", "family"):
        at = model.predict({"flops": flops}, noise=NO_NOISE, band=band)
        interval = at.interval(level, new_run=False)
        found.append(Measure(value=math.exp(at.log_loss), ci=interval))
    both, alone = found
    return both, alone
