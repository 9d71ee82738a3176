"""Where a forecast says nothing: its interval would be too wide to be of use."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from extrap.fitting.prediction import LossPrediction
from extrap.fitting.spread import OptimumSpread

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A number of a forecast whose interval is too wide to be of use.

    Attributes:
        why: The reason, a clause.
        is_refused: Whether it is not given; else noise alone excuses the width: it is imprecise.
    """

    why: str
    is_refused: bool


def doubt_loss(
    prediction: LossPrediction, last: LossPrediction, *, of_noise: float = OF_NOISE
) -> Doubt | None:
    """Whether a loss is known too roughly; None where it is not.

    It is where half the 90 % interval of a new run is wider than the change predicted beyond the
    sweep, and than 5 %; and refused where it is wider than `of_noise` times that of a run at a
    known law too, all in log loss.

    Args:
        prediction: At the size.
        last: At the largest fitted size, or at the size itself where that is smaller.
        of_noise: 0: noise excuses nothing.

    References:
        Ours.
    """
    half = prediction.half_width(LEVEL, new_run=True)
    change = abs(prediction.log_loss - last.log_loss)
    narrow = max(change, MOST_HALF_WIDTH)
    if half <= narrow:
        return None
    noise = of_noise * replace(prediction, curve=()).half_width(LEVEL, new_run=True)
    wide = f"± {_percent(half)}"
    if half > SHOWN_AS_PERCENT:
        factor = f"{math.exp(half):.2g}" if half <= SHOWN else "10 or more"
        wide = f"a factor of {factor} either way"
    limit = f"{100 * MOST_HALF_WIDTH:g} %"
    is_refused = half > noise
    if is_refused and noise > narrow:
        limit = f"{of_noise:g} times that of noise alone"
    elif change > MOST_HALF_WIDTH:
        limit = f"the change of {_percent(change)} predicted beyond the sweep"
    return Doubt(why=f"its 90 % interval is {wide}, more than {limit}", is_refused=is_refused)


def doubt_tuned(spread: OptimumSpread, *, log_sd: float = 0.0) -> dict[str, Doubt]:
    """Tuned column → why its optimum is known too roughly; empty where all are known well.

    None is given where the predicted optima cost more than 3 % of the loss, and than 3 times half
    the 90 % interval of a run at a known law, on average over where the optimum may lie; nor is
    one whose 90 % interval spans more than 8 octaves.

    Args:
        spread: Where the optimum may lie.
        log_sd: Standard deviation of the log loss of a run; 0: noise excuses nothing.

    References:
        Ours.
    """
    doubts: dict[str, Doubt] = {}
    if spread.excess_curve is not None:
        regret = spread.mean_excess(np.zeros(len(spread.tuned)))
        if regret > MOST_REGRET:
            noise = OF_NOISE * float(special.ndtri(0.5 + LEVEL / 2)) * log_sd
            why = f"the predicted value is expected to cost {_percent(regret)} of the loss"
            doubts = dict.fromkeys(spread.tuned, Doubt(why=why, is_refused=regret > noise))
            if regret > noise:
                return doubts
    widths = 2 * special.stdtrit(spread.dof, 0.5 + LEVEL / 2) * np.asarray(spread.sd)
    why = f"its 90 % interval spans more than a factor of {2**MOST_OCTAVES:g}"
    wide = [n for n, w in zip(spread.tuned, widths, strict=True) if not w <= MOST_OCTAVES]
    return doubts | dict.fromkeys(wide, Doubt(why=why, is_refused=True))


def _percent(log_change: float) -> str:
    if log_change > SHOWN:
        return f"{100 * math.expm1(SHOWN):.0f} % or more"
    percent = 100 * math.expm1(log_change)
    return f"{percent:.{0 if percent >= 10 else 1}f} %"
