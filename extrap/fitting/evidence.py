"""Evidence that a loss curve is not that of a tuned run: ratios of likelihoods.

A mixture of likelihood ratios against one null is a nonnegative martingale under it, whatever
points are heard in whatever number: an e-value at any time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from extrap.fitting.reference_curves import ReferenceCurves
from extrap.laws.base import Array

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.integer[Any]]]

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


def ways_to_be_off(curves: ReferenceCurves, covariance: Array) -> list[Way]:
    """Mistuned as the sweep's own runs were, or off without a pattern."""
    k = len(covariance)
    ways = []
    for name, octaves, shape in curves.shapes:
        if abs(octaves) < 2:  # what such a run costs is no alarm
            continue
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
    shaped = [replace(way, share=SHAPED / len(ways)) for way in ways]
    zero, one, eye = np.zeros(k), np.ones((k, k)), np.eye(k)
    scattered = [
        Way(
            share=WIDER / len(SCATTER),
            mean=zero,
            covariance=factor * covariance,
            cause="unknown",
            words="unlike any mistuned run of the sweep",
        )
        for factor in SCATTER
    ]
    apart = [
        Way(
            share=APART / len(OFFSETS),
            mean=zero,
            covariance=covariance + sd**2 * one,
            cause="unknown",
            words="by the same share from the start, unlike any mistuned run of the sweep",
        )
        for sd in OFFSETS
    ]
    jumps = [
        Way(
            share=JUMPS,
            mean=zero,
            covariance=covariance + JUMP**2 * eye,
            cause="instability",
            words="with jumps between points",
        )
    ]
    return [*shaped, *scattered, *apart, *jumps]


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
