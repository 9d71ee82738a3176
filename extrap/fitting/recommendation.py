"""The tuned values to run with: not where the optimum most likely is, but what costs least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from extrap.fitting.distributions import t_quantile
from extrap.fitting.divergence import DivergenceModel
from extrap.fitting.excess_curve import ExcessCurve
from extrap.fitting.spread import OptimumSpread, predict_optimum
from extrap.laws.base import Array
from extrap.records import Fit

DIVERGED_EXCESS = 1.0
"""Log excess that a diverged run counts as: a loss e times too high, about that of a network
before training. No run counts as more."""
N_EXCESSES = 100
"""Groups of equal probability of what a run may lose."""
WITHIN = 0.975
"""Quantile of where the optimum may lie, either side, within which a value is recommended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """Tuned values of smallest expected loss at one size, and what they save.

    Attributes:
        size: Size column → value.
        tuned: Tuned column → recommended value.
        octaves: Tuned column → log2(recommended / optimum); negative below it.
        expected_excess: Expected log excess there, over where the optimum may lie and over
            divergence.
        at_optimum: The same at the predicted optimum.
        chance_of_divergence: At the recommended values; None if it is not modelled.
    """

    size: Mapping[str, float]
    tuned: Mapping[str, float]
    octaves: Mapping[str, float]
    expected_excess: float
    at_optimum: float
    chance_of_divergence: float | None


def recommend(
    laws: Mapping[str, Fit],
    size: Mapping[str, float],
    *,
    excess_curve: ExcessCurve,
    divergence: DivergenceModel | None = None,
    diverged_excess: float = DIVERGED_EXCESS,
) -> Recommendation:
    """The tuned values that minimise the expected log loss at one size.

    `E(v) = (1 − p(v)) · Σ_i w_i min(h(log2 v − o_i), d) + p(v) · d`, h the curve, over the optima
    `o_i` of probability `w_i`, with `p` the chance of divergence and `d` the cost of a diverged
    run. All tuned values are chosen together. Where high values cost more than low ones the
    minimum lies below the optimum, and the further the less is known; it stays within the 95 %
    interval of the optimum, because a few diverged runs tell little of values far below them.

    Args:
        laws: Tuned column → law of its optimum, in the excess-loss curve's order.
        size: Size column → value.
        excess_curve: What a distance from the optimum costs.
        divergence: Chance of divergence; without it none is assumed.
        diverged_excess: Log excess `d` that a diverged run counts as.

    Raises:
        ValueError: The laws are not those of the excess-loss curve's tuned columns, or the cost is
            not positive.

    References:
        Ours: the Bayes decision under the predictive distribution of the optimum.
    """
    if tuple(laws) != excess_curve.tuned:
        raise ValueError(
            f"a recommendation needs the laws of {', '.join(excess_curve.tuned)}, got "
            f"{', '.join(laws) or 'none'}; pass one law per tuned column."
        )
    if not diverged_excess > 0:
        raise ValueError(
            "a diverged run must have a cost above 0, got a log excess of "
            f"{diverged_excess:g}; use the log of the untrained loss over the expected "
            "loss."
        )
    spread = predict_optimum(laws, size)
    nodes, centre = spread.nodes(), np.asarray(spread.centre)
    reach = t_quantile(WITHIN, spread.dof) * spread.sd

    def cost(octaves: Array) -> float:
        if np.any(np.abs(octaves) > reach):  # a wall that keeps the simplex within
            return float(diverged_excess * (1 + np.abs(octaves).max()))
        excess = mean_excess(octaves, nodes, excess_curve, size, diverged_excess)
        if divergence is None:
            return excess
        p = float(divergence.chances(size, (centre + octaves)[None])[0])
        return (1 - p) * excess + p * diverged_excess

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
        size=dict(size),
        tuned=best,
        octaves=dict(zip(spread.tuned, map(float, octaves), strict=True)),
        expected_excess=cost(octaves),
        at_optimum=cost(start),
        chance_of_divergence=None if divergence is None else divergence.chance(size, best),
    )


def expected_excess(
    spread: OptimumSpread,
    tuned: Mapping[str, float],
    size: Mapping[str, float],
    *,
    excess_curve: ExcessCurve,
) -> float:
    """Mean log excess at given tuned values over where the optimum may lie; no divergence.

    Tuned values that are not given are taken at their predicted optimum.
    """
    centre = np.asarray(spread.centre)
    at = np.array(
        [
            np.log2(tuned[name]) if name in tuned else c
            for name, c in zip(spread.tuned, centre, strict=True)
        ]
    )
    return mean_excess(at - centre, spread.nodes(), excess_curve, size, DIVERGED_EXCESS)


def possible_excesses(
    spread: OptimumSpread, size: Mapping[str, float], *, excess_curve: ExcessCurve
) -> tuple[tuple[float, float], ...]:
    """What a run at the predicted optimum may lose by the optimum's being elsewhere.

    Returns:
        `(log excess, probability)`, at most `N_EXCESSES` of them.
    """
    offsets, weights = spread.nodes()
    excess = np.minimum(excess_curve.excesses(-offsets, size), DIVERGED_EXCESS)
    order = np.argsort(excess, kind="stable")
    parts = np.minimum(np.cumsum(weights[order]) * N_EXCESSES, N_EXCESSES - 1).astype(int)
    shares = np.bincount(parts, weights[order], N_EXCESSES)
    sums = np.bincount(parts, (weights * excess)[order], N_EXCESSES)
    return tuple((float(e / w), float(w)) for e, w in zip(sums, shares, strict=True) if w > 0)


def mean_excess(
    octaves: Array,
    nodes: tuple[Array, Array],
    excess_curve: ExcessCurve,
    size: Mapping[str, float],
    ceiling: float,
) -> float:
    """Mean log excess over possible optima, none above a ceiling."""
    offsets, weights = nodes
    return float(weights @ np.minimum(excess_curve.excesses(octaves - offsets, size), ceiling))
