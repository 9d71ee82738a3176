"""What known optima say of others, against conditionals of the joint normal of both."""

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.surface.known_optima import KnownOptima
from extrap.fitting.surface.optimum_process import OptimumProcess

SIZES = np.array([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 2.0], [5.0, 1.0]])
VALUES = np.array([-6.0, -6.5, -8.0, -8.9, -9.6])
ERRORS = np.array([0.05, 0.3, 0.1, 0.2, 0.1])
TARGET = np.array([[7.0, 4.0]])


def conditional(process, spreads):
    """Log evidence of the values, and mean and variance of the law at the target given them."""
    both = np.vstack([SIZES, TARGET])
    joint = process.covariance(both, both, spreads)
    measured = joint[:-1, :-1] + np.diag(spreads.scatter**2 + ERRORS**2)
    centre = np.full(len(SIZES), np.median(VALUES))
    inverse = np.linalg.inv(measured)
    mean = centre[0] + joint[-1, :-1] @ inverse @ (VALUES - centre)
    variance = joint[-1, -1] - joint[-1, :-1] @ inverse @ joint[:-1, -1]
    return stats.multivariate_normal(centre, measured).logpdf(VALUES), mean, variance


@pytest.mark.parametrize(
    "prior", [{}, {"slope_sd": 1.5}, {"shared": ((0.0, 0.6), (0.1, 0.3), (0.3, 0.1))}]
)
def test_the_law_and_an_optimum_beyond_are_the_mixture_of_conditionals(prior):
    optima = KnownOptima(SIZES, VALUES, np.diag(ERRORS**2), **prior)
    process = OptimumProcess(SIZES, **prior)
    grid = process.grid
    evidence, means, variances = np.transpose([conditional(process, s) for s in grid])
    weights = process.prior_probabilities * np.exp(evidence - evidence.max())
    weights /= weights.sum()
    assert optima.weights == pytest.approx(weights)
    law, optimum = optima.beyond(TARGET[0], error=0.04)
    assert law.means == pytest.approx(means)
    assert law.sds == pytest.approx(np.sqrt(variances))
    scatter = np.array([spreads.scatter for spreads in grid])
    assert optimum.sds**2 == pytest.approx(variances + scatter**2 + 0.04)
    ends = law.interval(0.9)
    below = [weights @ stats.norm.cdf(end, means, np.sqrt(variances)) for end in ends]
    assert below == pytest.approx([0.05, 0.95])


def test_the_line_is_that_of_exact_values_and_a_wider_prior_shrinks_a_steep_one_less():
    sizes = np.arange(5.0)[:, None]
    steep = -2.0 * sizes[:, 0]
    slopes = {
        sd: KnownOptima(sizes, steep, 0.08 * np.eye(5), slope_sd=sd).line()[1] for sd in (0.6, 1.5)
    }
    assert slopes[1.5].mean == pytest.approx(-2.0, abs=0.03)
    assert slopes[0.6].mean > slopes[1.5].mean + 0.02
    level, slope = KnownOptima(sizes, steep, np.zeros((5, 5)), slope_sd=1.5).line()
    assert (level.mean, slope.mean) == pytest.approx((-4.0, -2.0), abs=0.005)
    assert 0.005 < slope.sd < 0.1


def test_the_slopes_of_a_plane_are_told_apart():
    values = 1.0 - 0.5 * SIZES[:, 0] + 0.25 * SIZES[:, 1]
    _, *slopes = KnownOptima(SIZES, values, 1e-4 * np.eye(5)).line()
    assert [slope.mean for slope in slopes] == pytest.approx([-0.5, 0.25], abs=0.02)
