"""What the tuned values of a configuration say, beside its loss.

Its distance from the optimum is known no better than the optimum is, and the cost of a distance no
better than the excess-loss curve. The loss tells both better: one that shows no excess says that
the optimum is elsewhere, and runs at other values of the same size say where.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from extrap.checking.cases import Case
from extrap.fitting import LossPrediction
from extrap.forecasting import Forecast
from extrap.laws.base import Array
from extrap.records import Interval

COSTLY = 0.005
"""Log excess from which on a value is mistuned."""
COST_SD = 0.35
"""Standard deviation of the log of a cost about what the excess-loss curve says of it."""
OWN_ERROR = 0.15
"""The same for a single configuration beside others of its size, as a share of the cost."""
TINY, MANY = 1e-30, 1e12
"""Guard of a division; degrees of freedom of a normal distribution, near enough."""
MANY_CASES, DECIMALS = 256, 2
"""More configurations of one size than this are distinguished to so many decimals of an octave."""
CHUNK = 512
"""Configurations whose draws are summed at once."""
N_DRAWS = 1024
"""Of where the optimum lies and of how steep the curve is; a power of 2, for Sobol's sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is expected at a configuration's own tuned values, and what its loss makes of it.

    Attributes:
        chance: Probability that its values cost more than half a percent, given the losses.
        cost: What its values cost in log loss, given the losses: the mean.
        p_value: Two-sided, of its loss under what is expected at its own values; None without one.
        expected_pi: Interval of its loss at its own values, at the forecast's level.
    """

    chance: float
    cost: float
    p_value: float | None
    expected_pi: Interval


def weigh_settings(forecast: Forecast, cases: Sequence[Case]) -> list[Settings | None]:
    """The posterior of what the tuned values of every configuration cost.

    With `u = v − u*` octaves from the optimum, `u* ~ t(m, s²)` of the law of the optimum, `g ~
    N(0, .35²)` and h the excess-loss curve, the log deviations of one size are `d_i = c + e^g
    h(u_i) + ε_i`, with c the law's error and ε_i noise. u* and g are drawn; c, which all
    configurations of a size share, is integrated out.

    Args:
        forecast: The forecast.
        cases: The configurations, of any size.

    Returns:
        One per case; None where its values, an optimum or the excess-loss curve are unknown.

    References:
        Ours: importance sampling of a posterior from its prior. Sobol (1967), for the draws.
    """
    found: list[Settings | None] = [None] * len(cases)
    laws = [fit for fit in forecast.tuned_laws.values() if fit is not None]
    if forecast.valley is None or not laws or len(laws) < len(forecast.tuned_laws):
        return found
    by_size: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        if case.octaves and case.excess is not None:
            by_size[case.key].append(i)
    draws = _draws(tuple(fit.dof for fit in laws))
    for members in by_size.values():
        of_size = [cases[i] for i in members]
        for i, settings in zip(members, _of_size(forecast, of_size, draws), strict=True):
            found[i] = settings
    return found


@lru_cache(maxsize=8)
def _draws(dofs: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Standard t of each optimum (n, d), e^g (n,), and ranks of the noise in (0, 1) (n,)."""
    points = stats.qmc.Sobol(len(dofs) + 2, seed=0).random(N_DRAWS)
    points = np.clip(points, 0.5 / N_DRAWS, 1 - 0.5 / N_DRAWS)
    places = np.column_stack([special.stdtrit(d, p) for d, p in zip(dofs, points.T, strict=False)])
    return places, np.exp(COST_SD * special.ndtri(points[:, -2])), points[:, -1]


def _of_size(
    forecast: Forecast, cases: Sequence[Case], draws: tuple[Array, Array, Array]
) -> list[Settings]:
    places, factors, ranks = draws
    size, valley = cases[0].size, forecast.valley
    assert valley is not None
    spread = np.array([forecast.octave_sd(name, size) for name in forecast.runs.tuned])
    given = np.array([case.octaves for case in cases])
    if len(given) > MANY_CASES:
        given = np.round(given, DECIMALS)
    distinct, own = np.unique(given, axis=0, return_inverse=True)
    octaves = (distinct[:, None] - spread * places).reshape(-1, distinct.shape[1])
    costs = valley.excesses(octaves, size).reshape(len(distinct), -1)
    costs = (costs * factors)[own.ravel()]
    off = np.array([_off(case) for case in cases])
    chances, means = _posterior(cases, off, costs)
    found, outcomes = [], {}
    for case, cost, distance, chance, mean, kind in zip(
        cases, costs, off, chances, means, own.ravel(), strict=True
    ):
        key = (int(kind), id(case.law))
        if key not in outcomes:
            sd, dof = _widest(case.law, forecast.level)
            drawn = case.law.log_loss + cost + sd * special.stdtrit(dof, ranks)
            tails = (0.5 - forecast.level / 2, 0.5 + forecast.level / 2)
            outcomes[key] = drawn, Interval(*map(_exp, np.quantile(drawn, tails)))
        drawn, interval = outcomes[key]
        below = float(np.mean(drawn <= case.law.log_loss + distance))
        p_value = None if math.isnan(distance) else 2 * min(below, 1 - below)
        found.append(
            Settings(chance=float(chance), cost=float(mean), p_value=p_value, expected_pi=interval)
        )
    return found


def _off(case: Case) -> float:
    """Log deviation from the law as its seeds correct it; NaN without a loss."""
    if case.log_deviation is None:
        return math.nan
    return case.log_loss + case.log_deviation - case.law.log_loss


def _posterior(cases: Sequence[Case], off: Array, costs: Array) -> tuple[Array, Array]:
    """Of each case the chance that it is costly, and its mean cost, from all plain cases and it.

    The residuals of one size are a multivariate t: independent noise and an error in common.
    """
    noise = np.array([sum(variance for variance, _ in case.law.run) for case in cases])
    common = max(sum(v for v, _ in cases[0].law.curve), TINY)
    dof = min(known for case in cases for _, known in case.law.spreads())
    tells = ~np.isnan(off)
    plain = np.array([case.is_plain for case in cases]) & tells

    def terms(rows: npt.NDArray[np.intp]) -> Array:
        found = np.zeros((4, costs.shape[1]))
        for part in np.array_split(rows, len(rows) // CHUNK + 1):
            variance = noise[part, None] + (OWN_ERROR * costs[part]) ** 2 + TINY
            rest = off[part, None] - costs[part]
            each = 1 / variance, rest / variance, rest**2 / variance, np.log(variance)
            found += np.stack([term.sum(axis=0) for term in each])
        return found

    def weights(total: Array, count: int) -> Array:
        precision, mean, square, log_det = total
        precision = precision + 1 / common
        distance = np.maximum(square - mean**2 / precision, 0.0)
        log_density = -0.5 * (log_det + np.log(precision))
        log_density -= (
            0.5 * (dof + count) * np.log1p(distance / dof) if math.isfinite(dof) else distance / 2
        )
        found = np.exp(log_density - log_density.max())
        return np.asarray(found / found.sum())

    shared = terms(np.flatnonzero(plain))
    of_all = weights(shared, int(plain.sum()))
    chances, means = (costs > COSTLY) @ of_all, costs @ of_all
    for i in np.flatnonzero(tells & ~plain):
        own = weights(shared + terms(np.array([i])), int(plain.sum()) + 1)
        chances[i], means[i] = own @ (costs[i] > COSTLY), own @ costs[i]
    return chances, means


def _widest(prediction: LossPrediction, level: float) -> tuple[float, float]:
    """The standard deviation and degrees of freedom that make the interval."""
    spreads = [(sd, min(dof, MANY)) for sd, dof in prediction.spreads()]
    return max(spreads, key=lambda each: each[0] * special.stdtrit(each[1], 0.5 + level / 2))


def _exp(log_value: float) -> float | None:
    try:
        return math.exp(log_value)
    except OverflowError:
        return None
