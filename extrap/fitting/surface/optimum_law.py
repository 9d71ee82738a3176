"""The law of an optimum over size, as draws have it: written out, and whether it bends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from extrap.fitting.surface.draws import SurfaceDraws
from extrap.laws import OPTIMUM_POWER
from extrap.laws.base import Array
from extrap.records import Fit
from extrap.records.numbers import rounded

LAW_BENDS = "optimum-law-bends"
"""Flag of a law whose optima curve on log-log axes."""
BENDS_P = 0.05
SIZE_DIGITS = 9
"""Significant digits of a size that are left after a logarithm and its inverse."""
LEAST_SIZES_OF_BEND = 4
"""Sizes from which on a bend can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvatureTest:
    """Whether log optima curve against log size, by the draws of a parabola through them.

    Attributes:
        curvature: Second derivative of `ln v*` in mean `ln x`; positive where the optimum falls
            less, or rises more, at scale.
        se: Its standard deviation over the draws.
        p_value: Twice the probability that it has the other sign.
    """

    curvature: float
    se: float
    p_value: float

    @property
    def bends(self) -> bool:
        """Whether a straight line is that improbable, at 5 %."""
        return self.p_value < BENDS_P


def law_of_optimum(
    draws: SurfaceDraws, column: int, sizes: tuple[str, ...], *, fixed: Mapping[str, float]
) -> Fit:
    """`ln v* = a + Σ b_i ln(x_i / x0_i) + bend mean(ln(x_i / x0_i))²` through draws of the optima.

    Forecasts are those of the draws; the law is what of them can be written down.

    Args:
        draws: Of a sweep.
        column: Number of the tuned column.
        sizes: Size columns.
        fixed: Pinned slopes, by the names of the law's parameters.
    """
    logs, names = draws.log_sizes * math.log(2), OPTIMUM_POWER.names(len(sizes))
    coefficients = _coefficients(draws, column)
    values, covariance = (
        coefficients.values.mean(axis=0),
        np.cov(coefficients.values, rowvar=False),
    )
    for name, value in fixed.items():
        i = names.index(name)
        values[i], covariance[i], covariance[:, i] = value, 0.0, 0.0
    residuals, n_free = coefficients.residuals, max(len(logs) - coefficients.n_fitted, 1)
    test = _curvature(coefficients)
    return Fit(
        law=OPTIMUM_POWER.key,
        names=(*names, "bend"),
        values=tuple(values.tolist()),
        covariance=tuple(map(tuple, covariance.tolist())),
        scatter=float(np.sqrt((residuals.mean(axis=0) ** 2).sum() / n_free)),
        dof=n_free,
        scale_dof=n_free,
        chi2=float((residuals.mean(axis=0) ** 2 / np.maximum(residuals.var(axis=0), 1e-12)).sum()),
        columns=sizes,
        reference=tuple(np.exp(logs.mean(axis=0)).tolist()),
        fitted_range=tuple((_size(c.min()), _size(c.max())) for c in draws.log_sizes.T),
        n_points=len(logs),
        fixed=dict(fixed),
        flags=(LAW_BENDS,) if test is not None and test.bends else (),
    )


def _size(log_size: float) -> float:
    """From log2, which is rounded: a whole number is one again."""
    return rounded(2.0**log_size, SIZE_DIGITS)


def slope_draws(draws: SurfaceDraws, column: int) -> Array:
    """Slopes of the law of an optimum in each size column, (n_draws, n_columns).

    Args:
        draws: Of a sweep.
        column: Number of the tuned column.
    """
    return _coefficients(draws, column).values[:, 1:-1]


def check_curvature(draws: SurfaceDraws, column: int) -> CurvatureTest | None:
    """Whether an optimum bends; None of fewer than four sizes.

    Args:
        draws: Of a sweep.
        column: Number of the tuned column.

    References:
        arXiv 2606.29158, where the optimal rate bends upward at scale.
    """
    return _curvature(_coefficients(draws, column))


class _Coefficients(NamedTuple):
    """Coefficients of the optimum law in each draw.

    Attributes:
        values: Level, slopes and bend, (n, C + 2); 0 where none is fitted.
        residuals: What they leave of the log optima, (n, S).
        n_fitted: How many are fitted, pinned slopes are not.
        is_bent: Whether the sizes tell a bend.
    """

    values: Array
    residuals: Array
    n_fitted: int
    is_bent: bool


def _coefficients(draws: SurfaceDraws, column: int) -> _Coefficients:
    """By least squares, of what pinned slopes leave."""
    logs, pinned = draws.log_sizes * math.log(2), draws.pinned[:, column]
    off = logs - logs.mean(axis=0)
    parts = np.column_stack([np.ones(len(off)), off, off.mean(axis=1) ** 2])
    is_fitted = np.array([True, *np.isnan(pinned), True])
    is_bent = len(off) >= LEAST_SIZES_OF_BEND and bool(
        np.linalg.matrix_rank(parts[:, is_fitted]) == is_fitted.sum()
    )
    is_fitted[-1] = is_bent
    optima = math.log(2) * draws.optima[:, :, column] - off @ np.nan_to_num(pinned)
    values = np.zeros((len(optima), len(is_fitted)))
    values[:, is_fitted] = optima @ np.linalg.pinv(parts[:, is_fitted]).T
    return _Coefficients(values, optima - values @ parts.T, int(is_fitted.sum()), is_bent)


def _curvature(coefficients: _Coefficients) -> CurvatureTest | None:
    if not coefficients.is_bent:
        return None
    bends = 2 * coefficients.values[:, -1]
    above = float((bends > 0).mean())
    return CurvatureTest(
        curvature=float(bends.mean()),
        se=float(bends.std()),
        p_value=2 * min(above, 1 - above),
    )
