"""Straight lines by statsmodels' weighted least squares, for lines that are shown.

* `fit_line`: values with standard errors that may scatter more than these say.
* `predict_power`: a power law through values over sizes, and its band at another size.

Lines that are fitted thousands of times are in `extrap.fitting.lines`, without statsmodels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize
from statsmodels.regression.linear_model import WLS, RegressionResults

from extrap.laws.base import Array
from extrap.records import Interval, Measure, Optimum

LARGEST_SCATTER = 100.0
LARGEST_FLOAT_LOG = 700.0
"""Beyond it no float holds a value."""


class FittedLine(NamedTuple):
    """A line through values with known standard errors.

    Attributes:
        results: What statsmodels says of it; its errors are in the unit of the values.
        scatter: Standard deviation of the values about the line beyond their own errors.
    """

    results: RegressionResults
    scatter: float


def fit_line(design: Array, y: Array, se: Array) -> FittedLine:
    """Weighted least squares; one variance is added to all where the residuals call for it.

    Args:
        design: Shape (n, k), with a column of ones for the intercept.
        y: Shape (n,).
        se: Standard errors of `y`, shape (n,).

    References:
        Paule, Mandel (1982), Consensus values and weighting factors, J. Res. NBS 87(5), eq. 4,
        for several coefficients: the weighted squares of the residuals are n − k.
    """

    def fitted(scatter: float) -> RegressionResults:
        model = WLS(y, design, weights=1 / (se**2 + scatter**2))
        return model.fit(cov_type="fixed scale", use_t=True)

    def excess(scatter: float) -> float:
        results = fitted(scatter)
        return float(results.ssr - results.df_resid)

    has_excess = len(y) > design.shape[1] and excess(0.0) > 0
    scatter = optimize.brentq(excess, 0.0, LARGEST_SCATTER, xtol=1e-12) if has_excess else 0.0
    return FittedLine(fitted(scatter), float(scatter))


def predict_power(
    sizes: Mapping[str, Sequence[float]],
    values: Sequence[float],
    log_se: Sequence[float] | None,
    *,
    at: Mapping[str, float],
    level: float,
) -> Measure:
    """A power law through values over sizes, by WLS of ln value on ln size, at another size.

    Args:
        sizes: Size column → n positive sizes; those of one value are left out.
        values: n positive values.
        log_se: Standard errors of ln value, which weight the values; None for equal weights.
        at: Size column → size.
        level: Of the interval, which is that of one more value as well known as a typical one.

    Returns:
        The value with its interval; nothing where as many coefficients are fitted as values, the
        sizes do not determine them, or no float holds them.
    """
    varying = [name for name, column in sizes.items() if len(set(column)) > 1]
    if len(values) < len(varying) + 2:
        return Measure()
    design = np.column_stack([np.ones(len(values)), *(np.log(sizes[name]) for name in varying)])
    weights = np.ones(len(values)) if log_se is None else np.asarray(log_se, dtype=float) ** -2.0
    # the interval of a new value goes by the scale of the weights
    model = WLS(np.log(values), design, weights=weights / weights.mean())
    if np.linalg.matrix_rank(model.wexog) < design.shape[1]:
        return Measure()
    line = model.fit()
    row = [1.0, *(math.log(at[name]) for name in varying)]
    band = line.get_prediction([row]).summary_frame(alpha=1 - level).iloc[0]
    logs = band[["mean", "obs_ci_lower", "obs_ci_upper"]].to_numpy(float)
    if not (np.abs(logs) <= LARGEST_FLOAT_LOG).all():
        return Measure()
    value, *ends = np.exp(logs).tolist()
    return Measure(value=value, ci=Interval(*ends))


def straight_lines(
    optima: Sequence[Optimum], *, at: Mapping[str, float], level: float
) -> dict[str, Measure]:
    """Power laws through the losses and the optima of a sweep, by `predict_power`.

    Args:
        optima: One per size.
        at: Size column → size.
        level: Of the intervals.

    Returns:
        `loss` and each tuned value, in their own units.
    """

    def line(points: Sequence[tuple[Optimum, float, float | None]]) -> Measure:
        sizes = {name: [o.size[name] for o, *_ in points] for name in at}
        errors = [se / value for _, value, se in points if se]
        log_se = errors if len(errors) == len(points) else None
        return predict_power(sizes, [value for _, value, _ in points], log_se, at=at, level=level)

    losses = [(o, o.loss or o.best_loss, o.loss_se if o.loss else None) for o in optima]
    lines = {"loss": line([(o, value, se) for o, value, se in losses if value])}
    for name in optima[0].tuned:
        of_name = [(o, o.tuned[name].value, o.tuned[name].se) for o in optima]
        lines[name] = line([(o, value, se) for o, value, se in of_name if value])
    return lines
