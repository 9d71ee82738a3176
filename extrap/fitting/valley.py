"""What a mistuned value costs: the shape of the loss around its optimum, pooled over sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from extrap.laws.base import Array
from extrap.records import Optimum, Runs

__all__ = ["Valley", "fit_valley"]

MAX_EXCESS = 0.5
"""Log excess beyond which a run says nothing about the valley."""
CEILING = 5.0
"""Largest log excess ever expected: a factor of 150, more than an untrained network has."""
FARTHEST = 100.0
"""Octaves beyond which a distance no longer matters."""
NOISE, MODEL_ERROR = 0.01, 0.15
"""Standard deviation of a log excess: a seed's worth, and a share of the excess itself."""
DEEP = 0.02
"""Log excess above seed noise, where a relative scatter can be read."""
MIN_ROWS = 6
"""Fewer rows than this around the optima, and there is no valley to fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Valley:
    """Excess log loss as a function of the distance from the optimum, in octaves.

    With one tuned column `excess = k(x) h(u)`, `h(u) = (e^{r|u|} − 1 − r|u|) / r²`, with its own
    `r` on each side and `ln k` linear in `ln x`; with several, `excess = ½ uᵀ H u`.

    Attributes:
        tuned: Tuned columns, the order of `u`.
        columns: Size columns.
        reference: Reference size a column.
        curvature: H at the reference size, per octave², shape (n_tuned, n_tuned).
        trend: Slope of `ln k` on `ln (x / x0)`, one a size column.
        rise: `(low side, high side)` values of r, per octave.
        relative_sd: Relative scatter of observed about fitted excesses; `None` where no run lies
            deep enough to tell.
    """

    tuned: tuple[str, ...]
    columns: tuple[str, ...]
    reference: tuple[float, ...]
    curvature: tuple[tuple[float, ...], ...]
    trend: tuple[float, ...]
    rise: tuple[float, float]
    relative_sd: float | None

    def excess(self, octaves: Sequence[float], size: Mapping[str, float]) -> float:
        """Expected log excess at `octaves` = log2(value / optimum), one a tuned column, ≥ 0."""
        u = np.asarray(octaves, dtype=float)
        relative = np.array([size[c] for c in self.columns]) / np.asarray(self.reference)
        steepness = float(np.exp(np.log(relative) @ np.asarray(self.trend)))
        if len(self.tuned) > 1:
            excess = 0.5 * steepness * u @ np.asarray(self.curvature) @ u
        else:
            # far out the shape overflows; the ceiling is reached long before
            near = np.clip(u, -FARTHEST, FARTHEST)
            excess = steepness * self.curvature[0][0] * _side_shape(near, *self.rise)[0]
        return min(float(excess), CEILING)


def fit_valley(runs: Runs, optima: Sequence[Optimum]) -> Valley | None:
    """Pool the excess over all sizes whose optimum is bracketed.

    Args:
        runs: The sweep.
        optima: Its optima, from `estimate_optima`.

    Returns:
        The valley, or None where too few runs surround their optima.

    References:
        Ours; the two sides of `h` follow the asymmetry of published learning-rate sweeps (Li et
        al. 2025, Step Law, arXiv 2503.04715), where the side of high rates is the steeper one.
    """
    table = _excess_table(runs, optima)
    if table is None:
        return None
    u, excess, log_x, reference = table
    weights = 1.0 / np.hypot(NOISE, MODEL_ERROR * excess)
    if u.shape[1] == 1:
        curvature, trend, rise, fitted = _fit_two_sided(u, excess, log_x, weights)
    else:
        curvature, fitted = _fit_quadratic_form(u, excess, weights)
        trend, rise = np.zeros(log_x.shape[1]), (0.0, 0.0)
    deep = excess > DEEP
    relative = (excess[deep] - fitted[deep]) / np.maximum(fitted[deep], 1e-3)
    return Valley(
        tuned=runs.tuned,
        columns=runs.sizes,
        reference=tuple(map(float, reference)),
        curvature=tuple(tuple(map(float, row)) for row in curvature),
        trend=tuple(map(float, trend)),
        rise=(float(rise[0]), float(rise[1])),
        relative_sd=float(np.sqrt(np.mean(relative**2))) if deep.any() else None,
    )


def _excess_table(
    runs: Runs, optima: Sequence[Optimum]
) -> tuple[Array, Array, Array, Array] | None:
    """Distances (n, d), log excesses (n,), log relative sizes (n, k), reference size (k,)."""
    frame = runs.complete().to_frame()
    parts = []
    for optimum in optima:
        if optimum.loss is None:
            continue
        here = frame[np.logical_and.reduce([frame[c] == v for c, v in optimum.size.items()])]
        best = np.array([optimum.tuned[name].value for name in runs.tuned], dtype=float)
        u = np.log2(here[list(runs.tuned)].to_numpy(dtype=float) / best)
        excess = np.log(here["loss"].to_numpy(dtype=float) / optimum.loss)
        x = np.tile([optimum.size[c] for c in runs.sizes], (len(here), 1))
        keep = excess < MAX_EXCESS
        parts.append((u[keep], excess[keep], x[keep]))
    if not parts or sum(len(p[1]) for p in parts) < MIN_ROWS:
        return None
    u, excess, x = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    reference = np.exp(np.log(x).mean(axis=0))
    return u, excess, np.log(x / reference), reference


def _side_shape(u: Array, low_rise: float, high_rise: float) -> Array:
    """`h(u)`, quadratic near 0, with its own growth on each side."""
    rise = np.where(u > 0, high_rise, low_rise)
    a = rise * np.abs(u)
    small = np.abs(a) < 1e-4
    safe = np.where(rise == 0, 1.0, rise)
    return np.where(small, u**2 / 2 * (1 + a / 3), (np.expm1(a) - a) / safe**2)


def _fit_two_sided(
    u: Array, excess: Array, log_x: Array, weights: Array
) -> tuple[Array, Array, tuple[float, float], Array]:
    k = log_x.shape[1]

    def predict(theta: Array) -> Array:
        steepness = np.exp(theta[0] + log_x @ theta[1 : 1 + k])
        return np.asarray(steepness * _side_shape(u[:, 0], theta[-2], theta[-1]))

    # weak priors keep a side with few runs from growing without bound
    spread = np.concatenate([[2.0], np.full(k, 0.5), [0.7, 0.7]])
    centre = np.concatenate([[np.log(0.03)], np.zeros(k), [0.0, 0.3]])
    found = optimize.least_squares(
        lambda theta: np.concatenate(
            [(excess - predict(theta)) * weights, (theta - centre) / spread]
        ),
        centre,
        loss="soft_l1",
        bounds=(centre - 8 * spread, np.concatenate([centre[:-2] + 8 * spread[:-2], [1.5, 1.5]])),
    )
    theta = found.x
    return (
        np.array([[np.exp(theta[0])]]),
        theta[1 : 1 + k],
        (float(theta[-2]), float(theta[-1])),
        predict(theta),
    )


def _fit_quadratic_form(u: Array, excess: Array, weights: Array) -> tuple[Array, Array]:
    d = u.shape[1]
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    design = np.column_stack([u[:, i] * u[:, j] * (0.5 if i == j else 1.0) for i, j in pairs])
    solution = np.linalg.lstsq(design * weights[:, None], excess * weights, rcond=None)[0]
    hessian = np.zeros((d, d))
    for (i, j), value in zip(pairs, solution, strict=True):
        hessian[i, j] = hessian[j, i] = value
    eigenvalues, vectors = np.linalg.eigh(hessian)
    hessian = vectors @ np.diag(np.maximum(eigenvalues, 1e-6)) @ vectors.T
    return hessian, 0.5 * np.einsum("ni,ij,nj->n", u, hessian, u)
