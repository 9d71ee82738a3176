"""Where a watched run ends by its own log, and what `watch` says of it."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.checking.monitoring import Monitor, watch
from extrap.checking.run_ends import CourseToEnd, recipe_of
from extrap.records import Interval, Point, Recipe, Runs
from tests.landings import TOTAL, run_log, true_end

COSINE = Recipe(schedule="cosine", warmup=0.02)


def forecast_of(loss, *, half_width=0.006):
    """A point with a forecast of the loss and the half width of its 90 % interval."""
    return Point(
        size={"width": 512.0},
        loss=loss,
        loss_ci=Interval(),
        loss_pi=Interval(),
        tuned={},
        recommended={},
        extrapolation_ratio=4.0,
        loss_half_width=half_width,
    )


def course_of(log, *, recipe=COSINE, expected=None):
    course = CourseToEnd(recipe, forecast_of(expected or true_end()), TOTAL)
    for row in log.itertuples():
        course.add(row.step, row.loss)
    return course


def drifting(share, *, until=0.7):
    """A cosine whose loss rises by a share of itself, evenly from 30 % of the steps to the end."""
    log = run_log(until=until)
    return log.assign(loss=log["loss"] * (1 + share * (log["step"] / TOTAL - 0.3).clip(0) / 0.7))


def test_a_run_ends_where_its_law_does():
    course = course_of(run_log(until=0.6))
    landing = course.landing()
    assert true_end() in landing.interval
    assert landing.loss == pytest.approx(true_end(), rel=0.01)
    assert course.sentence(landing, is_alarm=False) == ""


@pytest.mark.parametrize("log", [run_log(until=0.6).iloc[:0], run_log(until=0.03, every=20)])
def test_nothing_is_said_before_the_log_tells_it(log):
    assert course_of(log).landing() is None


def test_nothing_is_said_without_a_schedule_or_after_a_restart():
    log = run_log(until=0.6)
    assert course_of(log, recipe=None).landing() is None
    course = course_of(log)
    course.restart()
    assert course.landing() is None


def test_losses_that_are_no_numbers_do_not_count():
    log = run_log(until=0.5)
    course, other = course_of(log), course_of(log)
    for wrong in (math.nan, math.inf, -1.0, 0.0):
        course.add(6000, wrong)
    assert course.landing() == other.landing()


def test_an_alarm_says_what_the_fault_costs_at_the_end():
    course = course_of(run_log(until=0.6), expected=true_end() / 1.05)
    landing = course.landing()
    cost = 100 * (landing.loss * 1.05 / true_end() - 1)
    assert f"{cost:+.1f}" in course.sentence(landing, is_alarm=True)


@pytest.mark.parametrize(("share", "is_said"), [(0.0, False), (0.03, True)])
def test_a_slow_drift_while_the_rate_falls_is_named(share, is_said):
    course = course_of(drifting(share))
    assert ("drift" in course.sentence(course.landing(), is_alarm=False)) == is_said


def test_a_drift_at_a_constant_rate_is_not_named():
    course = course_of(
        run_log("constant", until=0.7),
        recipe=Recipe(schedule="constant", warmup=0.02),
        expected=2.8,
    )
    assert course.sentence(course.landing(), is_alarm=False) == ""


def runs_with(**columns):
    table = pd.DataFrame({"width": [16, 32], "loss": [3.0, 2.9], **columns})
    return Runs.from_frame(table, sizes=["width"], tuned=[])


@pytest.mark.parametrize(
    ("columns", "recipe"),
    [
        ({}, None),
        ({"schedule": ["cosine", "wsd"]}, None),
        ({"schedule": ["square", "square"]}, None),
        ({"schedule": ["cosine", "cosine"], "warmup": [0.02, 0.02]}, COSINE),
    ],
)
def test_the_schedule_is_that_of_the_sweep_where_its_runs_say_one(columns, recipe):
    assert recipe_of(runs_with(**columns)) == recipe


class Log:
    """A log that is read once."""

    def __init__(self, points):
        self._points = points

    def poll(self):
        return self._points


@pytest.mark.parametrize("schedule", [None, COSINE])
def test_watch_has_the_landing_where_the_schedule_is_known(watched, draw_curve, schedule):
    losses = draw_curve(512, 0.0, np.random.default_rng(1))
    points = list(zip(20.0 * np.arange(1, 41), losses, strict=False))
    monitor = Monitor(watched, at={"width": 512}, schedule=schedule)
    *_, reading = watch(monitor, Log(points), once=True)
    assert (reading.landing is None) == (schedule is None)
    plain = replace(reading, landing=None, advice="")
    assert plain == replace(monitor.reading, landing=None, advice="")
    if schedule is not None:
        lower, upper = reading.landing.interval
        assert lower < reading.landing.loss < upper
        assert np.isfinite([lower, upper]).all()
