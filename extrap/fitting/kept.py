"""What tuned values cost that are kept instead of tuned again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from extrap.fitting.excess_curve import CEILING
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.spread import OptimumSpread
from extrap.laws.base import Array
from extrap.records import Interval, KeptValue, Optimum

SCATTER_POINTS = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPrediction:
    """The loss of a run at kept tuned values.

    Attributes:
        loss: Expected at these values, in the unit of the runs.
        pi: Its prediction interval for one new run.
        excess: Expected log excess over a tuned run, over where the optimum may lie.
        octaves: Tuned column → log2(value / predicted optimum).
    """

    loss: float
    pi: Interval
    excess: float
    octaves: Mapping[str, float]


def keep_values(
    spread: OptimumSpread, optima: Sequence[Optimum], *, level: float, from_largest: bool = True
) -> tuple[KeptValue, ...]:
    """What it costs to keep the tuned value of a fitted size, for every tuned column.

    A column without a size whose optimum is bracketed has none to keep, and is left out.

    Args:
        spread: Where the optimum of the size may lie that the value is carried to.
        optima: Those of the fitted sizes, smallest first.
        level: Content of the intervals, in (0, 1).
        from_largest: Keep the value of the largest size with a point estimate, else of the
            smallest.

    Raises:
        ValueError: As `OptimumSpread.excesses`.

    References:
        Kalra, Barkeshli (2026), arXiv 2605.21486: the loss penalty of transfer; here that of
        keeping a value at one size, not the asymptotic one of a parametrisation.
    """
    kept_values = []
    for name, centre in zip(spread.tuned, spread.centre, strict=True):
        known = [o for o in optima if o.tuned[name].value is not None]
        if not known:
            continue
        start = known[-1 if from_largest else 0]
        kept = float(start.tuned[name].value or math.nan)
        penalty, penalty_pi = penalty_at(spread, {name: kept}, level=level)
        kept_values.append(
            KeptValue(
                tuned=name,
                kept=kept,
                kept_from=dict(start.size),
                size=spread.size,
                level=level,
                octaves=math.log2(kept) - centre,
                penalty=penalty,
                penalty_pi=penalty_pi,
            )
        )
    return tuple(kept_values)


def penalty_at(
    spread: OptimumSpread, tuned: Mapping[str, float], *, level: float
) -> tuple[float, Interval]:
    """Expected log excess of a run at given tuned values, and its interval.

    Args:
        spread: Where the optimum of the size may lie.
        tuned: Tuned column → value; one that is not given is at its predicted optimum.
        level: Content of the interval, in (0, 1).

    Returns:
        The mean over where the optimum may lie; and the central interval over that and the
        excess-loss curve's scatter, which reaches at least to the mean.

    Raises:
        ValueError: As `OptimumSpread.excesses`.
    """
    octaves, weights = spread.octaves(tuned), spread.nodes[1]
    penalty, scatter = spread.mean_excess(octaves), _scatter(spread)
    costs = np.minimum(np.outer(spread.excesses(octaves), scatter), CEILING).ravel()
    shares = np.repeat(weights / len(scatter), len(scatter))
    # quantiles of a stepwise distribution, joined
    order = np.argsort(costs)
    mass = np.cumsum(shares[order]) - shares[order] / 2
    low, high = np.interp(
        [0.5 - level / 2, 0.5 + level / 2], mass / shares.sum(), costs[order]
    ).tolist()
    return penalty, Interval(low, max(high, penalty))


def predict_at_values(
    tuned_run: LossPrediction,
    spread: OptimumSpread,
    tuned: Mapping[str, float],
    *,
    level: float,
) -> KeptPrediction:
    """Loss of a tuned run, plus what the distance from the optimum costs.

    The distribution mixes over where the optimum may lie; around each place the log loss is
    normal, with the spread of a tuned run (its Student t at `level`) and of the excess-loss curve.

    Args:
        tuned_run: Predictive distribution of the log loss of a tuned run at that size.
        spread: Where the optimum of the size may lie.
        tuned: Tuned column → value, one for each.
        level: Content of the interval, in (0, 1).

    Raises:
        ValueError: As `OptimumSpread.excesses`.
    """
    at, weights = spread.octaves(tuned), spread.nodes[1]
    excesses = spread.excesses(at)
    z = float(special.ndtri(0.5 + level / 2))
    interval = tuned_run.interval(level, new_run=True)
    lower = interval.lower if interval.lower else math.exp(-700.0)
    own = (tuned_run.log_loss - math.log(lower)) / z
    sd = np.hypot(own, _relative_sd(spread) * excesses)
    means = tuned_run.log_loss + excesses

    def quantile(p: float) -> float:
        low, high = float((means - 12 * sd).min()), float((means + 12 * sd).max())
        return float(
            optimize.brentq(lambda v: weights @ special.ndtr((v - means) / sd) - p, low, high)
        )

    excess = spread.mean_excess(at)
    return KeptPrediction(
        loss=math.exp(tuned_run.log_loss + excess),
        pi=Interval(math.exp(quantile(0.5 - level / 2)), math.exp(quantile(0.5 + level / 2))),
        excess=excess,
        octaves=dict(zip(spread.tuned, map(float, at), strict=True)),
    )


def _relative_sd(spread: OptimumSpread) -> float:
    return (spread.excess_curve and spread.excess_curve.relative_sd) or 0.0


def _scatter(spread: OptimumSpread) -> Array:
    """Equally likely factors on an excess: lognormal, mean 1, as runs scatter about the curve."""
    log_sd = math.sqrt(math.log1p(_relative_sd(spread) ** 2))
    p = (np.arange(SCATTER_POINTS) + 0.5) / SCATTER_POINTS
    return np.asarray(np.exp(log_sd * special.ndtri(p) - log_sd**2 / 2))
