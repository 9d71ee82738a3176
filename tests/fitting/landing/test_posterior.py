"""Ends of simulated runs of the law."""

import numpy as np
import pytest

from extrap.fitting.landing.ending import ending, fitted_log
from extrap.fitting.landing.posterior import landing_posterior, unit_curves
from extrap.fitting.landing.prior import landing_prior, moved, narrowed, pooled
from extrap.fitting.landing.schedule import RateSchedule
from tests.landings import TOTAL, USUAL, drawn_shape, drift, law, rates

NOISE, EVERY = 0.001, 50
PRIOR = landing_prior(5e-4)


def simulated(kind, seed, *, until=0.5):
    """Steps and losses up to a share of a run with a shape of its own; and its end."""
    rng = np.random.default_rng(seed)
    losses = law(rates(kind), drawn_shape(rng)) * (1 + drift(rates(kind), rng))
    steps = np.arange(EVERY, round(until * TOTAL) + 1, EVERY)
    noise = NOISE * np.random.default_rng(1000 + seed).normal(size=len(steps))
    return steps.astype(float), losses[steps] * (1 + noise), losses[-1]


def schedule_of(kind):
    return RateSchedule.from_rates(np.arange(TOTAL + 1.0), rates(kind), TOTAL)


def recovered(kind, n, *, until=0.5):
    """Share of the 90 % intervals that hold, and relative errors."""
    schedule = schedule_of(kind)
    is_inside, errors = [], []
    for seed in range(n):
        steps, losses, end = simulated(kind, seed, until=until)
        told = ending(steps, losses, schedule, end=TOTAL, prior=PRIOR, level=0.9)
        is_inside.append(end in told.interval)
        errors.append(told.loss / end - 1)
    return np.mean(is_inside), np.array(errors)


@pytest.mark.parametrize("kind", ["constant", "cosine", "wsd"])
def test_the_curves_are_those_of_the_law(kind):
    """V is the loss now, V·R is A·S^-a now, and V·R_T·b is B."""
    shape = drawn_shape(np.random.default_rng(7))
    losses = law(rates(kind), shape)
    now, steps = 6000, np.array([2000, 4000, 7000, 8500, 9500, TOTAL])
    progress = np.cumsum(rates(kind) ** 0.65)
    learnable = shape.left * (progress[now] / progress[-1]) ** -shape.exponent
    row = np.log([shape.exponent, shape.added / shape.left, shape.lag]).tolist()
    curves = unit_curves(
        np.array([[*row, shape.power, shape.fading]]),
        schedule_of(kind),
        steps.astype(float),
        float(now),
        float(TOTAL),
    )
    assert losses[now] + learnable * curves[0] == pytest.approx(losses[steps], abs=0.002)


@pytest.mark.parametrize(("kind", "largest"), [("constant", 0.004), ("cosine", 0.008)])
def test_the_end_of_a_simulated_run_is_recovered(kind, largest):
    share, errors = recovered(kind, 6)
    assert share >= 5 / 6
    assert np.median(np.abs(errors)) < largest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "until", "largest"),
    [
        ("constant", 0.5, 0.003),
        ("cosine", 0.5, 0.006),
        ("linear", 0.5, 0.006),
        ("wsd", 0.5, 0.015),
        ("wsd", 0.9, 0.005),
    ],
)
def test_intervals_hold_as_often_as_they_say(kind, until, largest):
    share, errors = recovered(kind, 100, until=until)
    assert 0.85 <= share <= 0.97
    assert np.median(np.abs(errors)) < largest
    assert abs(np.median(errors)) < largest / 3


def posterior_of(steps, losses, schedule, *, end=TOTAL, seed=0):
    log = fitted_log(steps, losses, schedule)
    return landing_posterior(log, schedule, end=end, prior=PRIOR, seed=seed)


def quantiles(posterior):
    mixture = posterior.landing()
    return np.array([mixture.quantile(share) for share in (0.05, 0.5, 0.95)])


@pytest.fixture(scope="module")
def half():
    """Half of a cosine."""
    return simulated("cosine", 3)


@pytest.fixture(scope="module")
def base(half):
    """Quantiles of its end."""
    steps, losses, _ = half
    return quantiles(posterior_of(steps, losses, schedule_of("cosine")))


def test_twice_the_loss_ends_at_twice_the_loss(half, base):
    steps, losses, _ = half
    doubled = quantiles(posterior_of(steps, 2 * losses, schedule_of("cosine")))
    assert doubled == pytest.approx(2 * base, rel=1e-6)


def test_the_unit_of_steps_does_not_matter(half, base):
    steps, losses, _ = half
    schedule = RateSchedule.from_rates(10 * np.arange(TOTAL + 1.0), rates("cosine"), 10 * TOTAL)
    scaled = posterior_of(10 * steps, losses, schedule, end=10 * TOTAL)
    assert quantiles(scaled) == pytest.approx(base, rel=1e-6)


def test_the_seed_of_the_draws_hardly_matters(half, base):
    """Ends of the interval move by more than the median: few draws lie beyond them."""
    steps, losses, _ = half
    half_width = (base[2] - base[0]) / 2
    others = [
        quantiles(posterior_of(steps, losses, schedule_of("cosine"), seed=seed))
        for seed in range(1, 6)
    ]
    moved_by = np.median(np.abs(others - base), axis=0) / half_width
    assert (moved_by < [0.15, 0.1, 0.15]).all()


@pytest.mark.parametrize("share", [0.85, 0.9, 0.95])
def test_the_drop_is_the_part_of_the_fall_that_is_not_learned(share):
    """The fall of the simulated law to the end, less that of its power of the progress."""
    losses, progress = law(rates("wsd")), np.cumsum(rates("wsd") ** 0.65)
    steps = np.arange(EVERY, share * TOTAL + 1, EVERY).astype(int)
    left = USUAL.left * (progress[steps[-1]] / progress[-1]) ** -USUAL.exponent - USUAL.left
    expected = losses[steps[-1]] - losses[-1] - left
    posterior = posterior_of(steps.astype(float), losses[steps], schedule_of("wsd"))
    assert posterior.drop() == pytest.approx(expected, abs=0.01)


def test_a_finished_run_moves_to_one_of_more_progress_by_the_law():
    """A·S^-a and B·S^-d keep A, B, so R_T falls as S^-a and b = B / R_T rises as S^(a − d)."""
    mean, covariance = pooled(PRIOR)
    shape, _ = moved(mean, covariance, progress=8.0, rates=4.0)
    exponent = np.exp(mean[1])
    assert np.exp(shape[0] - mean[0]) == pytest.approx(8.0**-exponent)
    assert np.exp(shape[2] - mean[2]) == pytest.approx(8.0 ** (exponent - mean[5]))
    assert np.exp(shape[3] - mean[3]) == pytest.approx(1 / 4)
    same, spread = moved(mean, covariance, progress=1.0, rates=1.0)
    assert same == pytest.approx(mean)
    assert spread == pytest.approx(covariance)


def test_finished_runs_narrow_the_prior_about_them():
    mean, covariance = pooled(PRIOR)
    shape = mean + 0.3
    (alike, *general) = narrowed(PRIOR, [(shape, 0.01 * np.eye(6))])
    assert (np.diag(alike.covariance) < np.diag(covariance)).all()
    assert (np.abs(alike.mean - shape) < np.abs(mean - shape)).all()
    assert alike.share + sum(part.share for part in general) == pytest.approx(1)
