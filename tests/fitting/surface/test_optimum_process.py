"""The process of the optimum, against the marginal likelihoods and conditionals of normals."""

import numpy as np
import pytest
from scipy import stats

from extrap.fitting.surface.optimum_process import OptimumProcess

SIZES = np.array([[0.0], [1.0], [2.5], [4.0]])
PLANE = np.array([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 2.0], [5.0, 1.0]])


@pytest.mark.parametrize("sizes", [SIZES, PLANE])
def test_spreads_are_weighed_by_their_marginal_likelihoods(sizes):
    """Optima measured with known errors: log p(m) of a normal, times the prior."""
    rng, process = np.random.default_rng(1), OptimumProcess(sizes)
    error = rng.uniform(0.05, 0.3, len(sizes))
    measured = -6 - 0.4 * sizes.sum(axis=1) + rng.normal(size=len(sizes)) * 0.2
    centre = -6.5
    logs = np.log(process.prior_probabilities) + [
        stats.multivariate_normal(np.full(len(sizes), centre), c + np.diag(error**2)).logpdf(
            measured
        )
        for c in process.covariances
    ]
    expected = np.exp(logs - logs.max())
    found = process.weigh(np.diag(error**-2), measured / error**2, centre)
    assert found == pytest.approx(expected / expected.sum(), rel=1e-6)


@pytest.mark.parametrize("size", [6.0, -2.0])
def test_optima_beyond_are_the_conditional_of_the_joint_normal(size):
    process = OptimumProcess(SIZES)
    target = np.array([[size]])
    for spreads in process.grid[::7]:
        whole = OptimumProcess(SIZES)
        both = np.vstack([SIZES, target])
        joint = whole.covariance(both, both, spreads, size)
        joint += spreads.scatter**2 * np.eye(len(both))
        weights, sd = process.beyond(target, spreads)
        expected = np.linalg.solve(joint[:-1, :-1], joint[:-1, -1])
        assert weights[0] == pytest.approx(expected)
        left = joint[-1, -1] - joint[-1, :-1] @ expected
        assert sd[0] == pytest.approx(np.sqrt(left))


def test_a_straight_line_goes_on_and_a_known_optimum_is_kept():
    process = OptimumProcess(SIZES)
    straight = min(process.grid, key=lambda s: (s.bend, s.walk, s.scatter))
    weights, sd = process.beyond(np.array([[5.0]]), straight)
    line = 2.0 - 0.5 * SIZES[:, 0]
    assert weights[0] @ (line - line.mean()) + line.mean() == pytest.approx(-0.5, abs=0.02)
    assert sd[0] < 0.1


def test_sizes_that_share_a_value_of_a_column_share_an_effect():
    process = OptimumProcess(PLANE)
    spreads = max(process.grid, key=lambda s: s.shared)
    without = spreads._replace(shared=0.0)
    extra = process.prior(spreads) - process.prior(without)
    n_shared = (PLANE[:, None] == PLANE[None]).sum(axis=-1)
    assert extra == pytest.approx(spreads.shared**2 * n_shared)


def test_other_priors_of_slopes_and_of_shared_effects_are_the_ones_used():
    process = OptimumProcess(PLANE, slope_sd=2.0, shared=((0.2, 1.0),))
    assert {spreads.shared for spreads in process.grid} == {0.2}
    assert process.prior_probabilities.sum() == pytest.approx(1)
    spreads, off = process.grid[0], PLANE - PLANE.mean(axis=0)
    usual = OptimumProcess(PLANE).prior(spreads)
    assert process.prior(spreads) - usual == pytest.approx((2.0**2 - 0.6**2) * off @ off.T)


def test_optima_of_several_columns_may_bend_along_one_of_them():
    """The covariance of Σ c_jk a_j a_k / C with independent normal c, of one column of c a²."""
    process, one = OptimumProcess(PLANE), OptimumProcess(SIZES)
    off = PLANE - PLANE.mean(axis=0)
    columns = [off[:, j] * off[:, k] for j in range(2) for k in range(2)]
    straight = process.grid[0]._replace(bend=0.0, column_bend=0.0)
    bent = straight._replace(column_bend=0.3)
    extra = process.prior(bent) - process.prior(straight)
    expected = sum(np.outer(column, column) for column in columns) * 0.3**2 / 4
    assert extra == pytest.approx(expected)
    assert {spreads.column_bend for spreads in process.grid} == {0.0, 0.08, 0.2}
    assert {spreads.column_bend for spreads in one.grid} == {0.0}
    alone = one.grid[0]._replace(bend=0.0)
    along, of_column = alone._replace(bend=0.3), alone._replace(column_bend=0.3)
    assert one.prior(along) == pytest.approx(one.prior(of_column))
