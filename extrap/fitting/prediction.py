"""The predictive distribution of a loss at one size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from extrap.records import Interval

__all__ = ["Component", "LossPrediction"]

Component = tuple[float, float]
"""A variance of a log loss, and the degrees of freedom behind it."""


SMALLEST_SD = 1e-12
"""Standard deviation of a log loss below which only rounding is left."""


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
        halves = [
            float(stats.t.ppf(0.5 + level / 2, dof)) * sd for sd, dof in self._spreads(new_run)
        ]
        return Interval.around_log(self.log_loss, max(halves))

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
        off = abs(math.log(loss) - self.log_loss)
        return max(float(2 * stats.t.sf(off / sd, dof)) for sd, dof in self._spreads(True))

    def _spreads(self, new_run: bool) -> list[tuple[float, float]]:
        """Standard deviations with their degrees of freedom (Satterthwaite 1946).

        A component that is hardly known (few degrees of freedom) must not get better known by
        adding others, as Satterthwaite's formula has it: each sum of the least known ones counts,
        and the widest interval wins.
        """
        spreads = []
        for parts in [self.curve, (*self.curve, *self.run)][: 1 + new_run]:
            total = satterthwaite = 0.0
            estimates: dict[float, float] = {}
            for variance, dof in parts:
                estimates[dof] = estimates.get(dof, 0.0) + variance
            for dof, variance in sorted(estimates.items()):
                total, satterthwaite = total + variance, satterthwaite + variance**2 / dof
                known = total**2 / satterthwaite if satterthwaite else math.inf
                spreads.append((max(math.sqrt(total), SMALLEST_SD), known))
        return spreads
