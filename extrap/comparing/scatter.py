"""How much a table of losses by size and seed scatters, and what that does to a weighted sum.

A seed does something of its own at every size, and something alike at all of them. Only what is
its own averages out over sizes; a sum over sizes gets its standard error from both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from extrap.laws.base import Array

ROUNDING = 1e-9
"""Standard deviation of a log loss below which only rounding is left."""
ASSUMED = 1.0
"""Variance of a seed's common part over that of its own part, where a single seed was used."""
RATIOS = np.concatenate([-np.logspace(0, -3, 60)[1:], [0.0], np.logspace(-3, 4, 200)])
"""Trial variance ratios; the negative ones in units of the smallest possible one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A part of a variance, with the degrees of freedom behind it."""

    variance: float
    dof: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scatter:
    """Variance components of a table, sizes × seeds.

    Attributes:
        own: Variance of what a seed does at one size only.
        seed: Variance of what it does at all sizes alike; may come out negative.
        covariance: Of the two, shape (2, 2); None with a single stratum.
        dof: Degrees of freedom behind `own` with a single stratum.
        counts: Seeds that two sizes have in common, shape (n_sizes, n_sizes).
        is_assumed: Whether `seed` is assumed, because there is one seed only.
    """

    own: float
    seed: float
    covariance: Array | None
    dof: float
    counts: Array
    is_assumed: bool

    @property
    def is_single(self) -> bool:
        """Whether all contrasts have one variance."""
        return self.covariance is None

    @property
    def own_dof(self) -> float:
        """Degrees of freedom behind `own`."""
        if self.covariance is None:
            return self.dof
        error = float(self.covariance[0, 0])
        return max(2 * self.own**2 / error, 1.0) if error > 0 else 1.0

    def piece(self, weights: Array) -> Piece:
        """Variance of a weighted sum of the means over seeds, by Satterthwaite."""
        share = weights / np.diag(self.counts)
        both = np.array([weights @ share, share @ self.counts @ share])
        variance = max(float(both @ [self.own, self.seed]), 0.0)
        if self.covariance is None:
            return Piece(variance=variance, dof=self.dof)
        error = float(both @ self.covariance @ both)
        if not error > 0:
            return Piece(variance=variance, dof=math.inf)
        return Piece(variance=variance, dof=max(2 * variance**2 / error, 1.0))


def combine(pieces: Sequence[Piece]) -> tuple[float, float]:
    """Standard error and degrees of freedom of a sum of independent parts (Satterthwaite)."""
    variance = sum(piece.variance for piece in pieces)
    rest = sum(piece.variance**2 / piece.dof for piece in pieces if piece.dof > 0)
    return max(math.sqrt(variance), ROUNDING), max(variance**2 / rest, 1.0) if rest else math.inf


def estimate_scatter(table: Array, design: Array) -> Scatter | None:
    """Variance components by restricted maximum likelihood; exact where every seed is everywhere.

    Args:
        table: Log losses, or differences of them, NaN where there is none, (n_sizes, n_seeds).
        design: What may depend on size without being scatter, (n_sizes, n_columns).

    Returns:
        The components; None without a residual degree of freedom.

    References:
        Patterson, Thompson (1971), Recovery of inter-block information when block sizes are
        unequal, Biometrika 58. Satterthwaite (1946), Biometrics Bulletin 2.
    """
    known = np.isfinite(table)
    size, seed = np.nonzero(known)
    rest = _complement(design[size])
    counts = known.astype(float) @ known.T
    if not rest.shape[1]:
        return None
    same = (seed[:, None] == seed).astype(float)
    values, vectors = np.linalg.eigh(rest.T @ same @ rest)
    values = np.where(values < 1e-9, 0.0, values)
    square = (vectors.T @ (rest.T @ table[known])) ** 2
    square = np.maximum(square, ROUNDING**2)
    if np.ptp(values) < 1e-9:
        own = float(square.mean())
        recurs = bool((same.sum(axis=1) > 1).any())
        return Scatter(
            own=own,
            seed=ASSUMED * own if recurs else 0.0,
            covariance=None,
            dof=float(len(square)),
            counts=counts,
            is_assumed=recurs,
        )
    own, ratio = _maximise(values, square)
    variance = own * (1 + ratio * values)
    basis = np.stack([np.ones_like(values), values])
    return Scatter(
        own=own,
        seed=own * ratio,
        covariance=np.linalg.pinv(0.5 * (basis / variance**2) @ basis.T),
        dof=len(square),
        counts=counts,
        is_assumed=False,
    )


def with_own(scatter: Scatter, own: float, dof: float) -> Scatter:
    """The same with another variance of the own part, of known degrees of freedom."""
    if scatter.covariance is None:
        seed = ASSUMED * own if scatter.is_assumed else scatter.seed
        return replace(scatter, own=own, seed=seed, dof=dof)
    covariance = np.diag([2 * own**2 / dof, scatter.covariance[1, 1]])
    return replace(scatter, own=own, seed=max(scatter.seed, 0.0), covariance=covariance)


def _complement(design: Array) -> Array:
    """Orthonormal columns orthogonal to the design, shape (n, n − rank)."""
    norm = np.linalg.norm(design, axis=0)
    scaled = design / np.where(norm > 0, norm, 1.0)
    left, scale, _ = np.linalg.svd(scaled, full_matrices=True)
    rank = int((scale > 1e-8 * scale[0]).sum()) if len(scale) else 0
    return np.asarray(left[:, rank:])


def _maximise(values: Array, square: Array) -> tuple[float, float]:
    """Own variance and ratio seed / own of independent contrasts of variance own (1 + ratio d)."""
    levels = np.unique(np.round(values, 9))
    if len(levels) == 2:  # two strata: their mean squares, exactly
        low, high = (float(square[np.abs(values - v) < 1e-8].mean()) for v in levels)
        slope = (high - low) / (levels[1] - levels[0])
        own = max(low - slope * levels[0], ROUNDING**2)
        return own, float(slope / own)
    ratios = np.where(RATIOS < 0, RATIOS / values.max(), RATIOS)
    for _ in range(3):
        inflation = 1 + ratios[:, None] * values
        own = (square / inflation).mean(axis=1)
        objective = np.log(inflation).sum(axis=1) + len(values) * np.log(own)
        best = int(np.argmin(objective))
        around = ratios[max(best - 1, 0)], ratios[min(best + 1, len(ratios) - 1)]
        chosen = float(own[best]), float(ratios[best])
        ratios = np.linspace(*around, 21)
    return chosen


def t_p_value(value: float, se: float, dof: float) -> float:
    """Two-sided probability of at least this value where the truth is 0."""
    return float(2 * stats.t.sf(abs(value) / se, dof))
