"""Spikes in a loss curve: points far above those just before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.laws.base import Array

__all__ = ["Spike", "find_spike"]

BEFORE = 5
"""Points whose median a new one is held against."""
FAR = 5.0
"""Median absolute deviations above that median which make a spike."""
LEAST = 0.02
"""Log loss above it that makes one however smooth the curve is."""
NORMAL = 1.4826
"""Median absolute deviation to standard deviation, of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """The worst spike of a curve.

    Attributes:
        step: Where it peaks.
        height: Log loss above the median of the points before it; infinite if not finite there.
        lasting: Log loss above that median at the end of the curve, 0 if it recovered.
    """

    step: float
    height: float
    lasting: float


def find_spike(step: Array, loss: Array) -> Spike | None:
    """The worst point above the running median of those before it, or None.

    A point counts when it lies five median absolute deviations of the curve's own steps above the
    median of the five points before it, and two percent; a curve that is rough all along has none.

    Args:
        step: Steps, shape (n,), in any order.
        loss: Losses, shape (n,), in nats.
    """
    order = np.argsort(step, kind="stable")
    step, loss = np.asarray(step, dtype=float)[order], np.asarray(loss, dtype=float)[order]
    broken = ~np.isfinite(loss) | (loss <= 0)
    if broken.any():
        return Spike(step=float(step[broken][0]), height=np.inf, lasting=np.inf)
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
    lasting = max(0.0, float(log_loss[-1] - median[worst]))
    return Spike(step=float(step[BEFORE + worst]), height=float(above[worst]), lasting=lasting)
