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
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.fitting.distributions import t_quantile
from extrap.fitting.projection import Index, Mask
from extrap.laws.base import Array
from extrap.records.numbers import rounded

INTERVAL_ENDS = (
    *(0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3),
    *(0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
)
"""Fractions of a training that end an interval of comparison, where the curves resolve them."""
TUNED_OCTAVES = 1.2
"""Octaves off the optimum up to which a run counts as tuned."""
MIN_CURVES, LEAST_CURVE_SIZES = 8, 3
"""Tuned runs, and sizes of them, below which there is no reference."""
MIN_LENGTH_SHARE = 0.98
"""A curve that ends before this share of the usual length was not logged to its end."""
SHAPE_OCTAVES = (-4, -3, -2, -1, 1, 2, 3, 4)
"""Octaves off the optimum at which the mean curve of mistuned runs is computed."""
MIN_SHAPE_RUNS = 3
"""Runs within half an octave that such a mean needs."""
ALARM_OCTAVES = 2.0
"""Octaves off the optimum from which on a mistuned run is off course."""
SIGNIFICANT_DIGITS = 8
"""Digits of the numbers of a reference; what differs beyond them is rounding."""
PRIOR = {"tuned": 0.0, "mistuned": 0.7, "scattered": 0.1, "offset": 0.1, "jumping": 0.1}
"""Probability that a run off course is of a kind; hypotheses of one kind share it equally."""
SCATTER_FACTORS = (4.0, 25.0)
"""Multiples of the covariance of tuned runs that scattered ones have."""
OFFSET_SDS = (0.01, 0.03, 0.1)
"""Standard deviations of an offset of the whole curve, in log loss."""
JUMP_SD = 0.1
"""Standard deviation of each interval's own jump, in log loss."""
MISTUNED_FACTOR = 1.3
"""Multiple of the covariance of tuned runs that mistuned ones have."""
SHAPE_SD = 0.3
"""Standard deviation of how far a run follows the mean of mistuned ones, as a share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCurves:
    """The curves of tuned runs against the fraction of their training, in log loss.

    Attributes:
        starts, fractions: Where the K intervals begin and end in which losses are averaged, the
            last at 1; there may be gaps between them.
        n_points: Mean number of points a curve has in each.
        point_variance: Variance of a point about the others of its interval, each.
        places: Geometric mean fraction of the points in each, where the averages belong.
        intercept: a, shape (K,).
        slope: b, shape (K,): change with the law's log loss.
        centre: Mean log loss of the law over the fitted runs.
        covariance: Of a tuned run's deviations, shape (K, K).
        inflation: What a seed that the sweep did not have multiplies the covariance by; in it.
        leverage: (of the intercept, of the slope): the predictive covariance at a size is
            `covariance (1 + l₀ + l₁ (ℓ − centre)²)`.
        sensitivity: Tuned column → change with its octaves off the optimum, shape (K,).
        shapes: `(tuned column, octaves off, mean deviations (K,))` of mistuned runs.
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
        return interpolate(math.log(fraction), np.log(self.places), self.mean(log_loss))

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
        covariance = share * np.asarray(self.covariance)
        covariance += law_variance * np.outer(self.slope, self.slope)
        for name, sd in octave_sd.items():
            change = sd * np.asarray(self.sensitivity[name])
            covariance += np.outer(change, change)
        return covariance

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
    whole_curves, total_steps = _whole_curves(curves, lengths)
    means = interval_means(whole_curves, len(log_loss))
    if means is None:
        return None
    is_whole = np.isfinite(means.log_loss).all(axis=1) & np.isfinite(log_loss)
    is_tuned = is_whole & (np.abs(octaves) <= TUNED_OCTAVES).all(axis=1)
    n_tuned, n_terms = int(is_tuned.sum()), 2 + 2 * octaves.shape[1]
    n_groups = len(np.unique(np.column_stack([sizes, seeds])[is_tuned], axis=0))
    is_enough = n_tuned >= max(MIN_CURVES, n_terms + 4) and n_groups >= n_terms
    if not is_enough or len(np.unique(sizes[is_tuned])) < LEAST_CURVE_SIZES:
        return None
    centre = float(log_loss[is_tuned].mean())
    x, u = log_loss[is_tuned] - centre, octaves[is_tuned]
    design = np.column_stack([np.ones(n_tuned), x, u, u**2])
    coefficients, *_ = np.linalg.lstsq(design, means.log_loss[is_tuned], rcond=None)
    residual = means.log_loss[is_tuned] - design @ coefficients
    inflation, dof = _new_seed(residual, sizes[is_tuned], seeds[is_tuned], n_groups - 2)
    covariance = inflation * (residual.T @ residual) / (n_tuned - design.shape[1])
    tuned_curve = coefficients[0] + np.outer(log_loss - centre, coefficients[1])
    return ReferenceCurves(
        starts=means.starts,
        fractions=means.ends,
        n_points=_rounded(means.n_points),
        point_variance=_rounded(means.point_variance),
        places=_rounded(means.fractions),
        intercept=_rounded(coefficients[0]),
        slope=_rounded(coefficients[1]),
        centre=centre,
        covariance=tuple(map(_rounded, _shrunk(covariance, n_groups - 2))),
        inflation=rounded(inflation, SIGNIFICANT_DIGITS),
        leverage=(1.0 / n_groups, float(n_tuned / n_groups / (x @ x))),
        sensitivity={name: _rounded(coefficients[2 + j]) for j, name in enumerate(tuned)},
        shapes=_shapes(means.log_loss - tuned_curve, octaves, is_whole, tuned),
        dof=dof,
        total_steps=total_steps,
        n_curves=n_tuned,
    )


def _whole_curves(curves: pd.DataFrame, lengths: Array) -> tuple[pd.DataFrame, float | None]:
    """Curves that reach the usual end of runs alike, and that end if it is the same for all."""
    last = curves.groupby("run")["step"].max().astype(float)
    alike = lengths[last.index.to_numpy(int)]
    usual = last.groupby(alike).transform(lambda steps: steps.mode().max())
    is_whole = last >= MIN_LENGTH_SHARE * usual
    ends = usual[is_whole].unique()
    return curves[curves["run"].isin(last.index[is_whole])], float(ends[0]) if len(
        ends
    ) == 1 else None


def _new_seed(residual: Array, sizes: Array, seeds: Array, dof: int) -> tuple[float, int]:
    """What a seed the sweep did not have multiplies the covariance by, and degrees of freedom.

    With ψ the share of the variance that seeds have at all sizes alike, from a two-way analysis of
    variance of the means over each size and seed: the residuals hold 1 − ψ/n of it, and the mean
    curve errs by another ψ/n. One seed alone tells nothing of it; ψ = ½ is assumed.
    """
    row, column = (np.unique(labels, return_inverse=True)[1] for labels in (sizes, seeds))
    table = np.full((row.max() + 1, column.max() + 1, residual.shape[1]), np.nan)
    for i, j in {*zip(row, column, strict=True)}:
        table[i, j] = residual[(row == i) & (column == j)].mean(axis=0)
    has_runs = np.isfinite(table[..., 0])
    n_sizes = int(has_runs.sum(axis=0).max())
    is_recurring = has_runs.sum(axis=0) == n_sizes
    table = table[has_runs[:, is_recurring].any(axis=1)][:, is_recurring]
    n_seeds, share = table.shape[1], 0.5
    if n_sizes < 2 or len(table) > n_sizes:
        return 1.0, max(dof, 1)  # seeds that occur once, or at different sizes, tell nothing
    if n_seeds > 1:
        of_seed = table.mean(axis=0)
        error = table - table.mean(axis=1, keepdims=True) - (of_seed - of_seed.mean(axis=0))
        within = float((error**2).sum()) / ((n_sizes - 1) * (n_seeds - 1))
        between = n_sizes * float(of_seed.var(axis=0, ddof=1).sum())
        total = float(residual.var(axis=0).sum())
        share = min(max((between - within) / n_sizes, 0.0) / max(total, 1e-300), 0.95)
    inflation = (1 + share / n_seeds) / (1 - share / n_seeds)
    combined = 1 / (share**2 / max(n_seeds - 1, 1) + (1 - share) ** 2 / max(dof, 1))
    return inflation, max(int(combined), 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IntervalMeans:
    """Curves averaged over intervals of their training.

    Attributes:
        log_loss: Mean log losses, shape (n_runs, K); NaN for runs without a point in an interval.
        starts, ends: Of the intervals, as fractions.
        fractions: Geometric mean fraction of the points in each, where the averages belong.
        n_points: Points of a curve in each interval.
        point_variance: Of a point about a line through those of its curve in the interval.
    """

    log_loss: Array
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    fractions: Array
    n_points: Array
    point_variance: Array


def interval_means(
    curves: pd.DataFrame, n_runs: int, *, length: float = 0.0
) -> IntervalMeans | None:
    """Average curves over intervals of their training; None if there is no point.

    Args:
        curves: Long table `run`, `step`, `loss`.
        n_runs: Rows of the result; `run` counts them.
        length: Steps the runs were to take, if some may have ended before.
    """
    curves = curves.astype({"step": float, "loss": float})
    last = curves.groupby("run")["step"].transform("max").clip(lower=length)
    points = curves.assign(fraction=curves["step"] / last)
    points = points[np.isfinite(points["loss"]) & (points["loss"] > 0) & (points["step"] > 0)]
    if points.empty:
        return None
    run, fraction = points["run"].to_numpy(int), points["fraction"].to_numpy(float)
    log_loss = np.log(points["loss"].to_numpy(float))
    k = len(INTERVAL_ENDS)
    interval = np.searchsorted(np.asarray(INTERVAL_ENDS) + 1e-9, fraction)
    table = _group_means(run * k + interval, log_loss, n_runs * k).reshape(n_runs, k)
    n_curves = np.isfinite(table).sum(axis=0)
    used = np.flatnonzero(n_curves >= n_curves.max() / 2)
    order = np.lexsort((fraction, interval, run))
    return IntervalMeans(
        log_loss=table[:, used],
        starts=tuple(INTERVAL_ENDS[i - 1] if i else 0.0 for i in used),
        ends=tuple(INTERVAL_ENDS[i] for i in used),
        fractions=np.exp(_group_means(interval, np.log(fraction), k)[used]),
        n_points=np.bincount(interval, minlength=k)[used] / n_curves[used],
        point_variance=_point_variance(log_loss[order], run[order], interval[order], used),
    )


def _group_means(group: Index, values: Array, n_groups: int) -> Array:
    """Mean of the values of each group, NaN where it has none."""
    counts = np.bincount(group, minlength=n_groups)
    sums = np.bincount(group, values, minlength=n_groups)
    return np.divide(sums, counts, out=np.full(n_groups, np.nan), where=counts > 0)


def _point_variance(log_loss: Array, run: Index, interval: Index, used: Index) -> Array:
    """Variance, in each used interval, of a point about the line through its curve's points there.

    Half the mean square of second differences over three: a line drops out. Intervals with too few
    points have the mean of the others; if none has any, it is 0. Points are in the order of their
    runs and fractions.
    """
    is_inner = (run[2:] == run[:-2]) & (interval[2:] == interval[:-2])
    bends = (log_loss[:-2] - 2 * log_loss[1:-1] + log_loss[2:])[is_inner]
    variance = _group_means(interval[1:-1][is_inner], bends**2 / 6, len(INTERVAL_ENDS))[used]
    is_measured = np.isfinite(variance)
    if not is_measured.any():
        return np.zeros(len(used))
    return np.where(is_measured, variance, variance[is_measured].mean())


def interpolate(log_fraction: float, log_fractions: Array, curve: Array) -> float:
    """A curve at a log fraction, piecewise linear and straight on beyond its ends."""
    if len(curve) == 1:
        return float(curve[0])
    i = min(max(int(np.searchsorted(log_fractions, log_fraction)), 1), len(curve) - 1)
    slope = (curve[i] - curve[i - 1]) / (log_fractions[i] - log_fractions[i - 1])
    return float(curve[i - 1] + slope * (log_fraction - log_fractions[i - 1]))


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
    deviations: Array, octaves: Array, is_whole: Mask, tuned: Sequence[str]
) -> tuple[tuple[str, float, tuple[float, ...]], ...]:
    """Mean deviations of runs that are off in one tuned column only."""
    is_near = np.abs(octaves) <= TUNED_OCTAVES
    shapes = []
    for j, name in enumerate(tuned):
        is_alone = is_whole & np.delete(is_near, j, axis=1).all(axis=1)
        for u in SHAPE_OCTAVES:
            rows = is_alone & (np.abs(octaves[:, j] - u) <= 0.5)
            if rows.sum() >= MIN_SHAPE_RUNS:
                shapes.append((name, float(u), _rounded(deviations[rows].mean(axis=0))))
    return tuple(shapes)


def _rounded(values: Array) -> tuple[float, ...]:
    return tuple(rounded(value, SIGNIFICANT_DIGITS) for value in values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hypothesis:
    """What the deviations of a run from the reference are like.

    Attributes:
        kind: A key of `PRIOR`.
        prior: Its probability if the run is off course.
        mean, covariance: Of the deviations, shapes (K,) and (K, K).
        tuned, octaves: Which tuned column of a mistuned run is off, and how far.
    """

    kind: str
    prior: float
    mean: Array
    covariance: Array
    tuned: str = ""
    octaves: float = 0.0


def curve_hypotheses(curves: ReferenceCurves, covariance: Array) -> list[Hypothesis]:
    """First the null hypothesis, a tuned run, whose deviations have this covariance, (K, K)."""
    k = len(covariance)
    patternless = {
        "tuned": [covariance],
        "scattered": [factor * covariance for factor in SCATTER_FACTORS],
        "offset": [covariance + sd**2 for sd in OFFSET_SDS],
        "jumping": [covariance + JUMP_SD**2 * np.eye(k)],
    }
    n_far = sum(abs(octaves) >= ALARM_OCTAVES for _, octaves, _ in curves.shapes)
    return [
        Hypothesis(kind=kind, prior=PRIOR[kind] / len(wider), mean=np.zeros(k), covariance=matrix)
        for kind, wider in patternless.items()
        for matrix in wider
    ] + [
        Hypothesis(
            kind="mistuned",
            prior=PRIOR["mistuned"] / n_far if abs(octaves) >= ALARM_OCTAVES else 0.0,
            mean=np.asarray(shape),
            covariance=MISTUNED_FACTOR * covariance + SHAPE_SD**2 * np.outer(shape, shape),
            tuned=name,
            octaves=octaves,
        )
        for name, octaves, shape in curves.shapes
    ]


def log_likelihood_ratios(
    hypotheses: Sequence[Hypothesis],
    deviations: Array,
    *,
    intervals: Index,
    extra_variance: Array,
    dof: int,
) -> Array:
    """Log likelihood ratio of each hypothesis against the first, by multivariate t distributions.

    The sum of the ratios times the prior probabilities is an e-value.

    Args:
        hypotheses: From `curve_hypotheses`.
        deviations: From the reference in the intervals compared so far, shape (k,).
        intervals: Their numbers, shape (k,).
        extra_variance: To add in them, shape (k,).
        dof: Degrees of freedom.

    References:
        Ville (1939); Howard et al. (2021), Time-uniform, nonparametric, nonasymptotic confidence
        sequences, arXiv 1810.08240.
    """
    square = np.ix_(intervals, intervals)
    covariances = np.array([h.covariance[square] for h in hypotheses]) + np.diag(extra_variance)
    residuals = deviations - np.array([h.mean[intervals] for h in hypotheses])
    root = np.linalg.cholesky(covariances)
    white = np.linalg.solve(root, residuals[..., None])[..., 0]
    log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    scale = 0.5 * (dof + len(deviations))
    log_density = -log_root - scale * np.log1p((white**2).sum(axis=1) / dof)
    return np.asarray(log_density - log_density[0])
