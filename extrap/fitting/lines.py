"""Straight lines by weighted least squares.

* `fit_line` — values with standard errors that may scatter more than these say.
* `weighted_line` — values whose standard errors count relative to one another only.

References:
    Paule, Mandel (1982), Consensus values and weighting factors, J. Res. NBS 87 (the scatter).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import optimize

from extrap.laws.base import Array

LARGEST_SCATTER = 100.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """A fitted straight line.

    Attributes:
        values: Coefficients, shape (k,).
        inverse: Inverse of the weighted normal equations, (k, k).
        covariance: Of the coefficients, (k, k).
        residual: Shape (n,).
        weights: Shape (n,).
        scatter: Standard deviation of a value beyond its own error; of `weighted_line` all of it.
        log_sd: Of one more value about the line, as well known as a typical one.
    """

    values: Array
    inverse: Array
    covariance: Array
    residual: Array
    weights: Array
    scatter: float
    log_sd: float


def fit_line(design: Array, y: Array, log_se: Array) -> Line:
    """Weighted least squares with the scatter that the residuals call for."""
    n, k = design.shape

    def excess(scatter: float) -> float:
        line = weighted_line(design, y, 1 / (log_se**2 + scatter**2))
        return float((line.weights * line.residual**2).sum()) - (n - k)

    scatter = 0.0
    if n > k and excess(0.0) > 0:
        scatter = float(optimize.brentq(excess, 0.0, LARGEST_SCATTER, xtol=1e-12))
    line = weighted_line(design, y, 1 / (log_se**2 + scatter**2))
    return replace(
        line,
        covariance=line.inverse,
        scatter=scatter,
        log_sd=math.sqrt(1 / line.weights.mean()),
    )


def weighted_line(design: Array, y: Array, weights: Array) -> Line:
    """Weighted least squares; weights count relative to one another only."""
    n, k = design.shape
    root = np.sqrt(weights)
    q, r = np.linalg.qr(design * root[:, None])
    values = np.linalg.solve(r, q.T @ (root * y))
    to_values = np.linalg.inv(r)
    inverse = np.asarray(to_values @ to_values.T, dtype=float)
    residual = y - design @ values
    scale = float((weights * residual**2).sum()) / (n - k) if n > k else 0.0
    log_sd = math.sqrt(scale / weights.mean())
    return Line(
        values=values,
        inverse=inverse,
        covariance=inverse * scale,
        residual=residual,
        weights=weights,
        scatter=log_sd,
        log_sd=log_sd,
    )
