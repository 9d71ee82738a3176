"""What the shape of a loss curve tells: spikes, and a held-out loss that climbs steadily."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array

BEFORE = 5
"""Points whose median a new one is compared with."""
FAR = 10.0
"""Standard deviations of the curve's own steps above that median which make a spike: SGD at its
full rate reaches 6.5 before a decay smooths the curve, batches with wrong targets 40 and more."""
LEAST = 0.02
"""Log loss above it that makes one however smooth the curve is."""
MANY, CLIMB, STEADY = 8, 0.05, 0.9
"""Points after the minimum, log loss they climb by, and their correlation with time."""
NORMAL = 1.4826
"""Median absolute deviation to standard deviation, of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """The worst spike of a curve.

    Attributes:
        step: Where it peaks.
        height: Log loss above the median of the points before it; infinite if not finite there.
        before: That median, as a log loss; NaN without points before it.
        fraction: Where those points lie, as a part of the curve's steps.
    """

    step: float
    height: float
    before: float
    fraction: float


def find_spike(step: Array, loss: Array, *, length: float = 0.0) -> Spike | None:
    """The worst point above the running median of those before it, or None.

    A point counts when it lies ten standard deviations of the curve's own steps (from their
    median absolute deviation) above the median of the five points before it, and two percent; a
    curve that is rough all along has none.

    Args:
        step: Steps, shape (n,), in any order.
        loss: Losses, shape (n,), positive where they are numbers; one that is not is a spike.
        length: Steps the run was to take, if it may have ended before.
    """
    order = np.argsort(step, kind="stable")
    step, loss = np.asarray(step, dtype=float)[order], np.asarray(loss, dtype=float)[order]
    total = max(length, float(step[-1])) if len(step) else length
    broken = ~np.isfinite(loss) | (loss <= 0)
    if broken.any():
        first = int(np.argmax(broken))
        before = (
            float(np.log(np.median(loss[max(0, first - BEFORE) : first]))) if first else np.nan
        )
        return Spike(
            step=float(step[first]),
            height=np.inf,
            before=before,
            fraction=float(
                np.median(step[max(0, first - BEFORE) : first + (not first)]) / step[-1]
            ),
        )
    if len(loss) <= 2 * BEFORE:
        return None
    log_loss = np.log(loss)
    windows = np.lib.stride_tricks.sliding_window_view(log_loss[:-1], BEFORE)
    median = np.median(windows, axis=1)
    above = log_loss[BEFORE:] - median
    own = np.diff(log_loss)
    scale = NORMAL * float(np.median(np.abs(own - np.median(own))))
    worst = int(np.argmax(above))
    if above[worst] <= max(FAR * scale, LEAST):
        return None
    peak = BEFORE + worst
    return Spike(
        step=float(step[peak]),
        height=float(above[worst]),
        before=float(median[worst]),
        fraction=float(np.median(step[worst:peak]) / total),
    )


def climbs_steadily(step: Array, loss: Array) -> bool:
    """Whether a curve turns up after its minimum and climbs on, as in overfitting.

    Args:
        step: Steps, shape (n,), in any order.
        loss: Losses, shape (n,), in nats.
    """
    order = np.argsort(step, kind="stable")
    loss = np.asarray(loss, dtype=float)[order]
    if not len(loss) or not np.all(np.isfinite(loss) & (loss > 0)):
        return False
    lowest = int(np.argmin(loss))
    after = np.log(loss[lowest:])
    if len(after) < MANY or after[-1] - after[0] < CLIMB:
        return False
    return bool(np.corrcoef(np.arange(len(after)), after)[0, 1] > STEADY)
