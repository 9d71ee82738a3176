"""The predictive distribution of a loss at one size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from extrap.laws.base import Array
from extrap.records import Interval

Component = tuple[float, float]
"""A variance of a log loss, and the degrees of freedom behind it."""


SMALLEST_SD, TINY = 1e-12, 1e-300
"""Standard deviation of a log loss below which only rounding is left; guard of a division."""
MANY = 1e12
"""Degrees of freedom of a normal distribution, near enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPrediction:
    """The predictive distribution of a log loss: Student t around `log_loss`.

    Variances come in components, each known with its own degrees of freedom; those with the same
    degrees of freedom rest on the same residuals and are one estimate.

    Attributes:
        log_loss: Centre.
        curve: `(variance, degrees of freedom)` of where the law's curve is.
        run: The same for what a new run adds to it.
    """

    log_loss: float
    curve: tuple[Component, ...]
    run: tuple[Component, ...]

    def interval(self, level: float, *, new_run: bool) -> Interval:
        """The loss interval `exp(log_loss ± t sd)`: of one new run, or of the curve."""
        return Interval.around_log(self.log_loss, self.half_width(level, new_run=new_run))

    def half_width(self, level: float, *, new_run: bool) -> float:
        """Half the width of the interval of the log loss."""
        quantile, spreads = 0.5 + level / 2, self._spreads(new_run)
        return max(float(special.stdtrit(dof, quantile) * sd) for sd, dof in spreads)

    @property
    def log_sd(self) -> float:
        """Standard deviation of the log loss of one new run."""
        return math.sqrt(sum(variance for variance, _ in (*self.curve, *self.run)))

    @property
    def curve_log_sd(self) -> float:
        """Standard deviation of the log of the curve."""
        return math.sqrt(sum(variance for variance, _ in self.curve))

    def p_value(self, loss: float) -> float:
        """Two-sided p-value of the loss of one new run; below 1 − level outside its interval."""
        return float(self.p_values(np.log([loss]))[0])

    def p_values(
        self,
        log_loss: Array,
        *,
        curve_share: Array | float = 1.0,
        run_share: Array | float = 1.0,
    ) -> Array:
        """Two-sided p-values of many log losses, each of one new run or of a mean of some.

        Args:
            log_loss: Log losses, shape (n,); what is known of the curve may be taken off them.
            curve_share: Of the curve's variance, what is left when that is known, shape (n,).
            run_share: Of a run's variance, what a mean leaves of it, shape (n,).
        """
        off = np.abs(np.asarray(log_loss) - self.log_loss)
        curve, run = np.broadcast_to(curve_share, off.shape), np.broadcast_to(run_share, off.shape)
        found = np.zeros(off.shape)
        for sd, dof in self._spreads(True, curve_share=curve, run_share=run):
            found = np.maximum(found, 2 * special.stdtr(np.minimum(dof, MANY), -off / sd))
        return found

    def spreads(self) -> list[tuple[float, float]]:
        """Standard deviations of a new run's log loss, each with its degrees of freedom."""
        return [(float(sd), float(dof)) for sd, dof in self._spreads(True)]

    def _spreads(
        self,
        new_run: bool,
        *,
        curve_share: Array | float = 1.0,
        run_share: Array | float = 1.0,
    ) -> list[tuple[Array, Array]]:
        """Standard deviations with their degrees of freedom (Satterthwaite 1946).

        A component that is hardly known (few degrees of freedom) must not get better known by
        adding others, as Satterthwaite's formula has it: each sum of the least known ones counts,
        and the widest interval wins.
        """
        spreads = []
        curve = [(variance * np.asarray(curve_share), dof) for variance, dof in self.curve]
        run = [(variance * np.asarray(run_share), dof) for variance, dof in self.run]
        for parts in [curve, curve + run][: 1 + new_run]:
            estimates: dict[float, Array] = {}
            for variance, dof in parts:
                estimates[dof] = estimates.get(dof, np.zeros(())) + variance
            total, satterthwaite = np.zeros(()), np.zeros(())
            for dof, variance in sorted(estimates.items()):
                total, satterthwaite = total + variance, satterthwaite + variance**2 / dof
                known = total**2 / np.maximum(satterthwaite, TINY)
                known = np.where(satterthwaite > 0, known, np.inf)
                spreads.append((np.maximum(np.sqrt(total), SMALLEST_SD), known))
        return spreads
