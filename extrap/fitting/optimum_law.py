"""How an optimum moves with size: weighted least squares on log-log axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from statsmodels.regression.linear_model import WLS

from extrap.errors import DataError
from extrap.fitting.designs import check_sizes
from extrap.laws import OptimumPower
from extrap.laws.base import Array
from extrap.records import Fit, Optimum

__all__ = ["fit_optimum_law"]


def fit_optimum_law(optima: Sequence[Optimum], *, tuned: str, columns: Sequence[str]) -> Fit:
    """Fit `ln v* = a + Σ b_i ln(x_i / x0_i)` to the optima that have a point estimate.

    Weights are `1 / se²` of the log optima, normalised to mean 1: a prediction interval of
    weighted least squares depends on the absolute scale of the weights, and normalised weights
    make it speak of a new optimum as well measured as a typical one. The covariance is scaled up
    where a jackknife over sizes says that it is too small.

    Args:
        optima: Optima at several sizes; those without a point estimate are left out.
        tuned: The tuned column.
        columns: Size columns.

    Returns:
        The fit; `scatter` is the standard deviation of one log optimum about the law.

    Raises:
        DataError: Fewer optima than parameters plus one, a size column that hardly varies, or
            size columns that move together.
    """
    law = OptimumPower()
    names = law.names(len(columns))
    points = [o for o in optima if o.tuned[tuned].value is not None]
    if len(points) < len(names) + 1:
        raise DataError(
            f"the law of the optimal {tuned} needs at least {len(names) + 1} sizes whose optimum "
            f"is bracketed, got {len(points)}; extend the grid of {tuned} or add sizes."
        )
    x = np.array([[o.size[c] for c in columns] for o in points], dtype=float)
    check_sizes(x, columns)
    value = np.array([o.tuned[tuned].value for o in points], dtype=float)
    log_se = np.array([o.tuned[tuned].se for o in points], dtype=float) / value
    reference = np.exp(np.log(x).mean(axis=0))
    design = law.log_gradient(np.zeros(len(names)), x / reference)
    weights = log_se**-2.0
    weights /= weights.mean()
    model = WLS(np.log(value), design, weights=weights).fit()
    variance = float(model.scale)
    covariance = np.asarray(model.cov_params()) * _jackknife_ratio(design, np.log(value), weights)
    return Fit(
        law=law.key,
        names=names,
        values=tuple(map(float, model.params)),
        covariance=tuple(tuple(map(float, row)) for row in covariance),
        scatter=float(np.sqrt(variance)),
        dof=int(model.df_resid),
        scale_dof=int(model.df_resid),
        chi2=float(np.sum(((np.log(value) - model.fittedvalues) / log_se) ** 2)),
        columns=tuple(columns),
        reference=tuple(map(float, reference)),
        fitted_range=tuple((float(c.min()), float(c.max())) for c in x.T),
        n_points=len(points),
    )


def _jackknife_ratio(design: Array, y: Array, weights: Array) -> float:
    """Largest ratio (at least 1) of jackknife to least-squares variance over the slopes."""
    n, p = design.shape
    if n <= p + 1:  # leaving one out would leave an exact fit
        return 1.0
    keep = ~np.eye(n, dtype=bool)
    slopes = np.array([WLS(y[k], design[k], weights=weights[k]).fit().params[1:] for k in keep])
    jackknife = (n - 1) / n * ((slopes - slopes.mean(axis=0)) ** 2).sum(axis=0)
    squares = np.diag(WLS(y, design, weights=weights).fit().cov_params())[1:]
    safe = np.where(squares > 0, squares, np.inf)
    return float(max(1.0, np.max(jackknife / safe)))
