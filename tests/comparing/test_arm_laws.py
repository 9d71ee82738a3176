"""Laws of two recipes: exact on exact losses, and what a point does to them."""

import numpy as np
import pytest
from scipy import optimize

from extrap.comparing.arm_laws import fit_arm_laws

T = np.log(16.0 * 2.0 ** np.arange(6))
ONES = np.ones(6)


def losses(theta):
    """ln (E + b e^(−c t)) of both recipes; theta is (E, E', ln b, c, ln b', c')."""
    t = T - T.mean()
    return np.log([theta[a] + np.exp(theta[2 + 2 * a] - theta[3 + 2 * a] * t) for a in (0, 1)])


def exact(floors=(1.5, 1.5), exponents=(0.4, 0.5)):
    scales = [np.log(2) - c * (T.mean() - T[0]) for c in exponents]
    return losses(np.array([*floors, scales[0], exponents[0], scales[1], exponents[1]]))


@pytest.mark.parametrize("is_shared", [True, False])
def test_fit_is_that_of_scipy_and_its_influence_a_derivative(is_shared):
    """Weighted least squares of log losses with noise; each point moved a little."""
    noise = 0.01 * np.random.default_rng(0).normal(size=(2, 6))
    floors = (1.5, 1.5) if is_shared else (1.5, 1.2)
    counts, y = np.array([1.0, 2, 3, 1, 2, 3]), exact(floors) + noise
    shape = (lambda p: np.array([p[0], *p])) if is_shared else np.asarray

    def fitted(y):
        start = [1.4] * (1 if is_shared else 2) + [0.3, 0.4, 0.3, 0.5]

        def off(p):
            return ((losses(shape(p)) - y) * np.sqrt(counts)).ravel()

        return optimize.least_squares(off, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)

    found, other = fit_arm_laws(T, y, counts, is_shared=is_shared), fitted(y)
    theta = shape(other.x)
    assert found.floors == pytest.approx(tuple(theta[:2]), rel=1e-5)
    assert found.log_scales == pytest.approx(tuple(theta[[2, 4]]), rel=1e-4)
    assert found.exponents == pytest.approx(tuple(theta[[3, 5]]), rel=1e-4)
    assert found.square == pytest.approx(2 * other.cost)
    root = np.sqrt(np.tile(counts, 2))
    assert found.influence == pytest.approx(np.linalg.pinv(other.jac) * root, rel=1e-3, abs=1e-4)
    plain, treated = found.weights(found.exponent_gradient(1))
    assert [*plain, *treated] == pytest.approx(found.influence[-1])
    exponents, step = found.exponent_gradient(0), 1e-6
    assert exponents @ other.x == other.x[-3]
    for arm in (0, 1):
        slopes = [
            (losses(shape(other.x + d))[arm, 4] - losses(shape(other.x - d))[arm, 4]) / 2 / step
            for d in step * np.eye(len(other.x))
        ]
        assert found.gradient(arm, T[4]) == pytest.approx(slopes, abs=1e-4)


def test_too_few_sizes_have_no_law():
    for n, is_shared, is_fitted in ((2, True, 0), (3, True, 1), (3, False, 0), (4, False, 1)):
        found = fit_arm_laws(T[:n], exact()[:, :n], ONES[:n], is_shared=is_shared)
        assert (found is not None) == is_fitted
