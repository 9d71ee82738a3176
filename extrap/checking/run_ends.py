"""Where a running job ends by its own log, beside what was forecast for it."""

from __future__ import annotations

import math

import numpy as np

from extrap.fitting.landing.ending import Ending, ending
from extrap.fitting.landing.prior import landing_prior
from extrap.fitting.landing.schedule import named_schedule
from extrap.records import Point, Recipe, Runs
from extrap.records.numbers import format_interval, format_percent, format_value

ENDING_LEVEL = 0.9
"""Level of the interval of an end."""
INTERVAL_SDS = 2 * 1.645
"""Standard deviations from end to end of it."""
SLOW_DRIFT_SDS = 4.0
"""An end so many standard deviations above the forecast while the rate falls is a drift: a rise of
3 % in all is 4 to 5 off, one of 1 % is never clear."""
SCHEDULE_COLUMNS = ("schedule", "warmup", "decay")
"""Settings of runs that say the schedule, as studies record them."""


def recipe_of(runs: Runs) -> Recipe | None:
    """The schedule of a sweep's runs as a recipe; None where they do not all say the same."""
    table = runs.to_frame()
    values = {name: table[name].dropna().unique() for name in SCHEDULE_COLUMNS if name in table}
    if "schedule" not in values or any(len(different) != 1 for different in values.values()):
        return None
    settings = {name: different[0] for name, different in values.items()}
    try:
        shares = {name: float(settings[name]) for name in ("warmup", "decay") if name in settings}
        return Recipe(schedule=str(settings["schedule"]), **shares)  # type: ignore[arg-type]
    except ValueError:
        return None


class CourseToEnd:
    """The losses of a job so far, and where they end by its schedule.

    Args:
        recipe: Has the schedule; without one no end is known.
        forecast: What was forecast for the job.
        total_steps: Its last step.
    """

    def __init__(self, recipe: Recipe | None, forecast: Point, total_steps: float) -> None:
        self._forecast, self._end = forecast, total_steps
        self._schedule = None if recipe is None else named_schedule(recipe, total_steps)
        self._points: list[tuple[float, float]] = []

    def restart(self) -> None:
        """Forget the losses."""
        self._points = []

    def add(self, step: float, loss: float) -> None:
        """One more loss."""
        if step > 0 and math.isfinite(loss) and loss > 0:
            self._points.append((step, loss))

    def landing(self) -> Ending | None:
        """Where the loss ends; None where that is not known."""
        if self._schedule is None or not self._points:
            return None
        steps, losses = np.array(self._points).T
        prior = landing_prior(None)
        end = ending(steps, losses, self._schedule, end=self._end, prior=prior, level=ENDING_LEVEL)
        return None if isinstance(end, str) else end

    def sentence(self, landing: Ending, *, is_alarm: bool) -> str:
        """What an end says beside the forecast; empty where that is nothing.

        After an alarm, what the fault costs at the end; without one only a drift while the rate
        falls, which the comparison with the sweep's curves sees late.
        """
        expected = self._forecast.loss
        if expected is None:
            return ""
        difference = landing.loss / expected - 1
        end = f"{format_value(landing.loss)} ({format_interval(landing.interval)})"
        if is_alarm:
            return (
                f" As it goes on it ends at {end}, {format_percent(difference)} from the forecast."
            )
        if not self._is_drift(landing):
            return ""
        return (
            f" But the loss drifts while the rate falls: it ends at {end}, "
            f"{format_percent(difference)} from the forecast. Look at the data and the schedule."
        )

    def _is_drift(self, landing: Ending) -> bool:
        assert self._schedule is not None
        is_falling = self._schedule.share(np.array([self._points[-1][0]]))[0] < 1
        expected, half_width = self._forecast.loss, self._forecast.loss_half_width
        lower, upper = landing.interval
        if not (is_falling and expected and half_width and lower and upper):
            return False
        landing_sd, forecast_sd = (
            width / INTERVAL_SDS for width in (math.log(upper / lower), 2 * half_width)
        )
        error = math.hypot(landing_sd, forecast_sd)
        return math.log(landing.loss / expected) > SLOW_DRIFT_SDS * error
