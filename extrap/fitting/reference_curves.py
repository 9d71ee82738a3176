"""Reference loss curves of tuned runs, and the evidence that a curve is not one of them.

Curves of tuned runs collapse: with y(x; N) the log loss at a fraction x of the intended training
and ℓ(N) the law of the final log loss,

    y(x; N) = a(x) + b(x) ℓ(N),

where b rises from about 0 (at the start all sizes are alike) to 1. Normalised curves (Qiu et al.
2025) are the case in which b is the same at all x. Runs away from their optimum add a polynomial
of second order in how far they are off, so that a(x) speaks of tuned ones.

A mixture of likelihood ratios against the tuned run is a nonnegative martingale under it, whatever
points are heard in whatever number: an e-value at any time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import linalg

from extrap.fitting.distributions import t_quantile
from extrap.laws.base import Array

GRID = (
    *(0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3),
    *(0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
)
"""Fractions of a training that end an interval of comparison, where the curves resolve them."""
NEAR = 1.2
"""Octaves within which a run tells what tuned ones look like."""
MIN_CURVES, MIN_SIZES = 8, 3
CUT_SHORT = 0.98
"""A curve that ends before this part of the usual length was not logged to its end."""
SHAPES = (-4, -3, -2, -1, 1, 2, 3, 4)
"""Octaves off the optimum at which the curves of mistuned runs are remembered."""
COSTLY = 2.0
"""Octaves off the optimum from which on a run raises an alarm."""
DIGITS = 8
"""Significant digits that are kept; what differs beyond them is rounding."""
SHAPED, WIDER, APART, JUMPS = 0.7, 0.1, 0.1, 0.1
"""Prior shares of the ways to be off: like mistuned runs, scattered, offset, jumping."""
SCATTER = (4.0, 25.0)
"""Multiples of the covariance."""
OFFSETS = (0.01, 0.03, 0.1)
"""Standard deviations of an offset of the whole curve, in log loss."""
JUMP = 0.1
"""Standard deviation of each point's own jump, in log loss."""
FUZZ = 0.3
"""Standard deviation of how far a run follows a mistuned shape, as a share of it."""
LOOSER = 1.3
"""Multiple of the covariance of tuned runs that mistuned ones have."""

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.integer[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCurves:
    """The curves of tuned runs against the fraction of their training, in log loss.

    Attributes:
        starts, fractions: Where the K intervals begin and end in which losses are averaged, the
            last at 1; there may be gaps between them.
        n_points: Mean number of points a curve has in each.
        point_variance: Variance of a point about the others of its interval, each.
        places: Mean fraction of the points in each, where the averages belong.
        intercept: a, shape (K,).
        slope: b, shape (K,): change with the law's log loss.
        centre: Mean log loss of the law over the fitted runs.
        covariance: Of a tuned run's deviations, shape (K, K).
        inflation: What a seed that the sweep did not have multiplies the covariance by; in it.
        leverage: (of the intercept, of the slope): the predictive covariance at a size is
            `covariance (1 + l₀ + l₁ (ℓ − centre)²)`.
        sensitivity: Tuned column → change with its octaves off the optimum, shape (K,).
        shapes: `(tuned column, octaves off, deviations (K,))` of mistuned runs.
        dof: Degrees of freedom behind the covariance.
        total_steps: Last step, where all curves agree on it; else None.
        n_curves: Curves fitted.
    """

    starts: tuple[float, ...]
    fractions: tuple[float, ...]
    n_points: tuple[float, ...]
    point_variance: tuple[float, ...]
    places: tuple[float, ...]
    intercept: tuple[float, ...]
    slope: tuple[float, ...]
    centre: float
    covariance: tuple[tuple[float, ...], ...]
    inflation: float
    leverage: tuple[float, float]
    sensitivity: Mapping[str, tuple[float, ...]]
    shapes: tuple[tuple[str, float, tuple[float, ...]], ...]
    dof: int
    total_steps: float | None
    n_curves: int

    def mean(self, log_loss: float) -> Array:
        """Log losses of a tuned run whose law expects `log_loss`, shape (K,)."""
        return np.asarray(self.intercept) + np.asarray(self.slope) * (log_loss - self.centre)

    def mean_at(self, fraction: float, log_loss: float) -> float:
        """Log loss of a tuned run at one fraction of its training."""
        return float(along(math.log(fraction), np.log(self.places), self.mean(log_loss)))

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
        t = float(t_quantile(0.5 + level / 2, self.dof))
        return np.asarray(t * np.sqrt(np.diag(covariance)))


def fit_reference_curves(
    curves: pd.DataFrame,
    *,
    log_loss: Array,
    octaves: Array,
    tuned: Sequence[str],
    sizes: Array,
    seeds: Array,
    lengths: Array,
) -> ReferenceCurves | None:
    """Pool the curves of a sweep.

    Runs of one size and seed are one observation. Where seeds recur at several sizes, what they do
    at all of them alike is distinguished: a run to come has a seed of its own.

    Args:
        curves: Long table `run`, `step`, `loss`; `run` counts the rows of the following.
        log_loss: What the law expects at each run's size, NaN for runs to leave out, (n_runs,).
        octaves: log2(value / optimum), shape (n_runs, n_tuned); NaN where unknown.
        tuned: Names of the tuned columns.
        sizes: Number of each run's size, shape (n_runs,).
        seeds: Number of its seed, shape (n_runs,).
        lengths: Number of what sets its length: runs alike have as many steps, shape (n_runs,).

    Returns:
        The reference, or None where fewer than 8 tuned runs at 3 sizes have curves.

    References:
        Qiu et al. (2025), Scaling collapse reveals universal dynamics in compute-optimally trained
        neural networks, arXiv 2507.02119, for normalised curves; the affine collapse is ours.
    """
    curves, total = _whole_curves(curves, lengths)
    found = at_fractions(curves, len(log_loss))
    if found is None:
        return None
    whole = np.isfinite(found.table).all(axis=1) & np.isfinite(log_loss)
    off = np.abs(octaves).max(axis=1) if octaves.shape[1] else np.zeros(len(log_loss))
    near = whole & (off <= NEAR)
    groups = len({(size, seed) for size, seed in zip(sizes[near], seeds[near], strict=True)})
    n_terms = 2 + 2 * octaves.shape[1]
    enough = near.sum() >= max(MIN_CURVES, n_terms + 4) and groups >= n_terms
    if not enough or len(np.unique(sizes[near])) < MIN_SIZES:
        return None
    centre = float(log_loss[near].mean())
    u = octaves[near]
    design = np.column_stack([np.ones(len(u)), log_loss[near] - centre, u, u**2])
    theta, *_ = np.linalg.lstsq(design, found.table[near], rcond=None)
    residual = found.table[near] - design @ theta
    inflation, dof = _new_seed(residual, sizes[near], seeds[near], groups - 2)
    covariance = residual.T @ residual / (near.sum() - design.shape[1])
    x = log_loss[near] - centre
    plain = theta[0] + np.outer(log_loss - centre, theta[1])
    return ReferenceCurves(
        starts=found.starts,
        fractions=found.ends,
        n_points=_kept(found.n_points),
        point_variance=_kept(found.point_variance),
        places=_kept(found.places),
        intercept=_kept(theta[0]),
        slope=_kept(theta[1]),
        centre=centre,
        covariance=tuple(_kept(row) for row in _shrunk(inflation * covariance, groups - 2)),
        inflation=float(f"{inflation:.{DIGITS}g}"),
        leverage=(1.0 / groups, float(near.sum() / groups / (x @ x))),
        sensitivity={name: _kept(theta[2 + j]) for j, name in enumerate(tuned)},
        shapes=_shapes(found.table - plain, octaves, whole, tuned),
        dof=dof,
        total_steps=total,
        n_curves=int(near.sum()),
    )


def _whole_curves(curves: pd.DataFrame, lengths: Array) -> tuple[pd.DataFrame, float | None]:
    """Curves that reach the end that is commonest among their like, and that end if it is one."""
    last = curves.groupby("run")["step"].max().astype(float)
    kind = pd.Series(lengths[last.index.to_numpy(int)], index=last.index)
    usual = last.groupby(kind).transform(lambda steps: steps.mode().max())
    kept = last[last >= CUT_SHORT * usual]
    ends = usual[kept.index].unique()
    return curves[curves["run"].isin(kept.index)], float(ends[0]) if len(ends) == 1 else None


def _new_seed(residual: Array, sizes: Array, seeds: Array, dof: int) -> tuple[float, int]:
    """What a seed the sweep did not have multiplies the covariance by, and degrees of freedom.

    With ψ the share of the variance that seeds have at all sizes alike, from a two-way analysis of
    variance of the means over each size and seed: the residuals hold 1 − ψ/n of it, and the mean
    curve errs by another ψ/n. One seed alone tells nothing of it; ψ = ½ is assumed.
    """
    frame = pd.DataFrame(residual).groupby([sizes, seeds]).mean()
    n_sizes = frame.groupby(level=1).size()
    common = n_sizes.index[n_sizes == n_sizes.max()]
    rows, n = int(n_sizes.max()), len(common)
    own_rows = frame[frame.index.get_level_values(1).isin(common)]
    if rows < 2 or own_rows.index.get_level_values(0).nunique() > rows:
        return 1.0, max(dof, 1)  # seeds that occur once, or at different sizes, tell nothing
    share = 0.5
    if n > 1:
        table = own_rows.to_numpy().reshape(rows, n, -1)
        of_seeds = table.mean(axis=0)
        rest = table - table.mean(axis=1, keepdims=True) - (of_seeds - of_seeds.mean(axis=0))
        own = float((rest**2).sum()) / ((rows - 1) * (n - 1))
        between = rows * float(of_seeds.var(axis=0, ddof=1).sum())
        total = float(residual.var(axis=0).sum())
        share = min(max((between - own) / rows, 0.0) / max(total, 1e-300), 0.95)
    inflation = (1 + share / n) / (1 - share / n)
    known = 1 / (share**2 / max(n - 1, 1) + (1 - share) ** 2 / max(dof, 1))
    return inflation, max(int(known), 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AtFractions:
    """Curves averaged over intervals of their training.

    Attributes:
        table: Mean log losses, shape (n_runs, K); NaN for runs without a point in an interval.
        starts, ends: Of the intervals, as fractions.
        places: Where the averages lie.
        n_points: Points of a curve in each interval.
        point_variance: Of a point about a line through those of its curve in the interval.
    """

    table: Array
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    places: Array
    n_points: Array
    point_variance: Array


def at_fractions(curves: pd.DataFrame, n_runs: int, *, length: float = 0.0) -> AtFractions | None:
    """Average curves over intervals of their training; None if there is no point.

    Args:
        curves: Long table `run`, `step`, `loss`.
        n_runs: Rows of the result; `run` counts them.
        length: Steps the runs were to take, if some may have ended before.
    """
    curves = curves.astype({"step": float, "loss": float})
    good = curves[np.isfinite(curves["loss"]) & (curves["loss"] > 0) & (curves["step"] > 0)]
    if good.empty:
        return None
    last = curves.groupby("run")["step"].max().clip(lower=length)
    fraction = good["step"].to_numpy(float) / last.reindex(good["run"]).to_numpy(float)
    cells = pd.DataFrame(
        {
            "run": good["run"].to_numpy(int),
            "interval": np.searchsorted(np.asarray(GRID) + 1e-9, fraction),
            "y": np.log(good["loss"].to_numpy(float)),
            "x": np.log(fraction),
        }
    )
    filled = cells.groupby("interval")["run"].nunique()
    kept = [k for k in range(len(GRID)) if filled.get(k, 0) >= filled.max() / 2]
    table = np.full((n_runs, len(GRID)), np.nan)
    by_cell = cells.groupby(["run", "interval"])
    means = by_cell["y"].mean()
    rows, columns = (means.index.get_level_values(i).to_numpy(int) for i in (0, 1))
    table[rows, columns] = means.to_numpy(float)
    by_interval = cells.groupby("interval")
    n_points = by_cell.size().groupby(level="interval").mean().reindex(kept).to_numpy(float)
    return AtFractions(
        table=table[:, kept],
        starts=tuple(GRID[k - 1] if k else 0.0 for k in kept),
        ends=tuple(GRID[k] for k in kept),
        places=np.exp(by_interval["x"].mean().reindex(kept).to_numpy(float)),
        n_points=n_points,
        point_variance=_point_variance(cells, kept),
    )


def _point_variance(cells: pd.DataFrame, kept: Sequence[int]) -> Array:
    """Variance of a point about the line through its curve's points in the interval.

    Half the mean square of second differences over three: a line drops out. Intervals with too few
    points have the mean of the others; none has any, and it is 0.
    """
    ordered = cells.sort_values(["run", "interval", "x"], kind="stable")
    y = ordered.groupby(["run", "interval"])["y"]
    bend = (y.shift(1) - 2 * ordered["y"] + y.shift(-1)) ** 2 / 6
    found = bend.groupby(ordered["interval"]).mean().reindex(kept).to_numpy(float)
    known = np.isfinite(found)
    return np.where(known, found, found[known].mean() if known.any() else 0.0)


def along(log_fraction: Array | float, log_places: Array, mean: Array) -> Array:
    """A curve between its places and beyond, straight in the logarithm of the fraction."""
    inside = np.interp(log_fraction, log_places, mean)
    if len(log_places) < 2:
        return np.asarray(inside)
    first, last = (
        (mean[i + 1] - mean[i]) / (log_places[i + 1] - log_places[i]) for i in (0, len(mean) - 2)
    )
    below = np.minimum(np.asarray(log_fraction) - log_places[0], 0.0)
    above = np.maximum(np.asarray(log_fraction) - log_places[-1], 0.0)
    return np.asarray(inside + first * below + last * above)


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """A way to be off the reference: mean (K,), covariance (K, K), and what it is a sign of."""

    share: float
    mean: Array
    covariance: Array
    cause: str
    words: str
    tuned: str = ""
    octaves: float = 0.0


def ways_to_be_mistuned(curves: ReferenceCurves, covariance: Array) -> list[Way]:
    """As the sweep's own runs were, with equal shares."""
    ways = []
    for name, octaves, shape in curves.shapes:
        mean = np.asarray(shape)
        side = "high" if octaves > 0 else "low"
        ways.append(
            Way(
                share=1.0,
                mean=mean,
                covariance=LOOSER * covariance + FUZZ**2 * np.outer(mean, mean),
                cause="mistuned",
                tuned=name,
                octaves=octaves,
                words=f"{name} was too {side} by about a factor of {2 ** abs(octaves):g}",
            )
        )
    return ways


def ways_to_be_off(curves: ReferenceCurves, covariance: Array) -> list[Way]:
    """Mistuned as the sweep's own runs were, so far that it costs, or off without a pattern."""
    k = len(covariance)
    mistuned = ways_to_be_mistuned(curves, covariance)
    far = [way for way in mistuned if abs(way.octaves) >= COSTLY]
    shaped = [replace(way, share=SHAPED / len(far)) for way in far]
    unlike, one = "unlike any mistuned run of the sweep", np.ones((k, k))
    plain = [
        *((WIDER / len(SCATTER), factor * covariance, "unknown", unlike) for factor in SCATTER),
        *(
            (
                APART / len(OFFSETS),
                covariance + sd**2 * one,
                "unknown",
                f"by the same share from the start, {unlike}",
            )
            for sd in OFFSETS
        ),
        (JUMPS, covariance + JUMP**2 * np.eye(k), "instability", "with jumps between points"),
    ]
    zero = np.zeros(k)
    return shaped + [
        Way(share=share, mean=zero, covariance=wider, cause=cause, words=words)
        for share, wider, cause, words in plain
    ]


def _log_density(off: Array, covariance: Array, dof: int) -> float:
    """Log density of a multivariate t distribution about 0, up to a constant in its dimension."""
    root = np.linalg.cholesky(covariance)
    white = linalg.solve_triangular(root, off, lower=True, check_finite=False)
    n = len(off)
    square = float(white @ white)
    return -float(np.log(np.diag(root)).sum()) - 0.5 * (dof + n) * math.log1p(square / dof)


def log_ratios(
    ways: Sequence[Way],
    off: Array,
    *,
    seen: IntArray,
    covariance: Array,
    rougher: Array,
    dof: int,
) -> Array:
    """Log of prior share times likelihood ratio, one per way to be off; their sum is an e-value.

    Args:
        ways: From `ways_to_be_off`.
        off: Deviations from the reference in the intervals seen, shape (k,).
        seen: Their numbers, shape (k,).
        covariance: Of a tuned run's deviations in all intervals, shape (K, K).
        rougher: Variance to add in those seen, shape (k,).
        dof: Degrees of freedom of the multivariate t distributions.

    References:
        Ville (1939); Howard et al. (2021), Time-uniform, nonparametric, nonasymptotic confidence
        sequences, arXiv 1810.08240.
    """
    square, added = np.ix_(seen, seen), np.diag(rougher)
    null = _log_density(off, covariance[square] + added, dof)
    return np.array(
        [
            math.log(way.share)
            + _log_density(off - way.mean[seen], way.covariance[square] + added, dof)
            - null
            for way in ways
        ]
    )
