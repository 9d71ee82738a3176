"""Which tuned values are refused: by their expected cost and their chance of divergence alone."""

import math

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.refusals import doubt_tuned
from extrap.fitting.surface.answers import answer
from tests.checking.byhand import size_draws

N = 4000
EVEN = stats.norm.ppf((np.random.default_rng(0).permutation(N) + 0.5) / N)
"""Standard normal numbers."""


def drawn(octaves, curvature, *, steepness=1.0, threshold=math.inf):
    """A normal optimum about 0 and a parabola; log odds of divergence with a fixed threshold."""
    optimum = octaves * EVEN[:, None]
    return size_draws(optimum, curvature=curvature, steepness=steepness, cliff=threshold)


def mean_cost(value, octaves, curvature):
    """Of a parabola k/2 u², no more than 1, over a normal optimum, by a fine grid."""
    z = np.linspace(-8, 8, 8001)
    costs = np.minimum(curvature / 2 * (value - octaves * z) ** 2, 1.0)
    return float(costs @ stats.norm.pdf(z)) * (z[1] - z[0])


@pytest.mark.parametrize("octaves", [0.3, 1.0, 1.9])
@pytest.mark.parametrize(("cost", "is_refused"), [(0.027, False), (0.033, True)])
def test_values_are_refused_where_they_cost_3_percent_on_average(octaves, cost, is_refused):
    low, high = 1e-6, 10.0
    for _ in range(40):
        k = math.sqrt(low * high)
        low, high = (k, high) if mean_cost(0.0, octaves, k) < cost else (low, k)
    found = answer(drawn(octaves, k))
    assert found.mistuned == found.cost == pytest.approx(cost, rel=0.01)
    assert (doubt_tuned(found) is not None) == is_refused


def test_a_wide_interval_of_a_flat_value_is_not_refused():
    found = answer(drawn(6.0, 1e-4))
    assert found.high[0] - found.low[0] == pytest.approx(12 * stats.norm.ppf(0.95), rel=0.01)
    assert doubt_tuned(found) is None


@pytest.mark.parametrize(("threshold", "is_refused"), [(1.0, True), (6.0, False)])
def test_a_value_that_diverges_is_refused(threshold, is_refused):
    """Odds of e^(.8 (u − threshold)) that even an octave below the optimum hardly lessens."""
    found = answer(drawn(0.01, 0.5, steepness=0.8, threshold=threshold))
    assert found.chance == pytest.approx(1 / (1 + math.exp(0.8 * (threshold - found.values[0]))))
    assert (found.chance > 0.1) == is_refused
    why = doubt_tuned(found)
    assert (why is not None) == is_refused
    assert why is None or "diverges with a chance of" in why.why


def test_the_value_to_use_has_the_smallest_expected_cost():
    """By quadrature of parabola and divergence over a fine grid of values."""
    octaves, k, steepness, threshold = 0.4, 0.1, 6.0, 0.5
    found = answer(drawn(octaves, k, steepness=steepness, threshold=threshold))

    def expected(value):
        chance = 1 / (1 + math.exp(-steepness * (value - threshold)))
        own = mean_cost(value, octaves, k)
        return own + chance * (1 - own)

    tries = np.linspace(-2, 1, 301)
    costs = [expected(value) for value in tries]
    assert found.values[0] == pytest.approx(tries[int(np.argmin(costs))], abs=0.1)
    assert found.cost == pytest.approx(min(costs), rel=0.05)


def test_the_steeper_side_is_avoided_the_more_the_less_is_known():
    values = [answer(drawn(octaves, 0.06)).values[0] for octaves in (0.01, 0.5, 1.0)]
    assert values == pytest.approx([0.0] * 3, abs=0.12)
    lean = []
    for octaves in (0.01, 0.5, 1.0):
        sides = drawn(octaves, 0.06)
        sides.asymmetry[1] = 1.2
        lean.append(answer(sides).values[0])
    assert lean[0] > lean[1] > lean[2]
    assert lean[2] < -0.3


def test_a_threshold_pushes_the_value_down_and_a_far_one_does_nothing():
    free, near, far = (
        answer(drawn(0.3, 0.06, steepness=6.0, threshold=threshold)).values[0]
        for threshold in (50.0, 0.5, 8.0)
    )
    assert near < -0.3
    assert far == pytest.approx(free, abs=0.02)
