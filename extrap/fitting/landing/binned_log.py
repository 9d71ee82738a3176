"""A log as a landing is fitted to it: means over stretches, their noise, and faults that show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from extrap.fitting.landing.schedule import RateSchedule
from extrap.laws.base import Array

N_MEANS = 40
"""Stretches of the log; with 32 or 72 forecasts are as good."""
PATH_WEIGHT = 4.0
"""Steps of the clock while the rate falls to 0, beside one for each e-fold of the steps; with 2
or 8 forecasts are as good."""
USUAL_NOISE = 0.01
"""Relative noise of a loss where a log is too short to tell."""
MIN_DIFFERENCES = 5
"""Second differences that tell it."""
MIN_BINS = 12
"""Means that tell whether noise lasts."""
SPIKE_WINDOW = 11
"""Losses whose median replaces a spike."""
SPIKE_NOISES, LEAST_SPIKE = 5.0, 3e-4
"""A spike is so many standard deviations above it, each at least a share of the loss."""
RISE_BINS, RISE_SDS, LEAST_RISE = 10, 3.0, 0.002
"""A loss rises if the last means do by so many standard errors and by this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinnedLog:
    """Means over stretches that are even in the clock.

    Attributes:
        steps: Mean step of each.
        losses: Mean loss.
        counts: Losses in it.
        noise: Relative standard deviation of one loss.
        inflation: Factor of the variance of means, above 1 where noise lasts over several losses.
        n_spikes: Losses that were replaced by the median about them.
        last_step: The last step.
    """

    steps: Array
    losses: Array
    counts: Array
    noise: float
    inflation: float
    n_spikes: int
    last_step: float

    @property
    def level(self) -> float:
        """The loss of late."""
        return float(np.median(self.losses[-3:]))

    def rise(self, schedule: RateSchedule) -> float:
        """How much the loss rose of late, as a share, at a rate that did not; else 0."""
        if len(self.steps) < RISE_BINS + MIN_DIFFERENCES + 1:
            return 0.0
        places = np.arange(RISE_BINS) - (RISE_BINS - 1) / 2
        logs, squares = np.log(self.losses[-RISE_BINS:]), places @ places
        slope = places @ logs / squares
        left = logs - logs.mean() - slope * places
        error = math.sqrt(left @ left / (RISE_BINS - 2) / squares)
        rate_then, rate = schedule.share(np.array([self.steps[-RISE_BINS], self.last_step]))
        is_rise = slope > max(RISE_SDS * error, LEAST_RISE / (RISE_BINS - 1))
        return math.expm1(slope * (RISE_BINS - 1)) if is_rise and rate <= rate_then + 1e-9 else 0.0


def clock(schedule: RateSchedule, steps: Array) -> Array:
    """The time in which the law's own error moves."""
    return np.log(steps) + PATH_WEIGHT * schedule.path(steps)


def white_noise(losses: Array) -> float:
    """Relative standard deviation of one loss, from second differences, robustly."""
    differences = np.diff(losses, 2)
    if len(differences) < MIN_DIFFERENCES:
        return USUAL_NOISE
    scale = 1.4826 * np.median(np.abs(differences)) / math.sqrt(6)
    return float(scale / np.median(losses))


def binned(steps: Array, losses: Array, schedule: RateSchedule) -> BinnedLog:
    """The means of a log, at rising steps above 0, of positive losses."""
    noise = white_noise(losses)
    losses, n_spikes = _without_spikes(losses, noise)
    times = clock(schedule, steps)
    edges = np.linspace(times[0] - 1e-9, times[-1] + 1e-9, N_MEANS + 1)
    bins = np.clip(np.searchsorted(edges, times, "left") - 1, 0, N_MEANS - 1)
    counts = np.bincount(bins, minlength=N_MEANS)
    is_used = counts > 0
    mean_steps, mean_losses = (
        np.bincount(bins, values, N_MEANS)[is_used] / counts[is_used] for values in (steps, losses)
    )
    inflation = 1.0
    if len(mean_losses) >= MIN_BINS:
        expected = np.median(noise / np.sqrt(counts[is_used])) + 1e-9
        inflation = max(1.0, float(white_noise(mean_losses) / expected) ** 2)
    return BinnedLog(
        steps=mean_steps,
        losses=mean_losses,
        counts=counts[is_used].astype(float),
        noise=noise,
        inflation=inflation,
        n_spikes=n_spikes,
        last_step=float(steps[-1]),
    )


def _without_spikes(losses: Array, noise: float) -> tuple[Array, int]:
    """Losses with the median about each spike in its place, and the number of spikes."""
    width = min(SPIKE_WINDOW, (len(losses) - 1) // 2 * 2 + 1)
    if width < MIN_DIFFERENCES:
        return losses, 0
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(losses, width // 2, "edge"), width)
    medians = np.median(windows, axis=1)
    is_spike = losses - medians > SPIKE_NOISES * max(noise, LEAST_SPIKE) * medians
    return np.where(is_spike, medians, losses), int(is_spike.sum())
