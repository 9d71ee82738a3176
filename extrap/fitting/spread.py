"""Where the optimum of a size may lie, what tuned values cost there, and which to run with.

One sample of possible optima per size answers every question about it: which values to recommend,
what kept ones cost, what a published rule costs, and whether the law says enough to be given.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
from scipy import optimize

from extrap.fitting.distributions import t_quantile
from extrap.fitting.divergence import DivergenceModel
from extrap.fitting.excess_curve import ExcessCurve
from extrap.fitting.loss_law import predict_log, relative_sizes
from extrap.laws.base import Array
from extrap.records import Fit, Recommendation

POINTS = 1000
"""At most about so many points stand for the distribution, an equal number a tuned column."""
POINTS_A_COLUMN = 101
DIVERGED_EXCESS = 1.0
"""Log excess that a diverged run counts as: a loss e times too high, about that of a network
before training. No run counts as more."""
N_EXCESSES = 100
"""Groups of equal probability of what a run may lose."""
WITHIN = 0.975
"""Quantile of where the optimum may lie, either side, within which a value is recommended."""


@dataclass(frozen=True, kw_only=True)
class OptimumSpread:
    """Predictive distribution of an optimum: independent Student t in log2 of each tuned value.

    Attributes:
        size: Size column → value.
        tuned: Tuned columns.
        centre: log2 of the predicted optimum.
        sd: Scale in octaves: that of the law's curve and of one optimum about it.
        dof: Degrees of freedom.
        excess_curve: What a distance from the optimum costs, of just these columns; None if it is
            unknown.
    """

    size: Mapping[str, float]
    tuned: tuple[str, ...]
    centre: tuple[float, ...]
    sd: tuple[float, ...]
    dof: tuple[int, ...]
    excess_curve: ExcessCurve | None = None

    @cached_property
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

    def octaves(self, tuned: Mapping[str, float]) -> Array:
        """log2(value / predicted optimum) of each tuned value, (n_tuned,); 0 if not given."""
        return np.array(
            [
                math.log2(tuned[name]) - centre if name in tuned else 0.0
                for name, centre in zip(self.tuned, self.centre, strict=True)
            ]
        )

    def excesses(self, octaves: Array) -> Array:
        """Log excess of a run at a distance from the centre, one per possible optimum.

        Args:
            octaves: The distance, (n_tuned,).

        Raises:
            ValueError: The excess-loss curve is unknown, or one of other tuned columns.
        """
        if self.excess_curve is None or self.excess_curve.tuned != self.tuned:
            curve = () if self.excess_curve is None else self.excess_curve.tuned
            raise ValueError(
                f"a cost needs the laws and the excess-loss curve of the same tuned columns, got "
                f"{', '.join(self.tuned) or 'none'} and {', '.join(curve) or 'none'}."
            )
        return self.excess_curve.excesses(octaves - self.nodes[0], self.size)

    def mean_excess(self, octaves: Array) -> float:
        """Mean log excess at a distance from the centre, (n_tuned,), none above a diverged run's.

        Raises:
            ValueError: As `excesses`.
        """
        return float(self.nodes[1] @ np.minimum(self.excesses(octaves), DIVERGED_EXCESS))

    def possible_excesses(self) -> tuple[tuple[float, float], ...]:
        """What a run at the predicted optimum may lose by the optimum's being elsewhere.

        Returns:
            `(log excess, probability)`, at most `N_EXCESSES` of them.

        Raises:
            ValueError: As `excesses`.
        """
        weights = self.nodes[1]
        excess = np.minimum(self.excesses(np.zeros(len(self.tuned))), DIVERGED_EXCESS)
        order = np.argsort(excess, kind="stable")
        parts = np.minimum(np.cumsum(weights[order]) * N_EXCESSES, N_EXCESSES - 1).astype(int)
        shares = np.bincount(parts, weights[order], N_EXCESSES)
        sums = np.bincount(parts, (weights * excess)[order], N_EXCESSES)
        pairs = zip(sums, shares, strict=True)
        return tuple((float(e / w), float(w)) for e, w in pairs if w > 0)


def predict_optimum(
    laws: Mapping[str, Fit], size: Mapping[str, float], excess_curve: ExcessCurve | None = None
) -> OptimumSpread:
    """The optimum at a size, from the law of every tuned value.

    Args:
        laws: Tuned column → its law, from `fit_optimum_law`.
        size: Size column → value.
        excess_curve: What a distance from the optimum costs, its columns in the order of the laws.
    """
    centre, sd = [], []
    for law in laws.values():
        mean, se = (float(part[0]) for part in predict_log(law, relative_sizes(law, size)))
        centre.append(mean / math.log(2))
        sd.append(math.hypot(se, law.scatter) / math.log(2))
    return OptimumSpread(
        size=dict(size),
        tuned=tuple(laws),
        centre=tuple(centre),
        sd=tuple(sd),
        dof=tuple(law.dof for law in laws.values()),
        excess_curve=excess_curve,
    )


def recommend(
    spread: OptimumSpread, *, divergence: DivergenceModel | None = None
) -> Recommendation:
    """The tuned values that minimise the expected log loss at one size.

    `E(v) = (1 − p(v)) · Σ_i w_i min(h(log2 v − o_i), d) + p(v) · d`, h the curve, over the optima
    `o_i` of probability `w_i`, with `p` the chance of divergence and `d` the cost of a diverged
    run, `DIVERGED_EXCESS`. All tuned values are chosen together. Where high values cost more than
    low ones the minimum lies below the optimum, and the further the less is known; it stays within
    the 95 % interval of the optimum, because a few diverged runs tell little of values far below
    them.

    Args:
        spread: Where the optimum may lie, with its excess-loss curve.
        divergence: Chance of divergence; without it none is assumed.

    Raises:
        ValueError: As `OptimumSpread.excesses`.

    References:
        Ours: the Bayes decision under the predictive distribution of the optimum.
    """
    centre = np.asarray(spread.centre)
    reach = t_quantile(WITHIN, spread.dof) * spread.sd

    def cost(octaves: Array) -> float:
        if np.any(np.abs(octaves) > reach):  # a wall that keeps the simplex within
            return float(DIVERGED_EXCESS * (1 + np.abs(octaves).max()))
        excess = spread.mean_excess(octaves)
        if divergence is None:
            return excess
        p = float(divergence.chances(spread.size, (centre + octaves)[None])[0])
        return (1 - p) * excess + p * DIVERGED_EXCESS

    start = np.zeros(len(centre))
    # a simplex: the expectation over points has a kink wherever one of them meets the ceiling
    simplex = np.vstack([start, start - 0.5 * np.eye(len(centre))])
    found = optimize.minimize(
        cost,
        start,
        method="Nelder-Mead",
        options={"xatol": 1e-4, "fatol": 1e-12, "initial_simplex": simplex},
    )
    octaves = np.asarray(found.x) if found.fun < cost(start) else start
    best = dict(zip(spread.tuned, map(float, 2.0 ** (centre + octaves)), strict=True))
    return Recommendation(
        size=spread.size,
        tuned=best,
        octaves=dict(zip(spread.tuned, map(float, octaves), strict=True)),
        expected_excess=cost(octaves),
        expected_cost=spread.mean_excess(octaves),
        at_optimum=cost(start),
        chance_of_divergence=None if divergence is None else divergence.chance(spread.size, best),
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
