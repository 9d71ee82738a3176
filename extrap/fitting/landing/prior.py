"""What is known of a landing before its log: kinds of training, or finished runs of the recipe.

A shape is (ln R_T, ln a, ln b, ln l, p, d) of the law in `posterior`: pure numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import linalg, special

from extrap.laws.base import Array


class Component(NamedTuple):
    """A normal distribution of shapes, and its share."""

    share: float
    mean: Array
    covariance: Array


Prior = tuple[Component, ...]
"""A mixture."""


def component(
    share: float, mean: Sequence[float], sds: Sequence[float], correlations: Sequence[float] = ()
) -> Component:
    """A component from standard deviations and the correlations above the diagonal, by row."""
    matrix = np.eye(len(sds))
    if correlations:
        matrix[np.triu_indices(len(sds), 1)] = correlations
        matrix += np.triu(matrix, 1).T
    return Component(share, np.array(mean), matrix * np.outer(sds, sds))


LANGUAGE_MODELS = component(
    0.6,
    (-2.29, -0.763, -0.680, -5.54, 0.812, -0.175),
    (0.326, 0.170, 0.419, 0.620, 0.087, 0.144),
    (-0.4, -0.4, -0.2, 0.0, -0.5, 0.2, 0.3, 0.2, 0.4, 0.2, -0.2, 0.3, 0.0, 0.3, 0.2),
)
"""At the peak rate `USUAL_PEAK`.

Chosen by `python -m benchmarks.landings --only choose`: 192 published curves of three families
that weigh equally; when a family is scored, the two others make this component.
"""
USUAL_PEAK = 5e-4
"""Peak rate of AdamW."""
PEAK_SLOPES = np.array((-0.112, -0.012, 0.560, 0.049, -0.098, 0.048))
"""What an e-fold of the peak rate adds to the mean: a higher one adds more loss of its own, and
with a power further below 1. Pairs of families give .45 to .61 for ln b."""
PEAK_RANGE = (1e-4, 2e-3)
"""Peak rates of those curves; beyond them their ends hold."""
PEAK_ODDS = 2.0
"""A rate further outside of them, in times, is of another optimizer or kind of model."""
UNKNOWN_LOG_SD = 0.87
"""Standard deviation of ln(peak / `USUAL_PEAK`) where the peak is not known."""
OTHERS = (
    component(
        0.2,
        (-3.02, -0.91, -0.53, -6.08, 0.81, 0.11),
        (1.74, 0.21, 0.51, 0.87, 0.12, 0.12),
        (0.4, 0.6, -0.2, 0.7, 0.5, 0.5, 0.0, 0.3, 0.2, -0.1, 0.4, 0.4, -0.3, -0.3, 0.5),
    ),
    component(
        0.2,
        (-2.6, -0.8, -0.5, -5.8, 0.76, 0.06),
        (1.2, 0.4, 1.3, 1.0, 0.18, 0.2),
        (0.0, -0.4, *[0.0] * 13),
    ),
)
"""Perceptrons, images and chess, as fitted to runs of Qiu et al. 2025 (arXiv 2507.02119), none of
which is among those of `benchmarks.landings`; and anything, where what the rate adds is known
better as a share of the loss than as one of what is left to learn."""
UNINFORMED = (
    component(1.0, (-2.8, -0.8, -0.2, -5.9, 0.74, 0.04), (1.5, 0.4, 1.2, 1.0, 0.2, 0.25)),
)
"""Where the shape of a finished run is asked for."""
DRIFT = component(
    1.0, [0.0] * 6, (0.30, 0.07, 0.20, 0.40, 0.04, 0.05), (0.0, -0.4, *[0.0] * 13)
).covariance
"""Covariance of the difference between the shapes of two runs of one recipe."""
GENERAL_SHARE = 0.1
"""Share of the general prior that stays beside finished runs."""


def landing_prior(peak: float | None) -> Prior:
    """The prior of a run.

    Args:
        peak: Its largest learning rate; None where it is not known.
    """
    share, mean, covariance = LANGUAGE_MODELS
    low, high = PEAK_RANGE
    if peak is None or not low / PEAK_ODDS <= peak <= high * PEAK_ODDS:
        covariance = covariance + UNKNOWN_LOG_SD**2 * np.outer(PEAK_SLOPES, PEAK_SLOPES)
    else:
        mean = mean + math.log(min(max(peak, low), high) / USUAL_PEAK) * PEAK_SLOPES
    return (Component(share, mean, covariance), *OTHERS)


def log_density(prior: Prior, shapes: Array) -> Array:
    """Logarithm of the density of shapes, but for a constant. Shape (…, 6) → (…)."""
    flat = shapes.reshape(-1, shapes.shape[-1])
    logs = []
    for share, mean, covariance in prior:
        root = np.linalg.cholesky(covariance)
        white = linalg.solve_triangular(root, (flat - mean).T, lower=True, check_finite=False)
        logs.append(math.log(share) - np.log(np.diag(root)).sum() - (white**2).sum(axis=0) / 2)
    return np.asarray(special.logsumexp(logs, axis=0)).reshape(shapes.shape[:-1])


def pooled(prior: Prior) -> tuple[Array, Array]:
    """Mean and covariance of a mixture."""
    shares = np.array([part.share for part in prior]) / sum(part.share for part in prior)
    mean = shares @ np.array([part.mean for part in prior])
    spreads = [part.covariance + np.outer(part.mean - mean, part.mean - mean) for part in prior]
    return mean, np.tensordot(shares, spreads, axes=1)


def moved(
    shape: Array, covariance: Array, *, progress: float, rates: float
) -> tuple[Array, Array]:
    """The shape of a finished run, for one with so many times its progress and summed rate.

    What the rate adds stays as it was at equal progress, the lag as it was in the summed rate.
    """
    log_progress, exponent = math.log(progress), math.exp(shape[1])
    jacobian = np.eye(6)
    jacobian[0, 1] = -exponent * log_progress
    jacobian[2, 1], jacobian[2, 5] = exponent * log_progress, -log_progress
    shift = np.zeros(6)
    shift[0] = -exponent * log_progress
    shift[2] = (exponent - shape[5]) * log_progress
    shift[3] = -math.log(rates)
    return shape + shift, jacobian @ covariance @ jacobian.T


def narrowed(prior: Prior, finished: Sequence[tuple[Array, Array]]) -> Prior:
    """The prior of one more run of a recipe, given moved shapes of finished ones."""
    mean, covariance = pooled(prior)
    precision = np.linalg.inv(covariance)
    weighted = precision @ mean
    for shape, uncertainty in finished:
        weight = np.linalg.inv(uncertainty + DRIFT)
        precision, weighted = precision + weight, weighted + weight @ shape
    covariance = np.linalg.inv(precision)
    alike = Component(1 - GENERAL_SHARE, covariance @ weighted, covariance + DRIFT)
    return (alike, *(part._replace(share=GENERAL_SHARE * part.share) for part in prior))
