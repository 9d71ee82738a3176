"""The law of an optimum over size, as draws have it: written out, and whether it bends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from extrap.fitting.surface.draws import SurfaceDraws
from extrap.laws import OPTIMUM_POWER
from extrap.laws.base import Array
from extrap.records import Fit

BENDS = "optimum-law-bends"
"""Flag of a law whose optima curve on log-log axes."""
BENDS_P = 0.05
FEWEST_SIZES = 4
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
    logs = draws.log_sizes * math.log(2)
    off, names = logs - logs.mean(axis=0), OPTIMUM_POWER.names(len(sizes))
    coefficients, design = _coefficients(draws, column, off)
    n_bent = len(names) + 1
    whole = np.zeros((len(coefficients), n_bent))
    whole[:, : coefficients.shape[1]] = coefficients
    rest = math.log(2) * draws.optima[:, :, column] - coefficients @ design.T
    values, covariance = whole.mean(axis=0), np.cov(whole, rowvar=False)
    for name, value in fixed.items():
        place = names.index(name)
        values[place], covariance[place], covariance[:, place] = value, 0.0, 0.0
    n_free = max(len(off) - coefficients.shape[1], 1)
    found = _curvature(coefficients, names)
    return Fit(
        law=OPTIMUM_POWER.key,
        names=(*names, "bend"),
        values=tuple(values.tolist()),
        covariance=tuple(map(tuple, covariance.tolist())),
        scatter=float(np.sqrt((rest.mean(axis=0) ** 2).sum() / n_free)),
        dof=n_free,
        scale_dof=n_free,
        chi2=float((rest.mean(axis=0) ** 2 / np.maximum(rest.var(axis=0), 1e-12)).sum()),
        columns=sizes,
        reference=tuple(np.exp(logs.mean(axis=0)).tolist()),
        fitted_range=tuple((float(np.exp(c.min())), float(np.exp(c.max()))) for c in logs.T),
        n_points=len(off),
        fixed=dict(fixed),
        flags=(BENDS,) if found is not None and found.bends else (),
    )


def check_curvature(draws: SurfaceDraws, column: int) -> CurvatureTest | None:
    """Whether an optimum bends; None of fewer than four sizes.

    Args:
        draws: Of a sweep.
        column: Number of the tuned column.

    References:
        arXiv 2606.29158, where the optimal rate bends upward at scale.
    """
    logs = draws.log_sizes * math.log(2)
    coefficients, _ = _coefficients(draws, column, logs - logs.mean(axis=0))
    return _curvature(coefficients, OPTIMUM_POWER.names(logs.shape[1]))


def _coefficients(draws: SurfaceDraws, column: int, off: Array) -> tuple[Array, Array]:
    """Of each draw, (n, k), and the design, (S, k): with a bend where the sizes tell it."""
    design = np.column_stack([np.ones(len(off)), off])
    bent = np.column_stack([design, off.mean(axis=1) ** 2])
    if len(off) >= FEWEST_SIZES and np.linalg.matrix_rank(bent) == bent.shape[1]:
        design = bent
    optima = math.log(2) * draws.optima[:, :, column]
    return optima @ np.linalg.pinv(design).T, design


def _curvature(coefficients: Array, names: tuple[str, ...]) -> CurvatureTest | None:
    if coefficients.shape[1] == len(names):
        return None
    bends = 2 * coefficients[:, -1]
    above = float((bends > 0).mean())
    return CurvatureTest(
        curvature=float(bends.mean()),
        se=float(bends.std()),
        p_value=2 * min(above, 1 - above),
    )
