"""Where the optimum of a size may lie: the laws of the tuned values with their uncertainty."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from extrap.fitting.distributions import t_quantile
from extrap.fitting.loss_law import predict_log, relative_sizes
from extrap.laws.base import Array
from extrap.records import Fit

POINTS = 1000
"""At most about so many points stand for the distribution, an equal number a tuned column."""
POINTS_A_COLUMN = 101


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimumSpread:
    """Predictive distribution of an optimum: independent Student t in log2 of each tuned value.

    Attributes:
        tuned: Tuned columns.
        centre: log2 of the predicted optimum.
        sd: Scale in octaves: that of the law's curve and of one optimum about it.
        dof: Degrees of freedom.
    """

    tuned: tuple[str, ...]
    centre: tuple[float, ...]
    sd: tuple[float, ...]
    dof: tuple[int, ...]

    def nodes(self) -> tuple[Array, Array]:
        """Possible optima in octaves from the centre, (n_points, n_tuned), and their weights.

        Gauss–Legendre quadrature of the probability of each column, which goes far into the
        tails; columns are independent. Weights sum to 1.
        """
        d = len(self.tuned)
        n = min(POINTS_A_COLUMN, max(3, round(POINTS ** (1 / d))))
        axes = [sd * _quantiles(n, dof) for sd, dof in zip(self.sd, self.dof, strict=True)]
        weights = np.array(list(itertools.product(_rule(n)[1], repeat=d))).prod(axis=1)
        return np.array(list(itertools.product(*axes))), weights

    def alone(self, name: str) -> OptimumSpread:
        """The same for one tuned column, whatever the others."""
        i = self.tuned.index(name)
        return OptimumSpread(
            tuned=(name,), centre=(self.centre[i],), sd=(self.sd[i],), dof=(self.dof[i],)
        )


@cache
def _rule(n: int) -> tuple[Array, Array]:
    """Probabilities and weights of Gauss–Legendre quadrature in [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(n)
    return (x + 1) / 2, w / 2


@lru_cache(256)
def _quantiles(n: int, dof: int) -> Array:
    """Student's t there."""
    return np.asarray(t_quantile(_rule(n)[0], dof))


def predict_optimum(laws: Mapping[str, Fit], size: Mapping[str, float]) -> OptimumSpread:
    """The optimum at a size, from the law of every tuned value.

    Args:
        laws: Tuned column → its law, from `fit_optimum_law`.
        size: Size column → value.
    """
    centre, sd = [], []
    for law in laws.values():
        mean, se = (float(part[0]) for part in predict_log(law, relative_sizes(law, size)))
        centre.append(mean / math.log(2))
        sd.append(math.hypot(se, law.scatter) / math.log(2))
    return OptimumSpread(
        tuned=tuple(laws),
        centre=tuple(centre),
        sd=tuple(sd),
        dof=tuple(law.dof for law in laws.values()),
    )
