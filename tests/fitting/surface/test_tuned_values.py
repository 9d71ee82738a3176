"""What draws say of tuned values at one size, against closed forms of known draws."""

import math

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.surface.tuned_values import TunedValues
from tests.checking.byhand import LARGE, by_hand, lr_at, of_rate, size_draws

SD = 0.26 / math.log(2)
"""Octaves: of the optimum at width 1024."""
Z = stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)


def values_of(*, level=0.9, **shape):
    return by_hand(level=level, surface=of_rate(**shape)).values_at(LARGE)


def costs_at(octaves):
    """Of .02 octave², no more than 1, over a normal optimum."""
    return np.minimum(0.02 * (octaves - SD * Z) ** 2, 1.0)


@pytest.mark.parametrize("octaves", [-4.0, 0.0, 1.0, 6.9])
def test_penalty_is_the_mean_excess_and_its_quantiles(octaves):
    penalty, interval = values_of(level=0.8).penalty({"lr": lr_at(1024) * 2**octaves})
    costs = costs_at(octaves)
    assert penalty == pytest.approx(costs.mean(), rel=0.01)
    low, high = np.quantile(costs, [0.1, 0.9])
    assert interval == pytest.approx((low, max(high, penalty)), rel=0.02, abs=1e-5)


def test_the_interval_of_a_skewed_cost_holds_its_mean():
    penalty, interval = values_of(level=0.3).penalty({"lr": lr_at(1024)})
    assert penalty == interval.upper


def test_a_kept_value_is_as_far_off_as_the_optimum_moves():
    """The best rate falls by half an octave a doubling: from width 256 or 16 to 1024."""
    made = by_hand()
    values = made.values_at(LARGE)
    for from_largest, width, octaves in ((True, 256.0, 1.0), (False, 16.0, 3.0)):
        (kept,) = values.keep(made.optima, from_largest=from_largest)
        assert (kept.kept_from, kept.kept) == ({"width": width}, pytest.approx(lr_at(width)))
        assert kept.octaves == pytest.approx(octaves, abs=0.01)
        assert kept.penalty == pytest.approx(costs_at(octaves).mean(), rel=0.01)
        assert kept.penalty in kept.penalty_pi


def test_what_a_run_may_lose_has_the_probabilities_and_the_mean_of_the_draws():
    groups = values_of().possible_excesses({"lr": lr_at(1024) * 2})
    excesses, probabilities = np.array(groups).T
    assert probabilities.sum() == pytest.approx(1)
    assert excesses @ probabilities == pytest.approx(costs_at(1.0).mean(), rel=0.01)
    below = probabilities[excesses < np.quantile(costs_at(1.0), 0.3)].sum()
    assert below == pytest.approx(0.3, abs=0.02)


def test_interval_of_the_optimum_is_wider_than_that_of_its_law():
    """Normal with .1 and .26 in log rate."""
    estimate = values_of(level=0.9).estimates["lr"]
    z = stats.norm.ppf(0.95)
    assert estimate.value == pytest.approx(lr_at(1024), rel=1e-3)
    for interval, sd in ((estimate.ci, 0.1), (estimate.pi, 0.26)):
        ends = np.log(np.array(interval) / lr_at(1024))
        assert ends == pytest.approx([-z * sd, z * sd], rel=0.01)
    assert estimate.se == pytest.approx(0.1 * lr_at(1024), rel=0.01)


def test_near_a_cliff_a_lower_value_is_advised_and_others_diverge():
    """Log odds of 10 an octave about half an octave above the centre."""
    free, near = values_of(scatter=1e-6), values_of(scatter=1e-6, cliff=0.5)
    assert free.recommendation.chance_of_divergence is None
    assert free.chance({"lr": 1.0}) == 0.0
    advised = near.recommendation
    assert advised.octaves["lr"] < free.recommendation.octaves["lr"] - 0.1
    assert advised.chance_of_divergence == pytest.approx(near.chance(advised.tuned))
    assert advised.expected_excess < advised.at_optimum
    chances = [near.chance({"lr": lr_at(1024) * 2**u}) for u in (-1.0, 0.3, 0.5, 0.7, 2.0)]
    assert chances == pytest.approx(1 / (1 + np.exp([15, 2, 0, -2, -15])), rel=1e-2, abs=1e-6)
    excesses = [near.penalty({"lr": lr_at(1024) * 2**u})[0] for u in (-4.0, -3.0, -2.0)]
    assert excesses == sorted(excesses, reverse=True)


def two_columns(curvatures, turn=0.0, n=2048):
    z = np.random.default_rng(0).normal(size=(n, 2)) * 0.3
    return TunedValues(
        size=LARGE,
        names=("lr", "wd"),
        level=0.9,
        draws=size_draws(z, curvature=curvatures, turn=turn),
    )


def test_a_column_that_is_not_given_is_at_its_own_optimum():
    """Of a known parabola k u² / 2 in each column: the other one adds nothing."""
    values = two_columns([0.04, 0.1])
    off = np.array([1.0, -2.0]) - values.draws.optimum
    one, both = 0.02 * off[:, 0] ** 2, 0.02 * off[:, 0] ** 2 + 0.05 * off[:, 1] ** 2
    assert values.excesses({"lr": 2.0}) == pytest.approx(one)
    assert values.excesses({"lr": 2.0, "wd": 0.25}) == pytest.approx(both)
    assert values.excesses_at(np.array([1.0, -2.0]) - values.optimum) == pytest.approx(both)


@pytest.mark.parametrize(
    ("curvature", "is_flat"), [(1e-7, True), (6e-4, True), (0.006, False), (0.04, False)]
)
def test_a_column_is_flat_where_no_value_of_a_wide_range_costs_anything(curvature, is_flat):
    """Up to .3 %: √(.006 / k) octaves either way, at least two in all, known to .3 octaves."""
    found = two_columns([0.04, curvature]).flat_range("wd", 2.0**-8, 2.0**8)
    assert (found is not None) == is_flat
    assert two_columns([0.04, curvature]).flat_range("lr", 2.0**-8, 2.0**8) is None
    if found is not None:
        (low, high), most = found
        reach = min(math.sqrt(0.006 / curvature), 8.0)
        assert math.log2(high) == pytest.approx(reach, abs=1.0)
        assert math.log2(low) == pytest.approx(-reach, abs=1.0)
        assert most <= 0.003
        assert most == pytest.approx(curvature / 2 * (math.log2(high) ** 2 + 0.09), rel=0.2)
