"""The loss at tuned values that are kept: Metz' failure, before anyone pays for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from extrap.fitting.excess_curve import ExcessCurve
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.recommendation import expected_excess
from extrap.fitting.spread import predict_optimum
from extrap.records import Fit, Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPrediction:
    """The loss of a run at given tuned values.

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


def predict_at_values(
    tuned_run: LossPrediction,
    laws: Mapping[str, Fit],
    excess_curve: ExcessCurve,
    size: Mapping[str, float],
    tuned: Mapping[str, float],
    *,
    level: float,
) -> FixedPrediction:
    """Loss of a tuned run, plus what the distance from the optimum costs.

    The distribution mixes over where the optimum may lie; around each place the log loss is
    normal, with the spread of a tuned run (its Student t at `level`) and of the excess-loss curve.

    Args:
        tuned_run: Predictive distribution of the log loss of a tuned run at that size.
        laws: Tuned column → law of its optimum, in the excess-loss curve's order.
        excess_curve: What a distance costs.
        size: Size column → value.
        tuned: Tuned column → value, one for each.
        level: Content of the interval, in (0, 1).
    """
    spread = predict_optimum(laws, size)
    at = np.log2([tuned[name] for name in spread.tuned]) - np.asarray(spread.centre)
    offsets, weights = spread.nodes()
    excesses = excess_curve.excesses(at - offsets, size)
    z = float(special.ndtri(0.5 + level / 2))
    interval = tuned_run.interval(level, new_run=True)
    lower = interval.lower if interval.lower else math.exp(-700.0)
    own = (tuned_run.log_loss - math.log(lower)) / z
    sd = np.hypot(own, (excess_curve.relative_sd or 0.0) * excesses)
    means = tuned_run.log_loss + excesses

    def quantile(p: float) -> float:
        low, high = float((means - 12 * sd).min()), float((means + 12 * sd).max())
        return float(
            optimize.brentq(lambda v: weights @ special.ndtr((v - means) / sd) - p, low, high)
        )

    excess = expected_excess(spread, tuned, size, excess_curve=excess_curve)
    return FixedPrediction(
        loss=math.exp(tuned_run.log_loss + excess),
        pi=Interval(math.exp(quantile(0.5 - level / 2)), math.exp(quantile(0.5 + level / 2))),
        excess=excess,
        octaves=dict(zip(spread.tuned, map(float, at), strict=True)),
    )
