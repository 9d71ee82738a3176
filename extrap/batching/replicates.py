"""Replicates of a batch size: one fit to all of them, or to their means where these disagree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from extrap.batching.hyperbola import HyperbolaFit, Steps, fit_hyperbola
from extrap.batching.results import BatchPoint

DOUBT = 0.05
"""p-value below which replicates contradict the hyperbola."""
CAUTION = 0.25
"""p-value below which means are fitted: with few replicates the test misses many a misfit. At .05
intervals of 95 % held 87 %, with 2 % within batch sizes and 3 % between them; at .25, 94 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsFit:
    """A hyperbola through batch sizes with replicates.

    Attributes:
        fitted: The fit.
        log_sd: Standard deviation of ln S of one measurement.
        lack_of_fit_p: p-value of the hyperbola against replicates; None without any.
    """

    fitted: HyperbolaFit
    log_sd: float
    lack_of_fit_p: float | None

    @property
    def is_doubtful(self) -> bool:
        """Whether the replicates contradict the hyperbola."""
        return self.lack_of_fit_p is not None and self.lack_of_fit_p < DOUBT


def fit_points(points: Sequence[BatchPoint], *, level: float) -> PointsFit:
    """Fit all measurements, or the means of batch sizes if they scatter more than replicates do.

    Censored measurements have no mean, so with any of them all measurements are fitted.

    Args:
        points: At least three measurements that reached the target, at two batch sizes or more.
        level: Of the region.
    """
    reached = [point for point in points if point.values]
    p_value = _lack_of_fit(reached)
    fitted = fit_hyperbola(Steps.of(points), level=level)
    whole = PointsFit(fitted=fitted, log_sd=fitted.log_sd, lack_of_fit_p=p_value)
    if p_value is None or p_value >= CAUTION or any(point.bounds for point in points):
        return whole
    return _fit_means(reached, p_value, level=level)


def _fit_means(reached: Sequence[BatchPoint], p_value: float | None, *, level: float) -> PointsFit:
    means = [BatchPoint(batch=p.batch, values=(p.steps or math.nan,)) for p in reached]
    fitted = fit_hyperbola(Steps.of(means), level=level)
    pure, dof = _pure_error(reached)
    within = pure / dof
    share = float(np.mean([1 / len(p.values) for p in reached]))
    return PointsFit(
        fitted=fitted,
        log_sd=math.sqrt(fitted.log_sd**2 + within * (1 - share)),
        lack_of_fit_p=p_value,
    )


def _pure_error(reached: Sequence[BatchPoint]) -> tuple[float, int]:
    """Sum of squares within batch sizes, and its degrees of freedom."""
    logs = [np.log(point.values) for point in reached]
    squares = sum(float(((y - y.mean()) ** 2).sum()) for y in logs)
    return squares, sum(len(y) - 1 for y in logs)


def _lack_of_fit(reached: Sequence[BatchPoint]) -> float | None:
    """p-value of the F test of the hyperbola against replicates; None without any."""
    pure, pure_dof = _pure_error(reached)
    dof = len(reached) - 2
    if pure_dof < 1 or dof < 1 or pure <= 0:
        return None
    fitted = fit_hyperbola(Steps.of([_alone(point) for point in reached]), level=0.5)
    rest = max(fitted.log_sd**2 * fitted.dof - pure, 0.0)
    return float(stats.f.sf(rest / dof / (pure / pure_dof), dof, pure_dof))


def _alone(point: BatchPoint) -> BatchPoint:
    """A batch size without the measurements that did not reach the target."""
    return BatchPoint(batch=point.batch, values=point.values)
