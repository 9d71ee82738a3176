from __future__ import annotations

import math

import numpy as np
import pytest

from extrap.fitting.placement import Precision, slope_weights

CURVATURE, SD = 0.01, 0.01
LOG2_SIZES = np.arange(5.0)[:, None]
PRECISION = Precision(curvature=CURVATURE, sd=SD, weights=slope_weights(LOG2_SIZES))


def test_three_values_give_the_error_of_a_parabola() -> None:
    """The vertex is half the difference of the ends over the curvature, whatever the weights.

    Runs differ by their noise over their number, and by 5 % of an excess of .005.
    """
    variance = PRECISION.of_position(np.array([-1.0, 0.0, 1.0]), np.array([4, 2, 1]))
    ends = SD**2 / 4 + SD**2 / 1 + 2 * (0.05 * 0.005) ** 2
    assert variance == pytest.approx(ends / 4 / CURVATURE**2)
    assert math.isinf(PRECISION.of_position(np.array([-1.0, 1.0]), np.array([4, 4])))


@pytest.mark.parametrize("offsets", [(-2.0, -1.0, 1.0, 2.0), (-1.5, -0.5, 0.0, 0.5, 1.5)])
def test_a_symmetric_design_shares_the_cubic_term_with_three_more_sizes(offsets):
    """Odd powers only: slope and cube, least squares with three rows more for the cube's rest."""
    u, n = np.array(offsets), np.arange(2, 2 + len(offsets))
    n = n + n[::-1]
    excess = CURVATURE / 2 * u**2
    weights = n / (1 + ((excess - excess.min()) / 0.01) ** 2)
    root = np.sqrt(weights)
    cube = u**3 - u * (weights @ u**4) / (weights @ u**2)
    rest = math.sqrt(3 * weights @ cube**2)
    design = np.vstack([np.column_stack([u, u**3]) * root[:, None], [[0.0, rest]]])
    gain = np.linalg.pinv(design)[0, :-1] * root
    expected = gain**2 @ (SD**2 / n + (0.05 * excess) ** 2) / CURVATURE**2
    assert PRECISION.of_position(u, n) == pytest.approx(expected)


def test_variance_of_the_slope_is_that_of_least_squares() -> None:
    """Weights (−2 … 2) / 10; of two columns the variances of both slopes add up."""
    assert PRECISION.weights == pytest.approx(np.arange(-2, 3)[None] / 10)
    assert PRECISION.of_slope([1, 2, 3, 4, 5]) == pytest.approx((4 + 2 + 4 + 20) / 100)
    square = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    both = Precision(curvature=CURVATURE, sd=SD, weights=slope_weights(square))
    assert both.of_slope([1.0] * 4) == pytest.approx(2.0)


@pytest.mark.parametrize("sizes", [np.zeros((3, 1)), np.array([[0.0, 1], [1, 2], [2, 3]])])
def test_sizes_that_do_not_tell_weigh_alike(sizes: np.ndarray) -> None:
    assert slope_weights(sizes) == pytest.approx(np.full((1, 3), 1 / 3))
