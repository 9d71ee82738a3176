"""The predictive distribution of a loss at one size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from extrap.laws.base import Array
from extrap.records import Interval

Component = tuple[float, float]
"""A variance of a log loss, and the degrees of freedom behind it."""
SMALLEST_SD = 1e-12
"""Standard deviation of a log loss below which only rounding is left."""
NORMAL_DOF = 1e12
"""Degrees of freedom of a normal distribution, near enough."""
FAR_OUT = 50.0
"""Standard deviations within which the end of an interval is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossPrediction:
    """The predictive distribution of a log loss: Student t around `log_loss`.

    Variances come in components, each known with its own degrees of freedom; those with the same
    degrees of freedom rest on the same residuals and are one estimate. A run at values that may
    not be the best ones can only be worse for that: `excess` moves the upper end of its interval,
    never the lower one.

    Attributes:
        log_loss: Centre.
        curve: `(variance, degrees of freedom)` of where the law's curve is.
        run: The same for what a new run adds to it.
        excess: `(log excess, probability)` of a new run's values, log excesses ≥ 0, probabilities
            that sum to 1; empty for the best values.
    """

    log_loss: float
    curve: tuple[Component, ...]
    run: tuple[Component, ...]
    excess: tuple[tuple[float, float], ...] = ()

    def interval(self, level: float, *, new_run: bool) -> Interval:
        """The loss interval `exp(log_loss ± t sd)`: of one new run, or of the curve."""
        tuned = Interval.around_log(self.log_loss, self.half_width(level, new_run=new_run))
        reach = FAR_OUT * self.half_width(level, new_run=True)
        if not (new_run and self.excess and math.isfinite(reach)):
            return tuned
        reach += max(excess for excess, _ in self.excess)
        spreads = self.spreads()

        def beyond(off: float) -> float:
            return float(self._chance_above(np.array([off]), spreads)[0]) - (1 - level) / 2

        upper = float(optimize.brentq(beyond, 0.0, reach))
        return Interval(tuned.lower, Interval.around_log(self.log_loss, upper).upper)

    def interval_at_values(self, level: float) -> Interval:
        """The interval of a run whose values cost `excess`, which moves both of its ends."""
        reach = FAR_OUT * self.half_width(level, new_run=True)
        last = max((excess for excess, _ in self.excess), default=0.0)
        if not (self.excess and math.isfinite(reach)):
            return self.interval(level, new_run=True)
        excess, weights = np.array(self.excess).T
        tail = (1 - level) / 2

        def beyond(off: float, side: float) -> float:
            return tail - max(
                float(special.stdtr(min(dof, NORMAL_DOF), side * (excess - off) / sd) @ weights)
                for sd, dof in self.spreads()
            )

        low, high = (
            float(optimize.brentq(beyond, -reach, last + reach, args=(side,))) for side in (-1, 1)
        )
        return Interval(math.exp(self.log_loss + low), math.exp(self.log_loss + high))

    def upper_bound(self, level: float) -> Interval:
        """The one-sided interval of a new run, open below; a level below .5 counts as .5."""
        return Interval(None, self.interval(max(2 * level - 1, 0.0), new_run=True).upper)

    def p_worse(self, log_loss: Array) -> Array:
        """One-sided p-values of many log losses, (n,): below 1 − level above `upper_bound`."""
        half = self.p_values(log_loss) / 2
        return np.where(np.asarray(log_loss) > self.log_loss, half, 1 - half)

    def _chance_above(self, off: Array, spreads: Sequence[tuple[float, float]]) -> Array:
        """Probability that a new run's log loss is farther above the centre, shape (n,)."""
        excess, weights = np.array(self.excess).T
        tails = [
            special.stdtr(min(dof, NORMAL_DOF), -(off[:, None] - excess) / sd) @ weights
            for sd, dof in spreads
        ]
        return np.asarray(np.max(tails, axis=0))

    def half_width(self, level: float, *, new_run: bool) -> float:
        """Half the width of the interval of the log loss."""
        quantile, spreads = 0.5 + level / 2, self.spreads(new_run=new_run)
        halves = (float(special.stdtrit(dof, quantile) * sd) for sd, dof in spreads)
        return max(halves, default=0.0)

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

    def p_values(self, log_loss: Array) -> Array:
        """Two-sided p-values of many log losses, each of one new run, shape (n,)."""
        off = np.asarray(log_loss) - self.log_loss
        p_values = np.zeros(off.shape)
        for sd, dof in self.spreads():
            tails = 2 * special.stdtr(min(dof, NORMAL_DOF), -np.abs(off) / sd)
            p_values = np.maximum(p_values, tails)
        above = off > 0
        if self.excess and above.any():
            p_values[above] = np.minimum(2 * self._chance_above(off[above], self.spreads()), 1.0)
        return p_values

    def spreads(self, *, new_run: bool = True) -> list[tuple[float, float]]:
        """Standard deviations of a log loss with their degrees of freedom (Satterthwaite 1946).

        A component that is hardly known (few degrees of freedom) must not get better known by
        adding others, as Satterthwaite's formula has it: each sum of the least known ones counts,
        and the widest interval wins.
        """
        spreads = []
        for parts in [self.curve, self.curve + self.run][: 1 + new_run]:
            estimates: dict[float, float] = {}
            for variance, dof in parts:
                estimates[dof] = estimates.get(dof, 0.0) + variance
            total = satterthwaite = 0.0
            for dof, variance in sorted(estimates.items()):
                total, satterthwaite = total + variance, satterthwaite + variance**2 / dof
                dof_of_sum = total**2 / satterthwaite if satterthwaite > 0 else math.inf
                spreads.append((max(math.sqrt(total), SMALLEST_SD), dof_of_sum))
        return spreads
