"""Three straight lines on log-log axes: a look at the regimes that assumes no hyperbola."""

from __future__ import annotations

import math

import numpy as np

from extrap.batching.hyperbola import Array, HyperbolaFit, Steps
from extrap.batching.results import Segments
from extrap.laws.batch import LEAST_SAVING, log_steps, segment_steps

MIN_POINTS = 7
"""Four parameters and the penalty of AICc leave nothing to say below this."""
N_KNOTS = 61
FLAT = math.log2(1 - LEAST_SAVING)
"""Slope at which a doubling saves as little as maximal data parallelism does."""
SMALLEST_NOISE = 1e-3
"""Differences of ln S below this speak for no formula."""


def fit_segments(steps: Steps, fitted: HyperbolaFit) -> Segments | None:
    """Least squares of slopes −1, free, 0 in ln S over ln B, over a grid of the two knots.

    Args:
        steps: The measurements; those that did not reach the target are left out.
        fitted: The hyperbola to compare with.

    Returns:
        None with too few measurements that reached the target, or at fewer than four batch sizes.
    """
    x, y = np.log(steps.batch[~steps.censored]), steps.log_steps[~steps.censored]
    if len(y) < MIN_POINTS or len(np.unique(x)) < 4:
        return None
    first, last = _knots(float(x.min()), float(x.max()))
    residual, slope = _solve(x, y, first, last)
    i = int(np.argmin(residual))
    start = first if slope[i] > FLAT else last  # a middle line as flat as this is the last one
    shape = log_steps(fitted.region.best[0], np.exp(x), reference=fitted.region.reference)
    of_hyperbola = float(((y - shape - fitted.region.best[1]) ** 2).sum())
    return Segments(
        perfect_end=float(np.exp(first[i, 0])) if first[i, 0] > x.min() else None,
        maximal_start=float(np.exp(start[i, 0])) if start[i, 0] < x.max() else None,
        slope=float(slope[i]),
        log_sd=math.sqrt(residual[i] / (len(y) - 4)),
        gain=_aicc(of_hyperbola, len(y), 2) - _aicc(float(residual[i]), len(y), 4),
    )


def _knots(low: float, high: float) -> tuple[Array, Array]:
    """All ordered pairs of knots, each of shape (n_pairs, 1)."""
    grid = np.linspace(low, high, N_KNOTS)
    i, j = np.triu_indices(N_KNOTS)
    return grid[i][:, None], grid[j][:, None]


def _solve(x: Array, y: Array, first: Array, last: Array) -> tuple[Array, Array]:
    """Residual sum of squares and middle slope at each pair of knots."""
    falling, middle = segment_steps(x, first=first, last=last)
    rest = y - falling
    rest = rest - rest.mean(axis=1, keepdims=True)
    middle = middle - middle.mean(axis=1, keepdims=True)
    size = (middle**2).sum(axis=1)
    safe = np.where(size > 0, size, 1.0)
    slope = np.clip((middle * rest).sum(axis=1) / safe, -1.0, 0.0)
    return ((rest - slope[:, None] * middle) ** 2).sum(axis=1), slope


def _aicc(squares: float, n: int, n_parameters: int) -> float:
    """Akaike's criterion for small samples; the noise counts as a parameter."""
    k = n_parameters + 1
    noise = max(squares / n, SMALLEST_NOISE**2)
    return n * math.log(noise) + 2 * k + 2 * k * (k + 1) / (n - k - 1)
