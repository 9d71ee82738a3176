"""Costs of the tuned values of configurations, by their distance and by the losses of the size.

Where the optimum lies and what a distance from it costs is known as well as the draws of the
surface say. A cost is never negative: a run is expected at the law of tuned runs or above it. The
loss says more: one that shows no excess says that the optimum is elsewhere, and runs at other
values of the same size say where.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import special

from extrap.checking.configurations import MAX_EXACT_COSTS, Configuration, TunedCost
from extrap.fitting.prediction import NORMAL_DOF, LossPrediction
from extrap.fitting.surface.tuned_values import TunedValues
from extrap.forecasting import Forecast
from extrap.laws.base import Array
from extrap.records import Interval

MISTUNED_COST = 0.005
"""Log excess from which on a value is mistuned."""
OWN_COST_SD = 0.15
"""Relative standard deviation of the cost of one configuration about that of the surface."""
MIN_VARIANCE = 1e-30
"""Guard of a division."""
CONFIGURATIONS_AT_ONCE = 512
"""Configurations whose draws are summed at once."""
N_QUANTILES = 64
"""Number of equally probable quantiles that represent the distribution of a cost."""
N_HALVINGS = 30
"""Number of bisections of the bracket around the end of an interval."""


def weigh_tuned_values(
    forecast: Forecast, configurations: Sequence[Configuration], *, one_sided: bool = False
) -> list[Configuration]:
    """Fill in `tuned_cost`: the posterior of what the tuned values of every configuration cost.

    The log deviations of one size are `d_i = c + E(v_i − u) + ε_i`, u and E drawn from the
    surface, with c the law's error and ε_i noise. The draws are weighed by the deviations; c,
    which all configurations of a size share, is integrated out. Where a configuration's values
    are not known, or the tuned values are refused, it is taken to be at the median optimum.

    A configuration stays as it is where nothing is tuned.

    References:
        Ours: importance sampling of a posterior from its prior.
    """
    by_size: dict[tuple[float, ...], list[int]] = defaultdict(list)
    for i, configuration in enumerate(configurations):
        by_size[configuration.size_key].append(i)
    weighed = list(configurations)
    for members in by_size.values():
        of_size = [configurations[i] for i in members]
        values = forecast.values_at(of_size[0].point.size)
        if values is None:
            continue
        costs = _of_size(values, of_size, level=forecast.level, one_sided=one_sided)
        for i, cost in zip(members, costs, strict=True):
            weighed[i] = replace(configurations[i], tuned_cost=cost)
    return weighed


def _of_size(
    values: TunedValues, configurations: Sequence[Configuration], *, level: float, one_sided: bool
) -> list[TunedCost]:
    """Costs of the tuned values of configurations of one size."""
    octaves = np.array([c.octaves or np.zeros(len(values.names)) for c in configurations])
    if len(octaves) > MAX_EXACT_COSTS:
        octaves = np.round(octaves, 2)
    distinct, kinds = np.unique(octaves, axis=0, return_inverse=True)
    kinds, costs = kinds.ravel(), np.array([values.excesses_at(row) for row in distinct])
    at_recommended = values.excesses_at(values.answer.values - values.optimum)
    step = costs.shape[1] // N_QUANTILES
    quantiles = np.sort(costs, axis=1)[:, step // 2 :: step]
    deviations = np.array(
        [configuration.deviation_given_seeds for configuration in configurations]
    )
    chances, means = _posterior(configurations, deviations, costs[kinds], at_recommended)
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, configuration in enumerate(configurations):
        alike[int(kinds[i]), id(configuration.prediction)].append(i)
    weighed: dict[int, TunedCost] = {}
    for (kind, _), members in alike.items():
        law, possible = configurations[members[0]].prediction, quantiles[kind]
        below, above = (_tail(law, possible, deviations[members], side=side) for side in (-1, 1))
        interval, above_end = _interval(law, possible, level, one_sided=one_sided)
        for i, under, over in zip(members, below.tolist(), above.tolist(), strict=True):
            weighed[i] = TunedCost(
                chance=float(chances[i]),
                mean=float(means[i]),
                p_value=None if math.isnan(deviations[i]) else min(1.0, 2 * min(under, over)),
                p_above=min(1.0, over * (1 - level) / above_end),
                expected_pi=interval,
            )
    return [weighed[i] for i in range(len(configurations))]


def _tail(law: LossPrediction, costs: Array, deviations: Array, *, side: int) -> Array:
    """Probability of such deviations or larger ones, above the law (side 1) or below it (−1).

    Runs scatter about the law, plus a cost: each of `costs` has the same probability.
    """
    beyond = side * (costs - deviations[:, None])
    tails = [
        special.stdtr(min(dof, NORMAL_DOF), beyond / sd).mean(axis=1) for sd, dof in law.spreads()
    ]
    return np.asarray(np.max(tails, axis=0))


def _interval(
    law: LossPrediction, costs: Array, level: float, *, one_sided: bool
) -> tuple[Interval, float]:
    """From the lower end of tuned runs to where it has its level, and the probability above."""
    half = law.half_width(level, new_run=True)
    if not math.isfinite(half):
        return Interval(), (1 - level) / (1 if one_sided else 2)
    below = 0.0 if one_sided else float(_tail(law, costs, np.array([-half]), side=-1)[0])
    above_end = 1 - level - below
    low, high = 0.0, half + float(costs[-1])
    for _ in range(N_HALVINGS):
        middle = (low + high) / 2
        is_beyond = _tail(law, costs, np.array([middle]), side=1)[0] <= above_end
        low, high = (low, middle) if is_beyond else (middle, high)
    lower = None if one_sided else _exp(law.log_loss - half)
    return Interval(lower, _exp(law.log_loss + high)), above_end


def _posterior(
    configurations: Sequence[Configuration], deviations: Array, costs: Array, at_recommended: Array
) -> tuple[Array, Array]:
    """Probability that each configuration is costly, and its mean cost, by it and all plain ones.

    The residuals of one size are a multivariate t: independent noise and an error in common.
    """
    laws = [configuration.prediction for configuration in configurations]
    noise = np.array([sum(variance for variance, _ in law.run) for law in laws])
    common = max(sum(variance for variance, _ in laws[0].curve), MIN_VARIANCE)
    dof = min(dof for law in laws for _, dof in law.spreads())
    has_loss = ~np.isnan(deviations)
    is_plain = np.array([configuration.is_plain for configuration in configurations])

    def terms(rows: npt.NDArray[np.intp]) -> Array:
        """Sums over configurations of what the density of each draw is made of, shape (4, n)."""
        sums = np.zeros((4, costs.shape[1]))
        for part in np.array_split(rows, len(rows) // CONFIGURATIONS_AT_ONCE + 1):
            variance = noise[part, None] + (OWN_COST_SD * costs[part]) ** 2 + MIN_VARIANCE
            residual = deviations[part, None] - costs[part]
            values = 1 / variance, residual / variance, residual**2 / variance, np.log(variance)
            sums += np.stack([value.sum(axis=0) for value in values])
        return sums

    def weights(sums: Array, count: int) -> Array:
        """Weights of the draws, given the sums over so many configurations."""
        precision, mean, square, log_det = sums
        precision = precision + 1 / common
        distance = np.maximum(square - mean**2 / precision, 0.0)
        log_density = -0.5 * (log_det + np.log(precision))
        log_density -= (
            0.5 * (dof + count) * np.log1p(distance / dof) if math.isfinite(dof) else distance / 2
        )
        density = np.exp(log_density - log_density.max())
        return np.asarray(density / density.sum())

    of_plain, n_plain = terms(np.flatnonzero(is_plain)), int(is_plain.sum())
    of_all = weights(of_plain, n_plain)
    is_costly = (costs > MISTUNED_COST) & (costs > at_recommended)
    chances, means = is_costly @ of_all, costs @ of_all
    for i in np.flatnonzero(has_loss & ~is_plain):
        draw_weights = weights(of_plain + terms(np.array([i])), n_plain + 1)
        chances[i], means[i] = draw_weights @ is_costly[i], draw_weights @ costs[i]
    return chances, means


def _exp(log_value: float) -> float | None:
    """None where it is no float."""
    try:
        return math.exp(log_value)
    except OverflowError:
        return None
