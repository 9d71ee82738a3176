"""Where a forecast says nothing: its interval would be too wide to be of use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import special

from extrap.fitting.excess_curve import ExcessCurve
from extrap.fitting.prediction import LossPrediction
from extrap.fitting.recommendation import expected_excess
from extrap.fitting.spread import predict_optimum
from extrap.records import Fit

LEVEL = 0.9
"""Of the intervals that are judged, whatever that of the forecast is."""
MOST_HALF_WIDTH = 0.05
"""Half width of the log loss that is always narrow enough."""
MOST_REGRET = 0.03
"""Log loss that the predicted optimum may cost on average."""
OF_NOISE = 3.0
"""No uncertainty is too large that is at most so many times that of a run at a known law. Seeds
alone change the losses of small models by 5 to 40 %, and so rough a forecast is of use there; it
is called imprecise."""
MOST_OCTAVES = 8.0
"""Width of the interval of an optimum."""
SHOWN_AS_PERCENT, SHOWN = 0.5, math.log(10)
"""Half widths of a log loss up to which they are given in percent, and at all."""


def refuse_loss(
    prediction: LossPrediction, last: LossPrediction, *, of_noise: float = OF_NOISE
) -> str:
    """Why a loss is not given; empty where it is.

    It is not where half the 90 % interval of a new run is wider than the change predicted beyond
    the sweep, than 5 %, and than `of_noise` times that of a run at a known law, all in log loss.

    Args:
        prediction: At the size.
        last: At the largest fitted size, or at the size itself where that is smaller.
        of_noise: 0: noise excuses nothing.

    References:
        Ours.
    """
    half = prediction.half_width(LEVEL, new_run=True)
    change = abs(prediction.log_loss - last.log_loss)
    noise = of_noise * replace(prediction, curve=()).half_width(LEVEL, new_run=True)
    if half <= max(change, MOST_HALF_WIDTH, noise):
        return ""
    wide = f"± {_percent(half)}"
    if half > SHOWN_AS_PERCENT:
        factor = f"{math.exp(half):.2g}" if half <= SHOWN else "10 or more"
        wide = f"a factor of {factor} either way"
    limit = f"{100 * MOST_HALF_WIDTH:g} %"
    if noise > max(change, MOST_HALF_WIDTH):
        limit = f"{of_noise:g} times that of noise alone"
    elif change > MOST_HALF_WIDTH:
        limit = f"the change of {_percent(change)} predicted beyond the sweep"
    return f"its 90 % interval is {wide}, more than {limit}"


def refuse_tuned(
    laws: Mapping[str, Fit],
    size: Mapping[str, float],
    *,
    excess_curve: ExcessCurve | None,
    log_sd: float = 0.0,
    of_noise: float = OF_NOISE,
) -> dict[str, str]:
    """Tuned column → why its optimum is not given; empty where all are.

    None is given where the predicted optima cost more than 3 % of the loss, and than `of_noise`
    times half the 90 % interval of a run at a known law, on average over where the optimum may
    lie; nor is one whose 90 % interval spans more than 8 octaves.

    Args:
        laws: Tuned column → law of its optimum.
        size: Size column → value.
        excess_curve: What a distance from the optimum costs, of just these columns; None if it is
            unknown.
        log_sd: Standard deviation of the log loss of a run.
        of_noise: 0: noise excuses nothing.

    References:
        Ours.
    """
    spread = predict_optimum(laws, size)
    if excess_curve is not None:
        regret = expected_excess(spread, {}, size, excess_curve=excess_curve)
        noise = of_noise * float(special.ndtri(0.5 + LEVEL / 2)) * log_sd
        if regret > max(MOST_REGRET, noise):
            why = f"the predicted value is expected to cost {_percent(regret)} of the loss"
            return dict.fromkeys(laws, why)
    widths = 2 * special.stdtrit(spread.dof, 0.5 + LEVEL / 2) * np.asarray(spread.sd)
    why = f"its 90 % interval spans more than a factor of {2**MOST_OCTAVES:g}"
    return {name: why for name, w in zip(laws, widths, strict=True) if not w <= MOST_OCTAVES}


def _percent(log_change: float) -> str:
    if log_change > SHOWN:
        return f"{100 * math.expm1(SHOWN):.0f} % or more"
    percent = 100 * math.expm1(log_change)
    return f"{percent:.{0 if percent >= 10 else 1}f} %"
