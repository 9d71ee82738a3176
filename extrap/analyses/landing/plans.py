"""The learning rates of a whole run: from a table, a name, a recipe, or what is logged so far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from extrap.errors import Choice, DataError, argument
from extrap.fitting.landing.schedule import RateSchedule, named_schedule
from extrap.laws.base import Array
from extrap.reading.logs import LoggedRun, logged_run
from extrap.reading.table_files import read_table
from extrap.records import Recipe
from extrap.records.numbers import format_percent, format_quantity

RATE_TOLERANCE = 0.02
"""Share of the peak by which a logged rate may differ from the plan."""
LARGEST_WRONG_SHARE = 0.05
"""Share of the logged rates that may differ by more."""
COMPARED_AFTER_WARMUPS = 1.2
"""Times the warm-up after which logged rates are compared."""
INFERRED_FINALS = (0.0, 0.1)
"""Final shares of the peak that are tried where the log alone must tell its plan."""
N_COMPARED = 40
"""Steps at which schedules are compared."""
MIN_FALLING = 4
"""Logged rates at the peak, and below it, from which on a straight fall is told."""
LEAST_FALL = 0.02
"""Share of its peak by which a logged rate must have fallen to tell its plan."""


class Plan(NamedTuple):
    """The rates of a run.

    Attributes:
        schedule: Shares of the peak.
        peak: The largest rate; None where only shares are known.
        how: What it was taken from, for a note; empty where it was given.
    """

    schedule: RateSchedule
    peak: float | None
    how: str = ""


def plan_of(
    log: LoggedRun,
    total_steps: float,
    *,
    schedule: str | Recipe | None,
    rates: Any,
    warmup: float | None,
    decay: float | None,
    final: float,
) -> Plan:
    """The rates of a run up to its end; those that are logged must be those planned.

    Args:
        log: The run.
        total_steps: Its last step.
        schedule: A name that `Recipe` has, or a recipe.
        rates: A table with `step` and `lr`, instead of a name.
        warmup: Steps of the warm-up, or below 1 their share; by default as logged.
        decay: Steps of the decay of `wsd`, or below 1 their share.
        final: Last rate over the peak.

    Raises:
        DataError: Nothing tells the rates, or the logged ones are not those planned.
        ValueError: A setting is impossible.
    """
    if len(log.rates) and log.rates.max() <= 0:
        raise DataError(
            "the logged learning rates are never above 0; log them, leave the column out, or name "
            f"another with {argument('rate', ...)}."
        )
    if rates is not None:
        if schedule is not None:
            raise ValueError(
                f"{argument('rates')} and {argument('schedule')} are two plans; give one of them."
            )
        rows = read_table(rates).assign(loss=1.0)
        table = logged_run(rows, where="the table of rates")
        if not len(table.rates):
            raise DataError("the table of rates has no column of learning rates; call one lr.")
        last_first = logged_run(rows.iloc[::-1], where="the table of rates")
        if not np.array_equal(table.rates, last_first.rates):
            step = table.rate_steps[table.rates != last_first.rates][0]
            raise DataError(
                f"the table of rates has two at step {format_quantity(step)}; give one per step, "
                "the one after a jump at the next step."
            )
        if table.rate_steps[-1] < (1 - RATE_TOLERANCE) * total_steps:
            raise DataError(
                f"the table of rates ends at step {format_quantity(table.rate_steps[-1])} of "
                f"{format_quantity(total_steps)}; add the rates up to the end."
            )
        planned = RateSchedule.from_rates(table.rate_steps, table.rates, total_steps)
        plan = Plan(planned, float(table.rates.max()))
    elif schedule is not None:
        if warmup is None and not isinstance(schedule, Recipe):
            warmup = _logged_warmup(log) / total_steps
        planned = named_schedule(schedule, total_steps, warmup or 0.0, decay, final)
        plan = Plan(planned, _peak(log, planned))
    else:
        plan = _inferred(log, total_steps, decay)
    require_planned_rates(log, plan)
    return plan


def with_cooldown(plan: Plan, now: float, share: float, final: float) -> tuple[Plan, float]:
    """The plan if the rate began to fall now, straight, over a share of all steps; the new end."""
    end = now / (1 - share)
    before = plan.schedule.steps < now
    rate = plan.schedule.share(np.array([now]))
    steps = np.r_[plan.schedule.steps[before], now, end]
    shares = np.r_[plan.schedule.shares[before], rate, final]
    return plan._replace(schedule=RateSchedule.from_rates(steps, shares, end)), end


def _peak(log: LoggedRun, schedule: RateSchedule) -> float | None:
    """The largest rate of a schedule that has the largest late one where that was logged.

    A log whose first row is long after the warm-up never has the peak itself.
    """
    if not len(log.rates):
        return None
    logged, is_late = float(log.rates.max()), _is_late(log, schedule)
    if not is_late.any():
        return logged
    largest = int(np.argmax(np.where(is_late, log.rates, -1.0)))
    share = float(schedule.share(log.rate_steps[largest : largest + 1])[0])
    planned = float(log.rates[largest]) / (share or 1.0)
    return logged if abs(planned - logged) <= RATE_TOLERANCE / 2 * logged else planned


def _logged_warmup(log: LoggedRun) -> float:
    """Steps until the peak, as logged; 0 where the first logged rate is the peak."""
    if not len(log.rates):
        return 0.0
    peak = int(np.argmax(log.rates >= (1 - LEAST_FALL / 2) * log.rates.max()))
    return float(log.rate_steps[peak]) if peak else 0.0


def _is_late(log: LoggedRun, schedule: RateSchedule) -> Array:
    """Which rates were logged some time after the warm-up."""
    return np.asarray(log.rate_steps > COMPARED_AFTER_WARMUPS * schedule.peak_step)


def _wrong(log: LoggedRun, plan: Plan) -> Array:
    """Which logged rates are above the peak, or after the warm-up not the planned ones."""
    shares = log.rates / (plan.peak or 1.0)
    differences = np.abs(shares - plan.schedule.share(log.rate_steps))
    is_off = np.where(_is_late(log, plan.schedule), differences > RATE_TOLERANCE, False)
    return np.asarray(is_off | (shares > 1 + RATE_TOLERANCE))


def _contradicts(wrong: Array) -> bool:
    """Whether too many logged rates are wrong, or the last ones: a fall that is not planned."""
    return bool(wrong.mean() > LARGEST_WRONG_SHARE or wrong[-MIN_FALLING:].all())


def require_planned_rates(log: LoggedRun, plan: Plan) -> None:
    """Raise where the logged rates are not those planned: what is believed of the rest is not."""
    if plan.peak is None or not len(log.rates):
        return
    wrong = _wrong(log, plan)
    if _contradicts(wrong):
        first = int(np.argmax(wrong))
        step = log.rate_steps[first]
        share = plan.peak * plan.schedule.share(np.array([step]))[0]
        raise DataError(
            f"the logged learning rates are not those of the schedule: at step "
            f"{format_quantity(step)} {format_quantity(log.rates[first])} is logged and "
            f"{format_quantity(share)} planned; correct the schedule, the warm-up or the number "
            f"of steps, or give the planned rates with {argument('rates', ...)}."
        )


def _candidates(log: LoggedRun, total_steps: float) -> Iterator[tuple[str, RateSchedule]]:
    if (fall := _straight_fall(log, total_steps)) is not None:
        yield fall
    for kind in ("linear", "cosine"):
        for final in INFERRED_FINALS:
            warmup = _logged_warmup(log) / total_steps
            schedule = named_schedule(kind, total_steps, warmup, final=final)
            yield f"the log: {kind} to {_of_peak(final)}", schedule


def _straight_fall(log: LoggedRun, total_steps: float) -> tuple[str, RateSchedule] | None:
    """A constant rate that has begun to fall straight, and falls on to the end."""
    shares = log.rates / log.rates.max()
    falling = np.flatnonzero(shares >= 1 - LEAST_FALL / 2)[-1] + 1
    steps, fallen = log.rate_steps[falling:], shares[falling:]
    if len(steps) < MIN_FALLING or falling - np.argmax(shares >= 1 - LEAST_FALL / 2) < MIN_FALLING:
        return None
    slope, level = np.polyfit(steps, fallen, 1)
    final = float(level + slope * total_steps)
    start = float((1 - level) / slope)
    nearest = min(INFERRED_FINALS, key=lambda usual: abs(final - usual))
    is_straight = np.abs(level + slope * steps - fallen).max() <= LEAST_FALL / 2
    if not is_straight or abs(final - nearest) > LEAST_FALL:
        return None  # the start of a curved fall is straight too, but leads elsewhere
    final = final if nearest else 0.0
    knots, rates = [0.0, start, total_steps], [1.0, 1.0, final]
    if warmup := _logged_warmup(log):
        knots, rates = [0.0, warmup, *knots[1:]], [0.0, *rates]
    how = f"the log: straight from step {format_quantity(round(start))} to {_of_peak(final)}"
    return how, RateSchedule.from_rates(np.array(knots), np.array(rates), total_steps)


def _of_peak(final: float) -> str:
    return f"{format_percent(final, signed=False)} of the peak" if final else "0"


def _inferred(log: LoggedRun, total_steps: float, decay: float | None) -> Plan:
    """The plan that the logged rates tell.

    Raises:
        DataError: They do not.
    """
    choices = [
        Choice({"schedule": "cosine"}),
        Choice({"schedule": "linear"}),
        Choice({"schedule": "wsd", "decay": 0.2 if decay is None else decay}),
        Choice({"schedule": "constant"}),
    ]
    if not len(log.rates):
        raise DataError(
            "the log has no learning rates, and how the rate goes on decides where the loss ends; "
            "say how it goes:",
            choices,
        )
    peak = float(log.rates.max())
    is_past_warmup = log.rate_steps[-1] > _logged_warmup(log)
    if is_past_warmup and log.rates[-1] < (1 - LEAST_FALL) * peak:
        matches = [
            plan
            for how, schedule in _candidates(log, total_steps)
            if not _contradicts(_wrong(log, plan := Plan(schedule, _peak(log, schedule), how)))
        ]
        steps = np.linspace(log.rate_steps[-1], total_steps, N_COMPARED)
        shares = np.array([plan.schedule.share(steps) for plan in matches])
        if matches and np.ptp(shares, axis=0).max() <= RATE_TOLERANCE:
            return matches[-1]
        del choices[-1]  # it is not constant
    raise DataError(
        "the logged learning rates do not tell how the rate goes on, which decides where the loss "
        "ends; say how it goes:",
        choices,
    )
