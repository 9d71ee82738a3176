"""Laws of two recipes: exact on exact losses, and what a point does to them."""

from __future__ import annotations

import numpy as np
import pytest

from extrap.comparing.arm_laws import fit_arm_laws

T = np.log(16.0 * 2.0 ** np.arange(6))
ONES = np.ones(6)


def exact(floors=(1.5, 1.5), exponents=(0.4, 0.5)) -> np.ndarray:
    return np.log(
        [e + 2 * np.exp(-c * (T - T[0])) for e, c in zip(floors, exponents, strict=True)]
    )


@pytest.mark.parametrize(("floors", "is_shared"), [((1.5, 1.5), True), ((1.5, 1.2), False)])
def test_exact_losses_give_their_laws_back(floors, is_shared) -> None:
    found = fit_arm_laws(T, exact(floors), ONES, is_shared=is_shared)
    assert found.floors == pytest.approx(floors, rel=1e-5)
    assert found.exponents == pytest.approx((0.4, 0.5), rel=1e-4)
    assert found.log_loss(1, T) == pytest.approx(exact(floors)[1], abs=1e-7)


@pytest.mark.parametrize("is_shared", [True, False])
def test_influence_is_the_derivative_of_the_fit(is_shared) -> None:
    losses, step = exact(), 1e-5
    found = fit_arm_laws(T, losses, ONES, is_shared=is_shared)
    plain, treated = found.weights(found.exponent_gradient(1))
    for arm, weights in ((0, plain), (1, treated)):
        moved = losses.copy()
        moved[arm, 2] += step
        again = fit_arm_laws(T, moved, ONES, is_shared=is_shared)
        change = (again.exponents[1] - found.exponents[1]) / step
        assert change == pytest.approx(weights[2], rel=2e-2, abs=2e-3)


def test_gradient_is_that_of_the_log_loss() -> None:
    losses = exact()
    found = fit_arm_laws(T, losses, ONES, is_shared=True)
    shifted = fit_arm_laws(T, losses + np.log(1.01), ONES, is_shared=True)
    scaled = found.gradient(0, T) @ [0.01 * found.floors[0], 0.01, 0, 0.01, 0]
    assert shifted.log_loss(0, T) - found.log_loss(0, T) == pytest.approx(scaled, abs=1e-4)


def test_too_few_sizes_have_no_law() -> None:
    assert fit_arm_laws(T[:2], exact()[:, :2], ONES[:2], is_shared=True) is None
    assert fit_arm_laws(T[:3], exact()[:, :3], ONES[:3], is_shared=False) is None
