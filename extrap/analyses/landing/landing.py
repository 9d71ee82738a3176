"""Where a run's loss ends: its log, its schedule and finished runs of its recipe put together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from extrap.analyses.landing.plans import Plan, plan_of, with_cooldown
from extrap.errors import DataError, argument
from extrap.fitting.landing.binned_log import BinnedLog
from extrap.fitting.landing.ending import (
    END_SHARE,
    MIN_LOSSES,
    UNLIKE_THE_LAW,
    end_of,
    fitted_log,
    refusal_of,
)
from extrap.fitting.landing.posterior import LandingPosterior, finished_shape, landing_posterior
from extrap.fitting.landing.prior import (
    DRIFT,
    Prior,
    landing_prior,
    moved,
    narrowed,
)
from extrap.fitting.landing.schedule import RateSchedule, named_schedule
from extrap.fitting.one_thread import one_thread
from extrap.laws.base import Array
from extrap.reading.frames import is_table
from extrap.reading.logs import LoggedRun, LogReader, logged_run
from extrap.reading.table_files import read_table
from extrap.records import Interval, Recipe
from extrap.records.codec import encode
from extrap.records.fields import require_level
from extrap.records.numbers import (
    counted,
    format_interval,
    format_quantity,
    format_value,
    plain,
)

VISIBLE_PATH = 0.05
"""How far the root of the rate has fallen when a log begins to show what the rate adds."""
SAME_PEAK_LOG = 0.05
"""Relative difference of two peak rates that are one."""
N_PATH = 40
"""Steps of the forecast in the figure."""
SAME_SHARES = 0.03
"""Share of the peak by which schedules may differ that are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where a run's loss ends.

    Attributes:
        loss: Median of the loss at the end; None with a refusal.
        interval: Its interval, at `level`; of a noisy loss that of the mean of the last 2 %.
        level: In (0, 1).
        present: The loss of late.
        drop: How much of the way to the end is due to the rate's fall, in the unit of the loss.
        known_from: First step at which the log shows what the rate adds; None if it never falls.
        width_with_like: Half width of the interval over the loss that a finished run of the recipe
            would leave; None where one is given or the log shows the fall.
        refusal: Why there is no forecast, a sentence; empty if there is one.
        step: Last step of the log.
        total_steps: Last step of the run.
        method: `"law"`, or `"ratio"` where finished runs follow each other more closely.
        n_like: Finished runs that were used.
        peak: The largest rate; None where only the course is known.
        path: Step, median and interval of the loss from now to the end.
        log: Step and loss, as means over stretches.
        rates: Step and rate over its peak.
        notes: What was assumed.
    """

    loss: float | None
    interval: Interval
    level: float
    present: float | None
    drop: float | None
    known_from: float | None
    width_with_like: float | None
    refusal: str
    step: float
    total_steps: float
    method: str
    n_like: int
    peak: float | None
    path: tuple[tuple[float, float, float, float], ...]
    log: tuple[tuple[float, float], ...]
    rates: tuple[tuple[float, float], ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        end = self.refusal or f"{format_value(self.loss)} ({format_interval(self.interval)})"
        return plain(f"Landing(step {format_quantity(self.step)}: {end})")

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        document: dict[str, Any] = encode(self)
        return document


class _Finished(NamedTuple):
    """A finished run and its plan."""

    log: LoggedRun
    plan: Plan
    end: float


@one_thread
def land(
    curve: Any,
    schedule: str | Recipe | None = None,
    total_steps: float | None = None,
    *,
    warmup: float | None = None,
    decay: float | None = None,
    final: float = 0.0,
    rates: Any = None,
    like: Sequence[Any] = (),
    tuned: bool = False,
    cooldown_now: float | None = None,
    level: float = 0.9,
    peak: float | None = None,
    step: str = "step",
    loss: str = "loss",
    rate: str | None = None,
    let: Sequence[str] = (),
    maximised: bool = False,
) -> Landing:
    """Forecast where the loss of a run ends, from its log and its learning rates.

    Args:
        curve: The log, a file that `extrap watch` reads or a trainer's state, or a table.
        schedule: `"constant"`, `"linear"`, `"cosine"`, `"wsd"` or `"steps"`, or a `Recipe`; by
            default what the logged rates tell.
        total_steps: Last step of the run; by default what the log says of it.
        warmup: Steps of the warm-up, or below 1 their share; by default as the logged rates have
            it.
        decay: Steps of the last decay of `"wsd"`, or below 1 their share.
        final: Last rate over the peak.
        rates: A table with `step` and `lr` instead of a schedule.
        like: Logs of finished runs of the recipe, of any size and length, at the same peak rate.
        tuned: Whether each of them, and this run, has the best rate of its size; these may differ.
        cooldown_now: Forecast the end if the rate began to fall now, straight, over this share
            of all steps.
        level: Level of the interval, in (0, 1).
        peak: The largest rate, where the log has none.
        step: Column of the step.
        loss: Column of the loss.
        rate: Column of the learning rate, by default the one that is called so.
        let: Definitions, as of `extrap.read_runs`.
        maximised: Whether the loss is a metric that is better when larger, as there.

    Raises:
        DataError: Nothing tells the learning rates, or the logged ones are not those planned; the
            log is no log of one run; or a finished run is no run of the recipe.
        ValueError: A number is out of range.

    References:
        Tissue et al. 2024, arXiv 2408.11029, eq. 1; Luo et al. 2025, arXiv 2503.12811, eq. 3; Qiu
        et al. 2025, arXiv 2507.02119. The law is in `extrap.fitting.landing.posterior`.
    """
    require_level(level)
    columns: dict[str, Any] = {
        "step": step,
        "loss": loss,
        "rate": rate,
        "let": let,
        "maximised": maximised,
    }
    settings: dict[str, Any] = {
        "schedule": schedule,
        "warmup": warmup,
        "decay": decay,
        "final": final,
    }
    log = read_log(curve, **columns)
    total = _total_steps(log, total_steps)
    plan = plan_of(log, total, rates=rates, **settings)
    now = float(log.steps[-1])
    if cooldown_now is not None:
        if not 0 < cooldown_now < 1:
            raise ValueError(
                f"{argument('cooldown_now')} is a share of all steps, in (0, 1), got "
                f"{cooldown_now}."
            )
        plan, total = with_cooldown(plan, now, cooldown_now, final)
    if peak is not None or plan.peak is None:
        plan = plan._replace(peak=peak)
    finished = [_finished(read_log(source, **columns), plan, settings) for source in like]
    for run in finished:
        _require_same_peak(plan, run.plan, tuned=tuned)
    return _landing(log, plan, total, finished, level)


def read_log(
    source: Any,
    *,
    step: str = "step",
    loss: str = "loss",
    rate: str | None = None,
    let: Sequence[str] = (),
    maximised: bool = False,
) -> LoggedRun:
    """The losses above 0 of a log, at steps above 0.

    Raises:
        DataError: The steps go back, or there is no loss.
    """
    if isinstance(source, str | Path):
        reader = LogReader(source, step=step, loss=loss, let=let, maximised=maximised)
        log, where = reader.read_all(rate=rate), str(source)
    else:
        where = "the log"
        table = read_table(source) if is_table(source) else _pairs(source, step, loss, rate)
        log = logged_run(table, where=where, step=step, loss=loss, rate=rate, maximised=maximised)
    is_loss = np.isfinite(log.losses) & (log.losses > 0) & (log.steps > 0)
    log = replace(log, steps=log.steps[is_loss], losses=log.losses[is_loss])
    if not len(log.steps):
        raise DataError(f"{where} has no loss above 0 at a step above 0.")
    back = np.diff(log.steps) <= 0
    if back.any():
        raise DataError(
            f"the steps of {where} go back after {format_quantity(log.steps[:-1][back][0])}, as "
            "after a restart or where two runs are in one log; give the log of the run that "
            "counts."
        )
    return log


def _pairs(source: Any, step: str, loss: str, rate: str | None) -> Any:
    """A table of (step, loss) or (step, loss, rate)."""
    import pandas as pd

    rows = [tuple(row) for row in source]
    return pd.DataFrame(rows, columns=[step, loss, rate or "lr"][: len(rows[0]) if rows else 2])


def _total_steps(log: LoggedRun, total_steps: float | None) -> float:
    total = log.total_steps if total_steps is None else total_steps
    if total is None:
        raise DataError(
            "the log does not say how many steps the run makes; give "
            f"{argument('total_steps', ...)}."
        )
    if not (math.isfinite(total) and total >= log.steps[-1]):
        raise DataError(
            f"{argument('total_steps')} is the last step of the run, got "
            f"{format_quantity(total)} and a log up to {format_quantity(log.steps[-1])}."
        )
    return float(total)


def _finished(log: LoggedRun, plan: Plan, settings: dict[str, Any]) -> _Finished:
    """A finished run with its own rates, or the schedule stretched to its length."""
    end = float(log.steps[-1])
    if len(log.rates):
        schedule = RateSchedule.from_rates(log.rate_steps, log.rates, end)
        return _Finished(log, Plan(schedule, float(log.rates.max())), end)
    if settings["schedule"] is None:
        raise DataError(
            "a finished run has no learning rates; log them, or name the schedule of both with "
            f"{argument('schedule', ...)}."
        )
    warmup = settings["warmup"] or 0.0
    schedule = named_schedule(
        settings["schedule"], end, warmup, settings["decay"], settings["final"]
    )
    return _Finished(log, Plan(schedule, None), end)


def _require_same_peak(plan: Plan, other: Plan, *, tuned: bool) -> None:
    if tuned or plan.peak is None or other.peak is None:
        return
    if abs(math.log(plan.peak / other.peak)) > SAME_PEAK_LOG:
        raise DataError(
            "a finished run must have the peak rate of this one, relative to the best of its "
            f"size: its peak is {format_quantity(other.peak)} and this one's "
            f"{format_quantity(plan.peak)}, and a run at another rate misleads; leave it out, or "
            f"say that both rates are the best of their sizes: {argument('tuned', True)}."
        )


def _landing(
    log: LoggedRun, plan: Plan, total: float, finished: Sequence[_Finished], level: float
) -> Landing:
    schedule, now = plan.schedule, float(log.steps[-1])
    path = schedule.path(schedule.steps)
    visible = schedule.steps[path > VISIBLE_PATH]
    result = Landing(
        loss=None,
        interval=Interval(),
        level=level,
        present=None,
        drop=None,
        known_from=float(visible[0]) if len(visible) else None,
        width_with_like=None,
        refusal="",
        step=now,
        total_steps=total,
        method="law",
        n_like=len(finished),
        peak=plan.peak,
        path=(),
        log=(),
        rates=tuple(zip(schedule.steps.tolist(), schedule.shares.tolist(), strict=True)),
        notes=(f"The learning rates are taken from {plan.how}.",) if plan.how else (),
    )
    fitted = fitted_log(log.steps, log.losses, plan.schedule)
    if isinstance(fitted, str):
        return replace(result, refusal=fitted)
    prior = landing_prior(plan.peak)
    shapes = [shape for run in finished if (shape := _shape_for(run, plan, total)) is not None]
    posterior = landing_posterior(
        fitted, schedule, end=total, prior=narrowed(prior, shapes) if shapes else prior
    )
    points = tuple(zip(fitted.steps.tolist(), fitted.losses.tolist(), strict=True))
    result = replace(result, present=fitted.level, log=points, notes=_notes(result, fitted))
    if posterior is None or (reason := refusal_of(posterior, log.steps)):
        return replace(result, refusal=reason if posterior else UNLIKE_THE_LAW)
    mixture = end_of(posterior, log.steps)
    interval = mixture.interval(level)
    result = replace(
        result,
        loss=mixture.quantile(0.5),
        interval=interval,
        present=posterior.at(np.array([now])).quantile(0.5),
        drop=posterior.drop(),
        path=tuple(_path(posterior, level)),
    )
    is_hidden = result.known_from is not None and now < result.known_from
    if is_hidden and not finished and now < total:
        width = _width_with_like(posterior, prior, fitted, log, level)
        result = replace(result, width_with_like=width)
    return _with_ratio(result, log, plan, total, finished)


def _notes(result: Landing, log: BinnedLog) -> tuple[str, ...]:
    if not log.n_spikes:
        return result.notes
    spikes = counted(log.n_spikes, "spike")
    return (*result.notes, f"{spikes} of the loss counted as the losses about them.")


def _path(posterior: LandingPosterior, level: float) -> list[tuple[float, float, float, float]]:
    steps = np.linspace(posterior.log.last_step, posterior.end, N_PATH + 1)
    rows = []
    for step in steps:
        mixture = posterior.at(np.array([step]))
        lower, upper = mixture.interval(level)
        rows.append((float(step), mixture.quantile(0.5), float(lower or 0), float(upper or 0)))
    return rows


def _width_with_like(
    posterior: LandingPosterior, prior: Prior, fitted: BinnedLog, log: LoggedRun, level: float
) -> float | None:
    """Half width over the loss with a finished run like this one."""
    mean, _ = posterior.shape
    prior = narrowed(prior, [(mean, DRIFT)])
    with_one = landing_posterior(fitted, posterior.schedule, end=posterior.end, prior=prior)
    if with_one is None:
        return None
    mixture = end_of(with_one, log.steps)
    lower, upper = mixture.interval(level)
    return float(((upper or 0) - (lower or 0)) / 2 / mixture.quantile(0.5))


def _shape_for(run: _Finished, plan: Plan, total: float) -> tuple[Array, Array] | None:
    """The shape of a finished run, moved to this one; None where it has none."""
    fitted = fitted_log(run.log.steps, run.log.losses, run.plan.schedule)
    if isinstance(fitted, str):
        raise DataError(f"a finished run cannot be used. {fitted}")
    shape = finished_shape(fitted, run.plan.schedule, end=run.end)
    if shape is None:
        return None
    schedule, other = plan.schedule, run.plan.schedule
    progress = schedule.progress(np.array([total])) / other.progress(np.array([run.end]))
    rates = schedule.rate_sum / other.rate_sum
    return moved(*shape, progress=float(progress[0]), rates=rates)


def _with_ratio(
    result: Landing, log: LoggedRun, plan: Plan, total: float, finished: Sequence[_Finished]
) -> Landing:
    """The plain ratio of finished curves in place of the law, if it told their ends better.

    Each finished run is cut where this one stands, and its end is told by the ratio of the others
    and by the law with the others.
    """
    fraction = result.step / total
    fractions = np.linspace(plan.schedule.peak_step / total, 1.0, N_PATH)
    shares = plan.schedule.share(fractions * total)
    alike = [
        run
        for run in finished
        if np.abs(run.plan.schedule.share(fractions * run.end) - shares).max() < SAME_SHARES
    ]
    if len(alike) < 2 or result.loss is None:
        return result
    ratios = np.array([_log_ratio(run, fraction) for run in alike])
    by_ratio, by_law = [], []
    for i, run in enumerate(alike):
        others = [other for k, other in enumerate(alike) if k != i]
        by_ratio.append(ratios[i] - np.delete(ratios, i).mean())
        cut = run.log.steps <= fraction * run.end
        part = replace(run.log, steps=run.log.steps[cut], losses=run.log.losses[cut])
        cut_fitted = fitted_log(part.steps, part.losses, run.plan.schedule)
        shapes = [s for other in others if (s := _shape_for(other, run.plan, run.end))]
        law = None
        if not isinstance(cut_fitted, str):
            prior = narrowed(landing_prior(run.plan.peak), shapes)
            law = landing_posterior(cut_fitted, run.plan.schedule, end=run.end, prior=prior)
        if law is None:
            return result
        end = _smoothed(run.log, run.end)
        by_law.append(math.log(end / end_of(law, part.steps).quantile(0.5)))
    error = math.sqrt(float(np.mean(np.square(by_ratio))))
    if error >= math.sqrt(float(np.mean(np.square(by_law)))):
        return result
    center = math.log(_smoothed(log, result.step)) + ratios.mean()
    noise = 1.4826 * np.median(np.abs(np.diff(np.log(log.losses[-MIN_LOSSES:]))))
    half = float(
        special.stdtrit(len(alike) - 1, 0.5 + result.level / 2) * math.hypot(error, noise)
    )
    return replace(
        result,
        method="ratio",
        loss=math.exp(center),
        interval=Interval.around_log(center, half),
        width_with_like=None,
        path=(),
    )


def _smoothed(log: LoggedRun, step: float) -> float:
    """The loss at a step: the mean of the last 2 % up to it."""
    near = (log.steps <= step) & (log.steps >= (1 - END_SHARE) * step)
    if not near.any():
        return float(np.interp(step, log.steps, log.losses))
    return float(log.losses[near].mean())


def _log_ratio(run: _Finished, fraction: float) -> float:
    return math.log(_smoothed(run.log, run.end) / _smoothed(run.log, fraction * run.end))
