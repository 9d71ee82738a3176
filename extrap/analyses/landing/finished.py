"""Finished runs of the recipe: what they say of the shape of one more, or of its end alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import special

from extrap.analyses.landing.plans import N_COMPARED, Plan
from extrap.errors import DataError, argument
from extrap.fitting.landing.ending import END_SHARE, MIN_LOSSES, Ending, end_of, fitted_log
from extrap.fitting.landing.posterior import finished_shape, landing_posterior
from extrap.fitting.landing.prior import Prior, landing_prior, moved, narrowed
from extrap.fitting.landing.schedule import RateSchedule, named_schedule
from extrap.laws.base import Array
from extrap.reading.logs import LoggedRun
from extrap.records import Interval
from extrap.records.numbers import format_quantity

SAME_PEAK_LOG = 0.05
"""Relative difference of two peak rates that are one."""
SAME_SHARES = 0.03
"""Share of the peak by which schedules may differ that are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A finished run.

    Attributes:
        log: Its log.
        plan: Its rates.
        shape: Its shape and covariance; None where they are not known.
    """

    log: LoggedRun
    plan: Plan
    shape: tuple[Array, Array] | None = field(repr=False)

    @property
    def end(self) -> float:
        """Its last step."""
        return float(self.log.steps[-1])

    def up_to(self, fraction: float) -> LoggedRun:
        """Its log up to a share of the steps."""
        is_in = self.log.steps <= fraction * self.end
        return replace(self.log, steps=self.log.steps[is_in], losses=self.log.losses[is_in])

    def log_ratio(self, fraction: float) -> float:
        """Logarithm of its last loss over that at a share of its steps."""
        return math.log(_smoothed(self.log, self.end) / _smoothed(self.log, fraction * self.end))


def finished_run(log: LoggedRun, settings: Mapping[str, Any]) -> FinishedRun:
    """A finished run with its own rates, or with the schedule stretched to its length.

    Raises:
        DataError: Nothing tells its rates, or its log is too short.
    """
    end = float(log.steps[-1])
    if log.total_steps is not None and end < (1 - END_SHARE) * log.total_steps:
        raise DataError(
            f"a finished run has reached its end, got one at step {format_quantity(end)} of "
            f"{format_quantity(log.total_steps)}; leave it out."
        )
    if len(log.rates):
        schedule = RateSchedule.from_rates(log.rate_steps, log.rates, end)
        plan = Plan(schedule, float(log.rates.max()))
    elif settings["schedule"] is None:
        raise DataError(
            "a finished run has no learning rates; log them, or name the schedule of both runs "
            f"with {argument('schedule', ...)} in place of other plans."
        )
    else:
        warmup, decay = settings["warmup"] or 0.0, settings["decay"]
        schedule = named_schedule(settings["schedule"], end, warmup, decay, settings["final"])
        plan = Plan(schedule, None)
    fitted = fitted_log(log.steps, log.losses, schedule)
    if isinstance(fitted, str):
        raise DataError(f"a finished run cannot be used. {fitted}")
    return FinishedRun(log=log, plan=plan, shape=finished_shape(fitted, schedule, end=end))


def require_others(
    finished: Sequence[FinishedRun], log: LoggedRun, plan: Plan, *, tuned: bool
) -> None:
    """Raise where a finished run is the run itself, is there twice, or had another peak rate."""
    logs = [log, *(run.log for run in finished)]
    for k, run in enumerate(finished, start=1):
        if any(np.array_equal(run.log.losses, other.losses) for other in logs[:k]):
            raise DataError(
                f"{argument('like')} takes the logs of other runs, each once; got the log of this "
                "run or one log twice; give each finished run once."
            )
        peaks = plan.peak, run.plan.peak
        if tuned or None in peaks or not all(peaks):
            continue
        if abs(math.log(float(peaks[0] or 1) / float(peaks[1] or 1))) > SAME_PEAK_LOG:
            raise DataError(
                "a finished run must have the peak rate of this one, relative to the best of its "
                f"size: its peak is {format_quantity(peaks[1])} and this one's "
                f"{format_quantity(peaks[0])}, and a run at another rate misleads; leave it out, "
                "or say that both rates are the best of their sizes: "
                f"{argument('tuned', True)}."
            )


def prior_like(
    finished: Sequence[FinishedRun], schedule: RateSchedule, end: float, prior: Prior
) -> Prior:
    """The prior of a run given finished ones of its recipe; the prior itself without any."""
    shapes = []
    for run in finished:
        if run.shape is not None:
            other = run.plan.schedule
            progress = schedule.progress(np.array([end])) / other.progress(np.array([run.end]))
            rates = schedule.rate_sum / other.rate_sum
            shapes.append(moved(*run.shape, progress=float(progress[0]), rates=rates))
    return narrowed(prior, shapes) if shapes else prior


def ratio_ending(
    finished: Sequence[FinishedRun],
    log: LoggedRun,
    schedule: RateSchedule,
    end: float,
    level: float,
) -> tuple[Ending, int] | None:
    """The end by the plain ratio of finished curves, if it told their ends better than the law.

    The number of these curves is returned with it.

    Each of two or more finished runs under the same schedule is cut where this run stands; its end
    is told by the mean ratio of the others and by the law with the others. None where the law is
    nearer.
    """
    fraction = float(log.steps[-1]) / end
    fractions = np.linspace(schedule.peak_step / end, 1.0, N_COMPARED)
    shares = schedule.share(fractions * end)
    alike = [
        run
        for run in finished
        if np.abs(run.plan.schedule.share(fractions * run.end) - shares).max() < SAME_SHARES
    ]
    if len(alike) < 2:
        return None
    ratios = np.array([run.log_ratio(fraction) for run in alike])
    others_mean = (ratios.sum() - ratios) / (len(alike) - 1)
    error = math.sqrt(float(np.mean((ratios - others_mean) ** 2)))
    law_errors = [_law_error(run, [r for r in alike if r is not run], fraction) for run in alike]
    if error >= math.sqrt(float(np.mean(np.square(law_errors)))):
        return None
    noise = 1.4826 * np.median(np.abs(np.diff(np.log(log.losses[-MIN_LOSSES:]))))
    quantile = special.stdtrit(len(alike) - 1, 0.5 + level / 2)
    center = math.log(_smoothed(log, float(log.steps[-1]))) + float(ratios.mean())
    half = float(quantile * math.hypot(error, noise))
    ending = Ending(loss=math.exp(center), interval=Interval.around_log(center, half))
    return ending, len(alike)


def _law_error(run: FinishedRun, others: Sequence[FinishedRun], fraction: float) -> float:
    """How far the law with the others ends from a run that is cut; infinite without an end."""
    part, schedule = run.up_to(fraction), run.plan.schedule
    fitted = fitted_log(part.steps, part.losses, schedule)
    if isinstance(fitted, str):
        return math.inf
    prior = prior_like(others, schedule, run.end, landing_prior(run.plan.peak))
    law = landing_posterior(fitted, schedule, end=run.end, prior=prior)
    if law is None:
        return math.inf
    end = _smoothed(run.log, run.end)
    return math.log(end / end_of(law, part.steps).quantile(0.5))


def _smoothed(log: LoggedRun, step: float) -> float:
    """The loss at a step: the mean of the last 2 % up to it."""
    near = (log.steps <= step) & (log.steps >= (1 - END_SHARE) * step)
    if not near.any():
        return float(np.interp(step, log.steps, log.losses))
    return float(log.losses[near].mean())
