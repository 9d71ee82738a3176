"""The curve of the cost of a distance, by its closed form and by differences."""

import math

import numpy as np
import pytest

from extrap.fitting.surface.cost_shape import axes, cost_and_slopes, cost_curve, excess

STEP = 1e-6


@pytest.mark.parametrize("octaves", [-3.0, -0.4, 0.7, 2.5])
@pytest.mark.parametrize("asymmetry", [-0.8, -1e-5, 0.0, 1e-5, 0.5])
def test_slopes_are_those_of_differences(octaves, asymmetry):
    def curve(u, r):
        return cost_curve(np.array(u), np.array(r))

    cost, by_octaves, by_asymmetry = cost_and_slopes(np.array(octaves), np.array(asymmetry))
    assert cost == curve(octaves, asymmetry)
    by_u = (curve(octaves + STEP, asymmetry) - curve(octaves - STEP, asymmetry)) / (2 * STEP)
    by_r = (curve(octaves, asymmetry + STEP) - curve(octaves, asymmetry - STEP)) / (2 * STEP)
    assert by_octaves == pytest.approx(by_u, rel=1e-4)
    assert by_asymmetry == pytest.approx(by_r, rel=1e-3, abs=1e-4)


def test_the_curve_is_its_closed_form_and_a_parabola_near_the_optimum():
    a = 0.5 * 3
    assert cost_curve(np.array(-3.0), np.array(0.5)) == pytest.approx(
        (math.exp(a) - 1 - a) / 0.5**2
    )
    assert cost_curve(np.array(0.01), np.array(0.3)) == pytest.approx(0.01**2 / 2, rel=1e-2)


def test_costs_add_up_along_turned_axes():
    """Two columns: the first axis is u + .5 v, the second v − .2 u."""
    u, v, turns = 1.0, -2.0, np.array([0.5, -0.2])
    assert axes(turns, 2).tolist() == [[1.0, 0.5], [-0.2, 1.0]]
    flat = np.zeros(2)
    found = excess(np.array([u, v]), flat, flat, np.log([0.04, 0.02]), turns)
    expected = 0.04 / 2 * (u + 0.5 * v) ** 2 + 0.02 / 2 * (v - 0.2 * u) ** 2
    assert found == pytest.approx(expected)


def test_each_side_has_its_own_asymmetry():
    low, high, none = np.array([-0.3]), np.array([0.6]), np.zeros(0)
    for octaves, r in ((-2.0, -0.3), (2.0, 0.6)):
        found = excess(np.array([octaves]), low, high, np.zeros(1), none)
        a = r * abs(octaves)
        assert found == pytest.approx((math.exp(a) - 1 - a) / r**2)
