"""Divergence of the runs of a sweep: a threshold with a law of its own, one trial per cell."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from extrap.fitting.surface.parameters import Places
from extrap.fitting.surface.sweep_arrays import CELL_DECIMALS, SweepArrays
from extrap.laws.base import Array

SATURATED_LOG_ODDS = 30.0
"""Log odds beyond which nothing changes any more."""
LOG_WIDTH_LIMITS = (-5.0, 2.0)
"""Limits of ln width in draws."""


class Divergences:
    """Distinct sizes and values of a sweep, and the share of their runs that diverged.

    Attributes:
        main: The column along which runs diverge most plainly; the first where no size has both
            runs that diverged and runs that did not.
        side: 1 where its large values do, else −1.
        share: Of the runs of each distinct choice that diverged, (n,).

    Args:
        sweep: Runs.
        centre: log2 values from which thresholds are counted, (D,).
    """

    def __init__(self, sweep: SweepArrays, centre: Array) -> None:
        key = np.column_stack([sweep.size, np.round(sweep.values, CELL_DECIMALS)])
        _, first, number = np.unique(key, axis=0, return_index=True, return_inverse=True)
        self.share = np.bincount(number.ravel(), sweep.diverged) / np.bincount(number.ravel())
        self._size, self._values = sweep.size[first], sweep.values[first] - centre
        self._from_largest = sweep.from_largest
        self.main, self.side = self._plainest(sweep)

    @staticmethod
    def _plainest(sweep: SweepArrays) -> tuple[int, float]:
        sums = np.zeros(sweep.values.shape[1])
        for i in range(len(sweep.log_sizes)):
            here = sweep.size == i
            gone = sweep.diverged[here].astype(float)
            if 0 < gone.sum() < len(gone):
                values = sweep.values[here] - sweep.values[here].mean(axis=0)
                scaled = values / (values.std(axis=0) + 1e-9)
                sums += (gone - gone.mean()) @ scaled / math.sqrt(len(gone))
        main = int(np.argmax(np.abs(sums)))
        return main, 1.0 if sums[main] >= 0 else -1.0

    def at(self, theta: Array, places: Places) -> tuple[float, Array, Array, Array]:
        """Log likelihood; its slope and curvature by the log odds; the slopes of these.

        The slopes are by the parameters of divergence, `Places.divergence`, (n, q).
        """
        row_size, off, steep = self._size, self._values, math.exp(-float(theta[places.width[0]]))
        threshold = (
            theta[places.threshold] + self._from_largest[row_size] @ theta[places.threshold_trend]
        )
        odds = (
            off @ theta[places.lean] - threshold - theta[places.size_threshold][row_size]
        ) * steep
        is_inside = np.abs(odds) < SATURATED_LOG_ODDS
        odds = np.clip(odds, -SATURATED_LOG_ODDS, SATURATED_LOG_ODDS)
        is_own = row_size[:, None] == np.arange(len(places.size_threshold))
        in_order = (-(odds * is_inside)[:, None], off * steep, np.full((len(row_size), 1), -steep))
        slopes = np.column_stack(
            [*in_order, -self._from_largest[row_size] * steep, -steep * is_own]
        )
        p = 1 / (1 + np.exp(-odds))
        log_likelihood = float((self.share * odds - np.logaddexp(0, odds)).sum())
        return log_likelihood, self.share - p, p * (1 - p), slopes

    def step(self, theta: Array, places: Places) -> float:
        """From the threshold of the largest size to where its runs begin to diverge, octaves.

        The mode cannot reach a step by itself: far from a threshold the odds have no slope.
        """
        is_largest = self._size == len(self._from_largest) - 1
        values, share = self._values[is_largest] @ theta[places.lean], self.share[is_largest]
        order = np.argsort(values, kind="stable")
        values, share = values[order], share[order]
        below = np.concatenate([[0.0], np.cumsum(share)])
        above = np.concatenate([np.cumsum((1 - share)[::-1])[::-1], [0.0]])
        edges = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
        edge = edges[int(np.argmin(below + above))]
        now = theta[places.threshold[0]] + theta[places.size_threshold[-1]]
        now += self._from_largest[-1] @ theta[places.threshold_trend]
        return float(edge - now)

    def log_likelihoods(
        self, thetas: Array, places: Places, which: npt.NDArray[np.bool_]
    ) -> Array:
        """Exact log likelihood, (m,), of the choices of the mask `which` at points (m, P)."""
        odds = thetas[:, places.lean] @ self._values[which].T
        threshold = (
            thetas[:, places.threshold] + thetas[:, places.threshold_trend] @ self._from_largest.T
        )
        odds -= (threshold + thetas[:, places.size_threshold])[:, self._size[which]]
        odds *= np.exp(-np.clip(thetas[:, places.width], *LOG_WIDTH_LIMITS))
        return np.asarray(odds @ self.share[which] - np.logaddexp(0, odds).sum(axis=1))
