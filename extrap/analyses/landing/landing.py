"""Where a run's loss ends: its log, its schedule and finished runs of its recipe put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from extrap.analyses.landing.finished import (
    FinishedRun,
    finished_run,
    prior_like,
    ratio_ending,
    require_others,
)
from extrap.analyses.landing.plans import Plan, plan_of, with_cooldown
from extrap.errors import DataError, argument, shown
from extrap.fitting.landing.binned_log import BinnedLog
from extrap.fitting.landing.ending import (
    UNLIKE_THE_LAW,
    end_of,
    fitted_log,
    refusal_of,
)
from extrap.fitting.landing.posterior import LandingPosterior, landing_posterior
from extrap.fitting.landing.prior import (
    DRIFT,
    Prior,
    landing_prior,
    narrowed,
)
from extrap.fitting.one_thread import one_thread
from extrap.reading.frames import is_table
from extrap.reading.logs import LoggedRun, LogReader, logged_run
from extrap.reading.table_files import read_table
from extrap.records import Interval, Recipe
from extrap.records.codec import encode
from extrap.records.fields import (
    LARGEST_LOSS,
    SMALLEST_LOSS,
    Positive,
    Rule,
    at_least,
    fitted,
    require_level,
)
from extrap.records.numbers import (
    counted,
    format_interval,
    format_quantity,
    format_value,
    plain,
)

VISIBLE_PATH = 0.05
"""How far the root of the rate has fallen when a log begins to show what the rate adds."""
NUMBER_RULES: dict[str, Any] = {
    "total_steps": Annotated[
        float, Rule("be above 0 and at most 1e15", lambda steps: 0 < steps <= 1e15)
    ],
    "warmup": Annotated[float, at_least(0)],
    "decay": Annotated[float, at_least(0)],
    "final": Annotated[float, Rule("lie in [0, 1]", lambda share: 0 <= share <= 1)],
    "cooldown_now": Annotated[
        float, Rule("be a share of all steps, in (0, 1)", lambda share: 0 < share < 1)
    ],
    "peak": Positive,
}
"""What the numbers of a landing must be, where they are given."""
N_PATH = 20
"""Steps of the forecast in the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Where a run's loss ends.

    Attributes:
        loss: Median of the loss at the end; None with a refusal.
        interval: Its interval, at `level`; of a noisy loss that of the mean of the last 2 %.
        level: In (0, 1).
        present: The loss now, without its noise.
        drop: Loss that the fall of the rate takes away until the end; None if it never falls.
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
    numbers = {
        **{"total_steps": total_steps, "warmup": warmup, "decay": decay, "final": final},
        **{"cooldown_now": cooldown_now, "peak": peak},
    }
    for name, number in numbers.items():
        if number is not None:
            fitted(number, NUMBER_RULES[name], argument(name))
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
    like = like if isinstance(like, list | tuple) else [like]
    log = read_log(curve, **columns)
    total = _total_steps(log, total_steps)
    plan = plan_of(log, total, rates=rates, **settings)
    now = float(log.steps[-1])
    if cooldown_now is not None:
        plan, total = with_cooldown(plan, now, cooldown_now, final)
    if peak is not None or plan.peak is None:
        plan = plan._replace(peak=peak)
    finished = [finished_run(read_log(source, **columns), settings) for source in like]
    require_others(finished, log, plan, tuned=tuned)
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
    is_loss = (log.losses > SMALLEST_LOSS) & (log.losses < LARGEST_LOSS) & (log.steps > 0)
    log = replace(log, steps=log.steps[is_loss], losses=log.losses[is_loss])
    is_new = np.r_[True, (np.diff(log.steps) != 0) | (np.diff(log.losses) != 0)][: len(log.steps)]
    log = replace(log, steps=log.steps[is_new], losses=log.losses[is_new])
    if not len(log.steps):
        raise DataError(f"{where} has no loss above 0 at a step above 0.")
    back = np.diff(log.steps) <= 0
    if back.any():
        last = format_quantity(log.steps[:-1][back][0])
        raise DataError(
            f"the steps of {where} do not rise after {last}, as after a restart, where two runs "
            "are in one log, or where two kinds of loss are in one column; give the log of the "
            "run, and the loss, that counts."
        )
    return log


def _pairs(source: Any, step: str, loss: str, rate: str | None) -> Any:
    """A table of (step, loss) or (step, loss, rate)."""
    import pandas as pd

    if isinstance(source, Mapping):
        return pd.DataFrame(source)
    try:
        rows = [tuple(row) for row in source]
    except TypeError:
        rows = [()]
    if not rows or {len(row) for row in rows} not in ({2}, {3}):
        raise TypeError(
            "a log is a path, a table, or rows of step and loss or of step, loss and rate, got "
            f"{shown(source)}; give one of these."
        )
    return pd.DataFrame(rows, columns=[step, loss, rate or "lr"][: len(rows[0])])


def _total_steps(log: LoggedRun, total_steps: float | None) -> float:
    total = log.total_steps if total_steps is None else total_steps
    if total is None:
        raise DataError(
            "the log does not say how many steps the run makes; give "
            f"{argument('total_steps', ...)}."
        )
    if total < log.steps[-1]:
        raise DataError(
            f"{argument('total_steps')} is the last step of the run, got "
            f"{format_quantity(total)} and a log up to {format_quantity(log.steps[-1])}."
        )
    return float(total)


def _landing(
    log: LoggedRun, plan: Plan, total: float, finished: Sequence[FinishedRun], level: float
) -> Landing:
    schedule, now = plan.schedule, float(log.steps[-1])
    path = schedule.path(schedule.steps)
    visible = schedule.steps[path > VISIBLE_PATH]
    informative = [run for run in finished if run.shape is not None]
    notes = [f"The learning rates are taken from {plan.how}."] if plan.how else []
    if n_unlike := len(finished) - len(informative):
        runs = counted(n_unlike, "finished run")
        notes.append(f"{runs} did not count: their curves are unlike any that the law describes.")
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
        n_like=len(informative),
        peak=plan.peak,
        path=(),
        log=(),
        rates=tuple(zip(schedule.steps.tolist(), schedule.shares.tolist(), strict=True)),
        notes=tuple(notes),
    )
    means = fitted_log(log.steps, log.losses, plan.schedule)
    if isinstance(means, str):
        return replace(result, refusal=means)
    prior = prior_like(finished, schedule, total, landing_prior(plan.peak))
    posterior = landing_posterior(means, schedule, end=total, prior=prior)
    points = tuple(zip(means.steps.tolist(), means.losses.tolist(), strict=True))
    result = replace(result, present=means.level, log=points, notes=_notes(result, means))
    if posterior is None or (reason := refusal_of(posterior, log.steps)):
        return replace(result, refusal=reason if posterior else UNLIKE_THE_LAW)
    mixture = end_of(posterior, log.steps)
    interval = mixture.interval(level)
    result = replace(
        result,
        loss=mixture.quantile(0.5),
        interval=interval,
        present=posterior.at(np.array([now])).quantile(0.5),
        drop=None if result.known_from is None else posterior.drop(),
        path=tuple(_path(posterior, level)),
    )
    is_hidden = result.known_from is not None and now < result.known_from
    if is_hidden and not finished and now < total:
        width = _width_with_like(posterior, prior, log, level)
        result = replace(result, width_with_like=width)
    ratio = ratio_ending(finished, log, schedule, total, level)
    if ratio is None:
        return result
    end, n_like = ratio
    return replace(
        result, method="ratio", n_like=n_like, loss=end.loss, interval=end.interval, path=()
    )


def _notes(result: Landing, log: BinnedLog) -> tuple[str, ...]:
    if not log.n_spikes:
        return result.notes
    spikes = counted(log.n_spikes, "spike")
    return (*result.notes, f"{spikes} of the loss replaced by the median of the losses around.")


def _path(posterior: LandingPosterior, level: float) -> list[tuple[float, float, float, float]]:
    steps = np.linspace(posterior.log.last_step, posterior.end, N_PATH + 1)
    rows = []
    for step, mixture in zip(steps, posterior.course(steps), strict=True):
        lower, upper = mixture.interval(level)
        rows.append((float(step), mixture.quantile(0.5), float(lower or 0), float(upper or 0)))
    return rows


def _width_with_like(
    posterior: LandingPosterior, prior: Prior, log: LoggedRun, level: float
) -> float | None:
    """Half width over the loss with a finished run like this one."""
    mean, _ = posterior.shape
    prior = narrowed(prior, [(mean, DRIFT)])
    with_one = landing_posterior(posterior.log, posterior.schedule, end=posterior.end, prior=prior)
    if with_one is None:
        return None
    mixture = end_of(with_one, log.steps)
    lower, upper = mixture.interval(level)
    return float(((upper or 0) - (lower or 0)) / 2 / mixture.quantile(0.5))
