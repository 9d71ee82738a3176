"""A straight line by weighted least squares, for fits that run thousands of times.

`extrap.fitting.regression` has the lines that are shown, by statsmodels; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """A fitted straight line.

    Attributes:
        values: Coefficients, shape (k,).
        inverse: Inverse of the weighted normal equations, (k, k).
        covariance: Of the coefficients, (k, k), the scale of the errors by the residuals.
        residual: Shape (n,).
        weights: Shape (n,).
    """

    values: Array
    inverse: Array
    covariance: Array
    residual: Array
    weights: Array


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
    return Line(
        values=values,
        inverse=inverse,
        covariance=inverse * scale,
        residual=residual,
        weights=weights,
    )
