"""Quantiles and tail probabilities of Student's t and χ², and mixtures of normals.

The functions of `scipy.special` that those of `scipy.stats` call: to import that module takes
longer than to compute a forecast. Arguments broadcast; degrees of freedom are above 0, and NaN
comes of others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from extrap.laws.base import Array
from extrap.records import Interval

BRACKET_SDS = 10.0
"""Standard deviations within which a quantile of a mixture is searched."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NormalMixture:
    """A mixture of normal distributions.

    Attributes:
        weights: Shape (n,), sum to 1.
        means: Shape (n,).
        sds: Shape (n,).
    """

    weights: Array
    means: Array
    sds: Array

    @property
    def mean(self) -> float:
        """Mean of the mixture."""
        return float(self.weights @ self.means)

    @property
    def sd(self) -> float:
        """Standard deviation of the mixture."""
        variances = self.sds**2 + (self.means - self.mean) ** 2
        return math.sqrt(float(self.weights @ variances))

    def chance_below(self, value: float) -> float:
        """Probability of less than a value."""
        return float(self.weights @ special.ndtr((value - self.means) / self.sds))

    def quantile(self, share: float) -> float:
        """The value that is exceeded with probability 1 − share, which is in (0, 1)."""
        low = float((self.means - BRACKET_SDS * self.sds).min())
        high = float((self.means + BRACKET_SDS * self.sds).max())
        return float(optimize.brentq(lambda value: self.chance_below(value) - share, low, high))

    def interval(self, level: float) -> Interval:
        """Between quantiles that leave as much below as above."""
        return Interval(self.quantile(0.5 - level / 2), self.quantile(0.5 + level / 2))


def t_quantile(p: ArrayLike, dof: ArrayLike) -> Array:
    """Quantile of Student's t at probabilities in (0, 1); `dof` may be `inf`."""
    return np.asarray(special.stdtrit(dof, p))


def t_tail(x: ArrayLike, dof: ArrayLike) -> Array:
    """Probability that Student's t exceeds x; `dof` may be `inf`."""
    return np.asarray(special.stdtr(dof, -np.asarray(x, dtype=float)))


def f_tail(x: ArrayLike, dof: ArrayLike, other_dof: ArrayLike) -> Array:
    """Probability that F exceeds x ≥ 0."""
    return np.asarray(special.fdtrc(dof, other_dof, x))


def chi2_quantile(p: ArrayLike, dof: ArrayLike) -> Array:
    """Quantile of χ² at probabilities in (0, 1)."""
    return np.asarray(2 * special.gammaincinv(np.asarray(dof, dtype=float) / 2, p))


def chi2_tail(x: ArrayLike, dof: ArrayLike) -> Array:
    """Probability that χ² exceeds x ≥ 0."""
    return np.asarray(np.where(np.greater(dof, 0), special.chdtrc(dof, x), np.nan))


def largest_chance(n_runs: int, level: float) -> float:
    """Largest chance of divergence that n runs without one leave open: `1 − (1 − level)^(1/n)`.

    At level .95 about 3 / n, the rule of three.

    References:
        Hanley, Lippman-Hand (1983), If nothing goes wrong, is everything all right?, JAMA 249.
    """
    if n_runs < 1:
        return 1.0
    return float(-math.expm1(math.log1p(-level) / n_runs))
