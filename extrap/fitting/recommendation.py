"""The tuned values to run with: not where the optimum most likely is, but what costs least."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from extrap.fitting.distributions import t_quantile
from extrap.fitting.divergence import DivergenceModel
from extrap.fitting.spread import DIVERGED_EXCESS, OptimumSpread
from extrap.laws.base import Array
from extrap.records import Recommendation

WITHIN = 0.975
"""Quantile of where the optimum may lie, either side, within which a value is recommended."""


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
        at_optimum=cost(start),
        chance_of_divergence=None if divergence is None else divergence.chance(spread.size, best),
    )
