"""How an optimum moves with size: a Gaussian process with spreads weighed by their evidence.

The probabilities of the spreads were chosen by the log scores of optima of published tables, one
source left out at a time (`python -m benchmarks.optimum_laws`), as far as the intervals of bent
and scattered laws hold (`python -m benchmarks.tuned_values --draws 7 --only mixed`). Less scatter
scores better on every source but one, where it makes no difference; fewer bends score worse on one
and better on all others, and stay.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from extrap.laws.base import Array

Probabilities = Sequence[tuple[float, float]]
"""Standard deviations, each with its prior probability."""
LEVEL_SD, SLOPE_SD = 3.0, 0.6
"""Prior standard deviations of the level, in octaves about the best cells, and of a slope, in
octaves per doubling."""
OPTIMUM_BEND_SDS = ((0.003, 0.65), (0.08, 0.25), (0.2, 0.1))
"""Standard deviation of a bend, in octaves a doubling², and its prior probability."""
SEVERAL_BEND_SDS = (
    ((0.003, 0.0), 0.5),
    ((0.08, 0.0), 0.15),
    ((0.2, 0.0), 0.05),
    ((0.0, 0.08), 0.2),
    ((0.0, 0.2), 0.1),
)
"""The same of several size columns: of a bend along their mean, and of one of each column and of
each product of two. Without the latter, 75 % of 90 % intervals at 16 times the tokens held in
simulated sweeps, with it 84 % (`python -m benchmarks.horizons --draws development`, LOG.md)."""
WALKS = ((0.0, 0.8), (0.25, 0.2))
"""Standard deviation of the steps of a slope that varies, as at a kink; its prior probability."""
SCATTER_SDS = ((0.03, 0.47), (0.1, 0.34), (0.25, 0.15), (0.5, 0.04))
"""Standard deviation of an optimum about its law, in octaves, and its prior probability."""
SHARED = ((0.0, 0.3), (0.1, 0.45), (0.3, 0.25))
"""Standard deviation of what optima at one value of a size column share, where there are several
size columns; its prior probability."""
SAME_VALUE_OCTAVES = 0.07
"""Octaves within which two values of a size column are one."""
LEAST_VARIANCE = 1e-8


class Spreads(NamedTuple):
    """Standard deviations of the parts of the process, in octaves; see the constants above."""

    bend: float
    scatter: float
    shared: float
    walk: float
    column_bend: float = 0.0


FIRST = Spreads(bend=0.06, scatter=0.12, shared=0.05, walk=0.0)
"""Spreads of the first search for the mode."""


class OptimumProcess:
    """The prior of the optima of one tuned column.

    Args:
        log_sizes: log2 of the fitted sizes, (S, C).
        pinned: Slopes that are given, and taken off the optima, (C,); NaN where they are not. By
            default none is given.

    Attributes:
        grid: Spreads that are weighed.
        prior_probabilities: Of each of them, (G,).
        covariances: Of the fitted optima under each of them, (G, S, S).

    References:
        Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, 2.7 (explicit basis
        functions), 6.3 (integrated walks); the choice of parts is ours.
    """

    def __init__(
        self,
        log_sizes: Array,
        pinned: Array | None = None,
        *,
        slope_sd: float = SLOPE_SD,
        shared: Probabilities | None = None,
    ) -> None:
        self._sizes, self._middle = log_sizes, log_sizes.mean(axis=0)
        is_free = np.ones(log_sizes.shape[1]) if pinned is None else np.isnan(pinned)
        self._slope_variances = slope_sd**2 * is_free
        ordered = [np.sort(column) for column in log_sizes.T]
        self._steps = [c[np.diff(c, prepend=-np.inf) > SAME_VALUE_OCTAVES] for c in ordered]
        several = SHARED if shared is None else shared
        pairs = several if log_sizes.shape[1] > 1 else ((0.0, 1.0),)
        bends = SEVERAL_BEND_SDS if log_sizes.shape[1] > 1 else _of_one(OPTIMUM_BEND_SDS)
        choices = list(itertools.product(bends, SCATTER_SDS, pairs, WALKS))
        self.grid = [
            Spreads(bend, scatter, shared_sd, walk, column_bend)
            for ((bend, column_bend), _), (scatter, _), (shared_sd, _), (walk, _) in choices
        ]
        probabilities = [np.prod([p for _, p in choice]) for choice in choices]
        self.prior_probabilities = np.array(probabilities, dtype=float)
        self._parts = self._parts_between(self._sizes, self._sizes, math.inf)
        scatter = np.array([spreads.scatter**2 for spreads in self.grid])
        self.covariances = _summed(self._parts, self.grid)
        self.covariances += scatter[:, None, None] * np.eye(len(log_sizes))

    def prior(self, spreads: Spreads, start: float = math.inf) -> Array:
        """Covariance of the fitted optima, (S, S); `start` as in `covariance`."""
        scatter = spreads.scatter**2 * np.eye(len(self._sizes))
        return self.covariance(self._sizes, self._sizes, spreads, start) + scatter

    def covariance(self, a: Array, b: Array, spreads: Spreads, start: float = math.inf) -> Array:
        """Between laws at sizes a (n, C) and b (m, C): without the scatter about the law.

        Args:
            a: log2 of sizes.
            b: The same.
            spreads: Of the parts of the process.
            start: Mean log2 size at which a slope begins to wander, at most that of the smallest
                fitted size.
        """
        return _summed(self._parts_between(a, b, start), [spreads])[0]

    def covariances_between(self, a: Array, b: Array, start: float = math.inf) -> Array:
        """As `covariance`, under each of the spreads of the grid, (G, n, m)."""
        return _summed(self._parts_between(a, b, start), self.grid)

    def _parts_between(self, a: Array, b: Array, start: float) -> Array:
        """What the parts of the process contribute at spreads of 1, (5, n, m): see `_summed`."""
        a, b = a - self._middle, b - self._middle
        mean_a, mean_b = a.mean(axis=1), b.mean(axis=1)
        line = LEVEL_SD**2 + (a * self._slope_variances) @ b.T
        levels = zip(self._levels(a), self._levels(b), strict=True)
        shared = sum((p[:, None] == q[None]).astype(float) for p, q in levels)
        # once integrated: the slope wanders
        first = min(self._sizes.mean(axis=1).min(), start) - self._middle.mean()
        p = np.minimum.outer(mean_a - first, mean_b - first)
        q = np.maximum.outer(mean_a - first, mean_b - first)
        bend, of_columns = np.outer(mean_a**2, mean_b**2), (a @ b.T / a.shape[1]) ** 2
        return np.array([line, bend, shared, p**2 * (q / 2 - p / 6), of_columns])

    def _levels(self, centred: Array) -> Iterator[Array]:
        """Of each column the fitted value that a size has, or a number of its own."""
        for fitted, values in zip(self._steps, (centred + self._middle).T, strict=True):
            nearest = np.abs(values[:, None] - fitted).argmin(axis=1)
            yield np.where(np.abs(values - fitted[nearest]) < SAME_VALUE_OCTAVES, nearest, values)

    def weigh(self, information: Array, pull: Array, centre: float) -> Array:
        """Posterior probability of each of the spreads, by `exp(−u′ I u / 2 + pull′ u)`.

        Args:
            information: What the runs say of the fitted optima, (S, S).
            pull: Where to, (S,).
            centre: Mean of the process.
        """
        toward = pull - information @ np.full(len(self._sizes), centre)
        system = np.eye(len(self._sizes)) + self.covariances @ information
        fitted = np.linalg.solve(system, (self.covariances @ toward)[..., None])[..., 0]
        log_det = np.linalg.slogdet(system)[1]
        logs = np.log(self.prior_probabilities) - 0.5 * log_det + 0.5 * fitted @ toward
        return np.asarray(special.softmax(logs))

    def beyond_each(self, target: Array, choices: Sequence[Spreads]) -> tuple[Array, Array]:
        """`beyond` of one target, (C,), under several spreads: weights (G, S), sds (G,)."""
        start, sizes = float(target.mean()), self._sizes
        cross = _summed(self._parts_between(target[None], sizes, start), choices)[:, 0]
        alone = _summed(self._parts_between(target[None], target[None], start), choices)[:, 0, 0]
        scatter = np.array([spreads.scatter**2 for spreads in choices])
        prior = _summed(self._parts_between(sizes, sizes, start), choices)
        prior += scatter[:, None, None] * np.eye(len(sizes))
        weights = np.linalg.solve(prior, cross[..., None])[..., 0]
        left = alone + scatter - (weights * cross).sum(axis=1)
        return np.asarray(weights), np.asarray(np.sqrt(np.maximum(left, LEAST_VARIANCE)))

    def beyond(self, targets: Array, spreads: Spreads) -> tuple[Array, Array]:
        """Weights (T, S) of the fitted optima at targets (T, C), and the sd given them, (T,)."""
        start = float(targets.mean(axis=1).min())
        cross = self.covariance(targets, self._sizes, spreads, start)
        weights = np.linalg.solve(self.prior(spreads, start), cross.T).T
        alone = np.diag(self.covariance(targets, targets, spreads, start))
        left = alone + spreads.scatter**2 - (weights * cross).sum(axis=1)
        return np.asarray(weights), np.asarray(np.sqrt(np.maximum(left, LEAST_VARIANCE)))


def _summed(parts: Array, choices: Sequence[Spreads]) -> Array:
    """Covariances (G, n, m) from those of a line, bends, what sizes share and a walk."""
    sds = [(1.0, s.bend, s.shared, s.walk, s.column_bend) for s in choices]
    return np.tensordot(np.square(sds), parts, axes=1)


def _of_one(bends: Probabilities) -> list[tuple[tuple[float, float], float]]:
    """Bends of a single size column, which are alike along it and of it."""
    return [((sd, 0.0), probability) for sd, probability in bends]
