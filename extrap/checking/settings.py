"""What the tuned values of a configuration say, beside its loss.

Its distance from the optimum is known no better than the optimum is, and the cost of a distance no
better than the excess-loss curve. A cost is never negative: a run is expected at the law of tuned
runs or above it. The loss tells more: one that shows no excess says that the optimum is elsewhere,
and runs at other values of the same size say where.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

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
N_COSTS = 64
"""Quantiles of a cost, of equal probability, that stand for its distribution."""
N_HALVINGS = 30
"""Of the bracket around an end of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is expected at a configuration's own tuned values, and what its loss makes of it.

    Attributes:
        chance: Probability that its values cost more than half a percent, and more than the
            recommended ones, given the losses.
        cost: What its values cost in log loss, given the losses: the mean.
        below: Probability of a loss at or below its own, under what is expected at its own values
            whatever the losses; NaN without a loss.
        above: The same of a loss at or above it.
        p_above: The same as a p-value: 1 − level at the upper end of `expected_pi`.
        expected_pi: Interval of its loss at its own values, at the forecast's level. It begins
            where that of tuned runs does and ends higher.
    """

    chance: float
    cost: float
    below: float
    above: float
    p_above: float
    expected_pi: Interval

    @property
    def p_value(self) -> float | None:
        """Two-sided p-value of its loss at its own values; None without a loss."""
        lower = min(self.below, self.above)
        return None if math.isnan(lower) else min(1.0, 2 * lower)


def weigh_settings(forecast: Forecast, cases: Sequence[Case]) -> list[Settings | None]:
    """The posterior of what the tuned values of every configuration cost.

    With `u = v − u*` octaves from the optimum, `u* ~ t(m, s²)` of the law of the optimum, `g ~
    N(0, .35²)` and h the excess-loss curve, the log deviations of one size are `d_i = c + e^g
    h(u_i) + ε_i`, with c the law's error and ε_i noise. u* and g are drawn; c, which all
    configurations of a size share, is integrated out. Where a configuration's values are not
    known, or the optimum is refused, `v = m`.

    Args:
        forecast: The forecast.
        cases: The configurations, of any size.

    Returns:
        One per case; None where a law of the optimum or the excess-loss curve is unknown.

    References:
        Ours: importance sampling of a posterior from its prior. Sobol (1967), for the draws.
    """
    found: list[Settings | None] = [None] * len(cases)
    laws = [fit for fit in forecast.tuned_laws.values() if fit is not None]
    if forecast.excess_curve is None or not laws or len(laws) < len(forecast.tuned_laws):
        return found
    by_size: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        by_size[case.key].append(i)
    draws = _draws(tuple(fit.dof for fit in laws))
    for members in by_size.values():
        of_size = [cases[i] for i in members]
        for i, settings in zip(members, _of_size(forecast, of_size, draws), strict=True):
            found[i] = settings
    return found


@lru_cache(maxsize=8)
def _draws(dofs: tuple[int, ...]) -> tuple[Array, Array]:
    """Standard t of each optimum (n, d), and e^g (n,)."""
    from scipy.stats import qmc  # imported late, as a forecast needs nothing of it

    points = qmc.Sobol(len(dofs) + 1, seed=0).random(N_DRAWS)
    points = np.clip(points, 0.5 / N_DRAWS, 1 - 0.5 / N_DRAWS)
    places = np.column_stack([special.stdtrit(d, p) for d, p in zip(dofs, points.T, strict=False)])
    return places, np.exp(COST_SD * special.ndtri(points[:, -1]))


def _of_size(
    forecast: Forecast, cases: Sequence[Case], draws: tuple[Array, Array]
) -> list[Settings]:
    places, factors = draws
    size, excess_curve = cases[0].size, forecast.excess_curve
    assert excess_curve is not None
    spread = np.array([forecast.octave_sd(name, size) for name in forecast.runs.tuned])
    given = np.array([case.octaves or np.zeros(len(spread)) for case in cases])
    if len(given) > MANY_CASES:
        given = np.round(given, DECIMALS)
    distinct, own = np.unique(given, axis=0, return_inverse=True)
    distinct, own = np.vstack([distinct, cases[0].recommended_octaves]), own.ravel()
    octaves = (distinct[:, None] - spread * places).reshape(-1, distinct.shape[1])
    costs = excess_curve.excesses(octaves, size).reshape(len(distinct), -1) * factors
    costs, at_recommended = costs[:-1], costs[-1]
    quantiles = np.sort(costs, axis=1)[:, N_DRAWS // N_COSTS // 2 :: N_DRAWS // N_COSTS]
    off = np.array([law_deviation(case) for case in cases])
    chances, means = _posterior(cases, off, costs[own], at_recommended)
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, case in enumerate(cases):
        alike[int(own[i]), id(case.law)].append(i)
    found: dict[int, Settings] = {}
    for (kind, _), members in alike.items():
        law, possible = cases[members[0]].law, quantiles[kind]
        spreads = law.spreads()
        below, above = (_tail(spreads, possible, off[members], side=side) for side in (-1, 1))
        interval, most = _interval(law, spreads, possible, forecast.level)
        for i, under, over in zip(members, below, above, strict=True):
            found[i] = Settings(
                chance=float(chances[i]),
                cost=float(means[i]),
                below=float(under),
                above=float(over),
                p_above=min(1.0, float(over) * (1 - forecast.level) / most),
                expected_pi=interval,
            )
    return [found[i] for i in range(len(cases))]


def _tail(spreads: Sequence[tuple[float, float]], costs: Array, off: Array, *, side: int) -> Array:
    """Probability of log losses so far from the law or farther, of runs that have a cost.

    Args:
        spreads: Of tuned runs about the law: standard deviations and degrees of freedom.
        costs: Possible ones, all as likely.
        off: Log losses less the law's, shape (n,).
        side: 1 for a loss above, −1 for one below.
    """
    beyond = side * (costs - off[:, None])
    tails = [special.stdtr(min(dof, MANY), beyond / sd).mean(axis=1) for sd, dof in spreads]
    return np.asarray(np.max(tails, axis=0))


def _interval(
    law: LossPrediction, spreads: Sequence[tuple[float, float]], costs: Array, level: float
) -> tuple[Interval, float]:
    """From the lower end of tuned runs to where it has its level, and the probability above."""
    half = law.half_width(level, new_run=True)
    if not math.isfinite(half):
        return law.interval(level, new_run=True), (1 - level) / 2
    most = 1 - level - float(_tail(spreads, costs, np.array([-half]), side=-1)[0])
    low, high = 0.0, half + float(costs[-1])
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        is_above = _tail(spreads, costs, np.array([middle]), side=1)[0] <= most
        low, high = (low, middle) if is_above else (middle, high)
    return Interval(*(_exp(law.log_loss + end) for end in (-half, high))), most


def law_deviation(case: Case) -> float:
    """Log deviation from the law as its seeds correct it; NaN without a loss."""
    if case.log_deviation is None:
        return math.nan
    return case.log_loss + case.log_deviation - case.law.log_loss


def _posterior(
    cases: Sequence[Case], off: Array, costs: Array, at_recommended: Array
) -> tuple[Array, Array]:
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
    are_costly = (costs > COSTLY) & (costs > at_recommended)
    chances, means = are_costly @ of_all, costs @ of_all
    for i in np.flatnonzero(tells & ~plain):
        own = weights(shared + terms(np.array([i])), int(plain.sum()) + 1)
        chances[i], means[i] = own @ are_costly[i], own @ costs[i]
    return chances, means


def _exp(log_value: float) -> float | None:
    try:
        return math.exp(log_value)
    except OverflowError:
        return None
