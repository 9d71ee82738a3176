from __future__ import annotations

import math

import numpy as np
import pytest

from extrap.fitting.precision import Precision, slope_weights

CURVATURE, SD = 0.01, 0.01
LOG2_SIZES = np.arange(5.0)[:, None]
PRECISION = Precision(curvature=CURVATURE, sd=SD, weights=slope_weights(LOG2_SIZES))
OFFSETS = np.array([-1.0, 0.0, 1.0])


def test_three_values_give_the_error_of_a_parabola() -> None:
    variance = PRECISION.of_position(OFFSETS, np.array([4, 4, 4]))
    exact = SD / (math.sqrt(2) * CURVATURE * math.sqrt(4))
    assert math.sqrt(variance) == pytest.approx(exact, rel=0.02)


def test_a_value_at_the_optimum_tells_nothing_about_where_it_is() -> None:
    with_it = PRECISION.of_position(np.array([-2, -1, 0, 1, 2.0]), np.array([2, 4, 4, 4, 2]))
    without = PRECISION.of_position(np.array([-2, -1, 1, 2.0]), np.array([2, 4, 4, 2]))
    assert with_it == pytest.approx(without, rel=0.2)


def test_two_values_locate_nothing() -> None:
    assert math.isinf(PRECISION.of_position(np.array([-1.0, 1.0]), np.array([4, 4])))


def test_variance_of_the_slope_is_that_of_least_squares() -> None:
    assert PRECISION.of_slope([1.0] * 5) == pytest.approx(1 / 10)
    assert PRECISION.of_slope([1, 0, 0, 0, 0]) > PRECISION.of_slope([0, 1, 0, 0, 0])


def test_prediction_lies_between_a_parabola_and_a_cubic_of_ones_own() -> None:
    rng = np.random.default_rng(0)
    u = np.array([-1.5, -0.5, 0.5, 1.5])
    y = 0.5 * CURVATURE * u**2 + SD / 2 * rng.normal(size=(4000, 4))
    parabola, cubic = (np.polyfit(u, y.T, degree)[-2].std() / CURVATURE for degree in (2, 3))
    predicted = math.sqrt(PRECISION.of_position(u, np.full(4, 4)))
    assert 1.2 * parabola < predicted < 0.8 * cubic


def test_sizes_that_do_not_tell_weigh_alike() -> None:
    assert slope_weights(np.zeros((3, 1))) == pytest.approx(np.full((1, 3), 1 / 3))
