"""Sums of a learning rate against sums over every step."""

import numpy as np
import pytest

from extrap.errors import DataError
from extrap.fitting.landing.schedule import MOST_KNOTS, RateSchedule, named_schedule
from extrap.records import Recipe
from extrap.records.schedules import multiplier
from tests.landings import TOTAL, WARMUP, rates

EVERY_STEP = np.arange(TOTAL + 1.0)
KINDS = ["constant", "linear", "cosine", "wsd"]


def schedule_of(kind):
    return RateSchedule.from_rates(EVERY_STEP, 3e-4 * rates(kind), TOTAL)


def followed(rate, power, lag):
    """The rate's power with a lag in the summed rate, a hundredth of a step at a time."""
    fine = np.interp(np.arange(0, TOTAL + 1, 0.1), EVERY_STEP, rate)
    shares = 1 - np.exp(-fine * 0.1 / lag)
    felt = fine[0] ** power
    course = [felt]
    for share, goal in zip(shares[1:], fine[1:] ** power, strict=True):
        felt += share * (goal - felt)
        course.append(felt)
    return np.array(course)[::10]


@pytest.mark.parametrize("kind", KINDS)
def test_progress_is_the_sum_of_a_power_of_the_rate(kind):
    summed = np.cumsum(rates(kind) ** 0.65)
    steps = np.array([1000.0, 3333.0, 5000.5, 9000.0, TOTAL])
    brute = np.interp(steps, EVERY_STEP, summed)
    assert schedule_of(kind).progress(steps) == pytest.approx(brute, rel=0.002)


def test_path_is_how_far_the_root_of_the_rate_moved_after_the_peak():
    rate = np.r_[rates("wsd", decay=0.5)[:-1], 0.25]
    schedule = RateSchedule.from_rates(EVERY_STEP, rate, TOTAL)
    path = schedule.path(np.array([100.0, 5000.0, 7500.0, TOTAL]))
    up_again = 1 + 0.5 - 2 * np.sqrt(2 / TOTAL)
    assert path == pytest.approx([0, 0, 1 - np.sqrt(0.5), up_again], abs=0.02)


@pytest.mark.parametrize("kind", ["cosine", "wsd"])
@pytest.mark.parametrize(("power", "lag"), [(0.78, 40.0), (1.3, 400.0)])
def test_response_follows_the_rate_with_its_lag(kind, power, lag):
    rate = rates(kind)
    steps = np.array([WARMUP, 4000.0, 8100.0, 9000.0, 9900.0])
    response = schedule_of(kind).response(steps, np.array([power]), np.array([lag]))[0]
    brute = followed(np.where(EVERY_STEP < WARMUP, 1.0, rate), power, lag)
    assert response == pytest.approx(brute[steps.astype(int)], abs=0.004)


@pytest.mark.parametrize("kind", KINDS)
def test_a_named_schedule_is_that_of_a_recipe(kind):
    """Update k of a recipe is scaled by the formula of step k − 1."""
    decay = 0.2 if kind == "wsd" else None
    schedule = named_schedule(kind, TOTAL, 0.02, decay)
    shares = {"warmup": 0.02} | ({} if decay is None else {"decay": decay})
    recipe = Recipe(steps=TOTAL, schedule=kind, **shares)
    steps = np.array([50, 150, 1000, 5000, 8500, 9900])
    formula = [multiplier(recipe, step) for step in steps.tolist()]
    assert schedule.share(steps) == pytest.approx(formula, abs=0.003)
    in_steps = named_schedule(kind, TOTAL, 200, decay and decay * TOTAL)
    assert in_steps.share(steps) == pytest.approx(schedule.share(steps), abs=1e-12)


def test_a_final_rate_is_reached_at_the_end():
    schedule = named_schedule("cosine", TOTAL, 200, final=0.1)
    assert schedule.share(np.array([TOTAL, 5100.0])) == pytest.approx([0.1, 0.55], abs=1e-3)


def test_a_recipe_is_stretched_to_the_steps_of_the_run():
    recipe = Recipe(steps=77, schedule="wsd", warmup=0.05, decay=0.5)
    schedule = named_schedule(recipe, TOTAL)
    assert schedule.share(np.array([250.0, 3000.0, 7500.0])) == pytest.approx(
        [0.5, 1, 0.5], abs=0.01
    )


@pytest.mark.parametrize("total", [1.0, 2.6, 50])
def test_steps_may_be_epochs_or_billions_of_tokens(total):
    few = named_schedule("cosine", total, 0.02, final=0.1)
    shares = np.array([0.1, 0.3, 0.5, 0.9, 1.0])
    usual = named_schedule("cosine", TOTAL, 200, final=0.1)
    assert few.share(shares * total) == pytest.approx(usual.share(shares * TOTAL), abs=0.004)
    assert few.rate_sum / total == pytest.approx(usual.rate_sum / TOTAL, rel=0.005)


def test_rates_beyond_the_end_do_not_count_and_must_begin_early():
    steps = np.array([0.0, 500.0, 20_000.0])
    longer = RateSchedule.from_rates(steps, np.array([0.0, 1.0, 0.0]), TOTAL)
    left = 1 - 9500 / 19_500
    assert longer.share(np.array([TOTAL])) == pytest.approx([left])
    assert longer.rate_sum == pytest.approx(250 + 9500 * (1 + left) / 2)
    with pytest.raises(DataError, match=r"begin at step 2,?000"):
        RateSchedule.from_rates(np.array([2000.0, 8000.0]), np.array([1.0, 0.0]), TOTAL)


def test_thinning_keeps_the_curve_and_its_sums():
    """A cosine with a sudden drop, at every step and at a tenth of them."""
    rate = rates("cosine", warmup=37)
    rate[6001:] *= 0.3
    thinned = RateSchedule.from_rates(EVERY_STEP, rate, TOTAL)
    assert len(thinned.steps) <= 1.5 * MOST_KNOTS
    away = np.abs(EVERY_STEP - 6000) > 50
    assert thinned.share(EVERY_STEP)[away] == pytest.approx(rate[away] / rate.max(), abs=0.01)
    assert thinned.progress(np.array([TOTAL])) == pytest.approx((rate**0.65).sum(), rel=0.003)
    assert thinned.peak_step == 37


@pytest.mark.parametrize("wrong", [[0.0, 0.0], [np.nan, 1.0], [-1.0, -2.0]])
def test_rates_are_numbers_above_0(wrong):
    with pytest.raises(ValueError, match="above 0"):
        RateSchedule.from_rates(np.array([0.0, 100.0]), np.array(wrong), 100)


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"schedule": "wsd"}, "decay"),
        ({"schedule": "cosine", "warmup": 20_000}, "20000"),
        ({"schedule": "wsd", "decay": -1}, "decay"),
        ({"schedule": "wsd", "decay": 0.9, "warmup": 0.5}, "sum to at most 1"),
        ({"schedule": "cosine", "warmup": np.nan}, "nan"),
        ({"schedule": "square"}, "square"),
    ],
)
def test_an_impossible_schedule_is_refused(settings, word):
    with pytest.raises(ValueError, match=word) as error:
        named_schedule(total_steps=TOTAL, **settings)
    assert not isinstance(error.value, DataError)
