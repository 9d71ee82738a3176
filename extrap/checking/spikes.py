"""The shape of a loss curve: spikes, and a held-out loss that climbs steadily."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array

N_BEFORE = 5
"""Points whose median a new one is compared with."""
SPIKE_SDS = 10.0
"""Standard deviations of the curve's own steps above that median which make a spike: SGD at its
full rate reaches 6.5 before a decay smooths the curve, batches with wrong targets 40 and more."""
MIN_SPIKE = 0.02
"""Log loss above that median that a spike has at least, however smooth the curve is."""
MIN_CLIMB_POINTS, MIN_CLIMB, CLIMB_CORRELATION = 8, 0.05, 0.9
"""Points after the minimum, log loss they climb by, and their correlation with time."""
SD_OF_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


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
    curve that is rough all along has none. A loss that is no positive number is one.

    Args:
        step: Steps, shape (n,), in any order.
        loss: Losses, shape (n,).
        length: Steps the run was to take, if it may have ended before.
    """
    order = np.argsort(step, kind="stable")
    step, loss = np.asarray(step, dtype=float)[order], np.asarray(loss, dtype=float)[order]
    broken = ~np.isfinite(loss) | (loss <= 0)
    if broken.any():
        return _first_broken(step, loss, int(np.argmax(broken)))
    if len(loss) <= 2 * N_BEFORE:
        return None
    log_loss = np.log(loss)
    windows = np.lib.stride_tricks.sliding_window_view(log_loss[:-1], N_BEFORE)
    median = np.median(windows, axis=1)
    above, changes = log_loss[N_BEFORE:] - median, np.diff(log_loss)
    sd = SD_OF_MAD * float(np.median(np.abs(changes - np.median(changes))))
    worst = int(np.argmax(above))
    if above[worst] <= max(SPIKE_SDS * sd, MIN_SPIKE):
        return None
    peak = N_BEFORE + worst
    total = max(length, float(step[-1]))
    return Spike(
        step=float(step[peak]),
        height=float(above[worst]),
        before=float(median[worst]),
        fraction=float(np.median(step[worst:peak]) / total),
    )


def _first_broken(step: Array, loss: Array, first: int) -> Spike:
    """The spike at the first loss that is no positive number."""
    start = max(0, first - N_BEFORE)
    return Spike(
        step=float(step[first]),
        height=np.inf,
        before=float(np.log(np.median(loss[start:first]))) if first else np.nan,
        fraction=float(np.median(step[start : max(first, 1)]) / step[-1]),
    )


def climbs_steadily(step: Array, loss: Array) -> bool:
    """Whether a curve turns up after its minimum and climbs on, as in overfitting."""
    order = np.argsort(step, kind="stable")
    loss = np.asarray(loss, dtype=float)[order]
    if not len(loss) or not np.all(np.isfinite(loss) & (loss > 0)):
        return False
    lowest = int(np.argmin(loss))
    after = np.log(loss[lowest:])
    if len(after) < MIN_CLIMB_POINTS or after[-1] - after[0] < MIN_CLIMB:
        return False
    return bool(np.corrcoef(np.arange(len(after)), after)[0, 1] > CLIMB_CORRELATION)
