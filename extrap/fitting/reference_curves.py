"""What the loss curve of a tuned run looks like on its way, at any size.

Curves of tuned runs collapse: with y(x; N) the log loss at a fraction x of the intended training
and ℓ(N) the law of the final log loss,

    y(x; N) = a(x) + b(x) ℓ(N),

where b rises from about 0 (at the start all sizes are alike) to 1. Normalised curves (Qiu et al.
2025) are the case in which b is the same at all x. Runs away from their optimum add a polynomial
of second order in how far they are off, so that a(x) speaks of tuned ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from extrap.laws.base import Array

__all__ = ["ReferenceCurves", "at_fractions", "fit_reference_curves"]

GRID = (
    *(0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3),
    *(0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
)
"""Fractions of a training that end an interval of comparison, where the curves resolve them."""
NEAR = 1.2
"""Octaves within which a run tells what tuned ones look like."""
MIN_CURVES, MIN_SIZES = 8, 3
SHAPES = (-4, -3, -2, -1, 1, 2, 3, 4)
"""Octaves off the optimum at which the curves of mistuned runs are remembered."""
DIGITS = 8
"""Significant digits that are kept; what differs beyond them is rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCurves:
    """The curves of tuned runs against the fraction of their training, in log loss.

    Attributes:
        fractions: Ends of the K intervals in which losses are averaged, rising to 1.
        places: Mean fraction of the points in each, where the averages belong.
        intercept: a, shape (K,).
        slope: b, shape (K,): change with the law's log loss.
        centre: Mean log loss of the law over the fitted runs.
        covariance: Of a tuned run's deviations, shape (K, K).
        leverage: (of the intercept, of the slope): the predictive covariance at a size is
            `covariance (1 + l₀ + l₁ (ℓ − centre)²)`.
        sensitivity: Tuned column → change with its octaves off the optimum, shape (K,).
        shapes: `(tuned column, octaves off, deviations (K,))` of mistuned runs.
        dof: Degrees of freedom behind the covariance.
        total_steps: Last step, where all curves agree on it; else None.
        n_curves: Curves fitted.
    """

    fractions: tuple[float, ...]
    places: tuple[float, ...]
    intercept: tuple[float, ...]
    slope: tuple[float, ...]
    centre: float
    covariance: tuple[tuple[float, ...], ...]
    leverage: tuple[float, float]
    sensitivity: Mapping[str, tuple[float, ...]]
    shapes: tuple[tuple[str, float, tuple[float, ...]], ...]
    dof: int
    total_steps: float | None
    n_curves: int

    def mean(self, log_loss: float) -> Array:
        """Log losses of a tuned run whose law expects `log_loss`, shape (K,)."""
        return np.asarray(self.intercept) + np.asarray(self.slope) * (log_loss - self.centre)

    def predictive_covariance(
        self, log_loss: float, *, law_variance: float, octave_sd: Mapping[str, float]
    ) -> Array:
        """Covariance of the log losses of one new run at the forecast's values, shape (K, K).

        Args:
            log_loss: What the law expects.
            law_variance: How uncertain that is, as a variance.
            octave_sd: Tuned column → how uncertain its optimum is, in octaves.
        """
        constant, linear = self.leverage
        share = 1 + constant + linear * (log_loss - self.centre) ** 2
        slope = np.asarray(self.slope)
        found = share * np.asarray(self.covariance) + law_variance * np.outer(slope, slope)
        for name, sd in octave_sd.items():
            change = sd * np.asarray(self.sensitivity[name])
            found = found + np.outer(change, change)
        return found

    def half_width(self, covariance: Array, level: float) -> Array:
        """Half the width of the band in which a tuned run's log losses lie, shape (K,)."""
        t = float(stats.t.ppf(0.5 + level / 2, self.dof))
        return np.asarray(t * np.sqrt(np.diag(covariance)))


def fit_reference_curves(
    curves: pd.DataFrame, *, log_loss: Array, octaves: Array, tuned: Sequence[str], groups: Array
) -> ReferenceCurves | None:
    """Pool the curves of a sweep.

    Args:
        curves: Long table `run`, `step`, `loss`; `run` counts the rows of the following.
        log_loss: What the law expects at each run's size, shape (n_runs,).
        octaves: log2(value / optimum), shape (n_runs, n_tuned); NaN where unknown.
        tuned: Names of the tuned columns.
        groups: One label a run for what shares its noise, its size and seed, shape (n_runs,).

    Returns:
        The reference, or None where fewer than 8 tuned runs at 3 sizes have curves.

    References:
        Qiu et al. (2025), Scaling collapse reveals universal dynamics in compute-optimally trained
        neural networks, arXiv 2507.02119, for normalised curves; the affine collapse is ours.
    """
    table, fractions, places, total = at_fractions(curves, len(log_loss))
    if table is None:
        return None
    whole = np.isfinite(table).all(axis=1) & np.isfinite(log_loss)
    off = np.abs(octaves).max(axis=1) if octaves.shape[1] else np.zeros(len(log_loss))
    near = whole & (off <= NEAR)
    sizes, noise_groups = len(np.unique(log_loss[near])), len(np.unique(groups[near]))
    n_terms = 2 + 2 * octaves.shape[1]
    if near.sum() < max(MIN_CURVES, n_terms + 4) or sizes < MIN_SIZES or noise_groups < n_terms:
        return None
    centre = float(log_loss[near].mean())
    design = _design(log_loss[near] - centre, octaves[near])
    theta, *_ = np.linalg.lstsq(design, table[near], rcond=None)
    residual = table[near] - design @ theta
    dof = min(int(near.sum()), noise_groups) - 2
    covariance = _shrunk(residual.T @ residual / (near.sum() - design.shape[1]), dof)
    x = log_loss[near] - centre
    # runs that share size and seed share their noise: each group is one observation
    leverage = (1.0 / noise_groups, float(near.sum() / noise_groups / (x @ x)))
    plain = theta[0] + np.outer(log_loss - centre, theta[1])
    return ReferenceCurves(
        fractions=tuple(fractions),
        places=_kept(places),
        intercept=_kept(theta[0]),
        slope=_kept(theta[1]),
        centre=centre,
        covariance=tuple(_kept(row) for row in covariance),
        leverage=leverage,
        sensitivity={name: _kept(theta[2 + j]) for j, name in enumerate(tuned)},
        shapes=_shapes(table - plain, octaves, whole, tuned),
        dof=max(dof, 1),
        total_steps=total,
        n_curves=int(near.sum()),
    )


def at_fractions(
    curves: pd.DataFrame, n_runs: int
) -> tuple[Array | None, list[float], Array, float | None]:
    """Curves averaged over intervals of their training.

    Returns:
        Mean log losses, shape (n_runs, K), NaN for runs without a point in an interval; the ends
        of the intervals; where the averages lie; the last step if all agree on it. None, empty if
        the curves resolve no interval.
    """
    curves = curves.astype({"step": float, "loss": float})
    good = curves[np.isfinite(curves["loss"]) & (curves["loss"] > 0) & (curves["step"] > 0)]
    if good.empty:
        return None, [], np.zeros(0), None
    last = curves.groupby("run")["step"].max()
    fraction = good["step"].to_numpy(float) / last.reindex(good["run"]).to_numpy(float)
    ends = list(GRID)
    interval = np.searchsorted(np.asarray(ends) + 1e-9, fraction)
    cells = pd.DataFrame(
        {
            "run": good["run"].to_numpy(int),
            "interval": interval,
            "y": np.log(good["loss"].to_numpy(float)),
            "x": fraction,
        }
    )
    filled = cells.groupby("interval")["run"].nunique()
    kept = [k for k in range(len(ends)) if filled.get(k, 0) >= 0.9 * filled.max()]
    table = np.full((n_runs, len(ends)), np.nan)
    means = cells.groupby(["run", "interval"])["y"].mean()
    rows, columns = (means.index.get_level_values(i).to_numpy(int) for i in (0, 1))
    table[rows, columns] = means.to_numpy(float)
    places = cells.groupby("interval")["x"].mean().reindex(kept).to_numpy(float)
    total = float(last.iloc[0]) if last.nunique() == 1 else None
    return table[:, kept], [ends[k] for k in kept], places, total


def _design(x: Array, octaves: Array) -> Array:
    return np.column_stack([np.ones(len(x)), x, octaves, octaves**2])


def _shrunk(covariance: Array, dof: int) -> Array:
    """The covariance drawn towards equal correlations, the more the fewer observations."""
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-16))
    k = len(sd)
    correlation = covariance / np.outer(sd, sd)
    mean = float((correlation.sum() - k) / max(k * (k - 1), 1))
    target = np.full((k, k), min(max(mean, 0.0), 0.95))
    np.fill_diagonal(target, 1.0)
    share = k / (k + max(dof, 1))
    return ((1 - share) * correlation + share * target) * np.outer(sd, sd)


def _shapes(
    deviation: Array, octaves: Array, whole: Any, tuned: Sequence[str]
) -> tuple[tuple[str, float, tuple[float, ...]], ...]:
    """Mean deviations of runs that are off in one tuned column only."""
    found = []
    for j, name in enumerate(tuned):
        others = np.delete(octaves, j, axis=1)
        alone = np.logical_and(whole, (np.abs(others) <= NEAR).all(axis=1))
        for u in SHAPES:
            rows = np.logical_and(alone, np.abs(octaves[:, j] - u) <= 0.5)
            if rows.sum() >= 3:
                found.append((name, float(u), _kept(deviation[rows].mean(axis=0))))
    return tuple(found)


def _kept(values: Array) -> tuple[float, ...]:
    return tuple(float(f"{value:.{DIGITS}g}") if math.isfinite(value) else 0.0 for value in values)
