"""From a log to the loss at its end: the part that counts, what is refused, the end as logged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from extrap.fitting.landing.binned_log import BinnedLog, binned, white_noise
from extrap.fitting.landing.posterior import LandingPosterior, Mixture, landing_posterior
from extrap.fitting.landing.prior import Prior
from extrap.fitting.landing.schedule import RateSchedule
from extrap.laws.base import Array
from extrap.records import Interval
from extrap.records.numbers import counted, format_interval, format_percent, format_quantity

MIN_LOSSES = 8
"""Losses after the warm-up from which on a log tells anything."""
COUNTED_AFTER_WARMUPS, FIRST_SHARE, FIRST_NOISY_SHARE = 1.5, 0.25, 0.08
"""Losses count from so many warm-ups and this share of the log on, as earlier ones follow no power
law: from .15 on the half-way forecasts hold 77 %. Of a noisy log more must count than that costs:
from .25, .15 and .08 on the interval score of batch losses is 16.7, 15.8 and 14.7 %."""
MIN_WARMUPS = 2.0
"""A log shorter than so many warm-ups is in the warm-up."""
LARGEST_SHIFT = 8.0
"""A residual of so many robust standard deviations is a shift of level: 2 of 917 sound logs."""
WIDEST_END_SHARE, LOWEST_END_SHARE = 0.6, 0.2
"""An interval wider than this share of the loss, or down to this share of it, says nothing."""
LEAST_TAIL_NOISE, END_SHARE = 0.01, 0.02
"""Of losses with more relative noise than this, the end is the mean over this share of the
steps."""
UNLIKE_THE_LAW = "The curve is unlike any that the law describes."
REFUSAL_LEVEL = 0.9
"""Level of the interval whose width refuses a forecast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The loss at the end of a run: its median and interval."""

    loss: float
    interval: Interval


def ending(
    steps: Array, losses: Array, schedule: RateSchedule, *, end: float, prior: Prior, level: float
) -> Ending | str:
    """Where a run ends, or why that cannot be said.

    Args:
        steps: Of the log, rising, above 0.
        losses: Above 0.
        schedule: The rates of the whole run.
        end: Its last step.
        prior: Of its shape.
        level: Of the interval.
    """
    fitted = fitted_log(steps, losses, schedule)
    if isinstance(fitted, str):
        return fitted
    posterior = landing_posterior(fitted, schedule, end=end, prior=prior)
    if posterior is None:
        return UNLIKE_THE_LAW
    if reason := refusal_of(posterior, steps):
        return reason
    mixture = end_of(posterior, steps)
    return Ending(loss=mixture.quantile(0.5), interval=mixture.interval(level))


def fitted_log(steps: Array, losses: Array, schedule: RateSchedule) -> BinnedLog | str:
    """The part of a log that is fitted, as means; or why it cannot be."""
    now, warmup = float(steps[-1]), schedule.peak_step
    is_used = steps >= COUNTED_AFTER_WARMUPS * warmup
    is_late = is_used & (steps >= FIRST_SHARE * now)  # an early curve bends: no noise
    is_noisy = white_noise(losses[is_late]) > LEAST_TAIL_NOISE
    is_used = is_used & (steps >= FIRST_NOISY_SHARE * now) if is_noisy else is_late
    if now < MIN_WARMUPS * warmup:
        return (
            f"The warm-up lasts about {_steps(warmup)} and the log {_steps(now)}; twice "
            "the warm-up is the least that tells anything."
        )
    if is_used.sum() < MIN_LOSSES:
        return (
            f"The log has {counted(int(is_used.sum()), 'row')} in the part that counts, and "
            f"{MIN_LOSSES} are needed; log more often."
        )
    fitted = binned(steps[is_used], losses[is_used], schedule)
    if rise := fitted.rise(schedule):
        return (
            f"The loss rose by {format_percent(rise, signed=False)} of late at a rate that "
            "did not; look at the run before its end."
        )
    return fitted


def _steps(steps: float) -> str:
    """`2,000 steps`."""
    return f"{format_quantity(steps, digits=2)} steps"


def end_of(posterior: LandingPosterior, steps: Array) -> Mixture:
    """The loss at the end as it will be logged."""
    if posterior.log.noise <= LEAST_TAIL_NOISE:
        return posterior.landing(n_losses=1)
    gap = float(np.median(np.diff(steps)))
    return posterior.landing(tail=END_SHARE, n_losses=max(1.0, END_SHARE * posterior.end / gap))


def refusal_of(posterior: LandingPosterior, steps: Array) -> str:
    """Why an end is not told; empty where it is."""
    if posterior.shift > LARGEST_SHIFT:
        return (
            f"The loss shifts near step {format_quantity(posterior.shift_step)} by "
            f"{posterior.shift:.0f} times its usual change; give the log from there on if the "
            "data or their evaluation changed."
        )
    interval, level = end_of(posterior, steps).interval(REFUSAL_LEVEL), posterior.log.level
    lower, upper = (float(side or 0.0) for side in interval)
    if lower < LOWEST_END_SHARE * level or upper - lower > WIDEST_END_SHARE * level:
        open_by = format_percent(WIDEST_END_SHARE / 2, signed=False)
        return (
            f"Too early: the log leaves the end open by {open_by} ({format_interval(interval)})."
        )
    return ""
