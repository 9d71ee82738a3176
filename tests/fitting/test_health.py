from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.broken_power import broken_power_known
from extrap.fitting import fit
from extrap.fitting.health import lack_of_fit_p
from extrap.laws import LOSS_LAWS

X = 16 * 2.0 ** np.arange(8)
CURVE = 1.5 + 2 * (X / 16) ** -0.4


def flags(loss: np.ndarray, law: str = "power_floor", x: np.ndarray = X, **options) -> set[str]:
    return set(fit(law, {"x": x}, loss, **options).flags)


def test_a_sound_fit_has_no_flags() -> None:
    noisy = CURVE * np.exp(0.005 * np.random.default_rng(0).normal(size=8))
    assert flags(noisy) == set()
    assert flags(noisy, loss_se=0.005 * noisy, loss_se_dof=16) == set()


def test_rising_losses_drive_a_power_law_to_its_bound() -> None:
    assert "bound-hit" in flags(X**0.2, "power")
    assert "size-without-effect" in flags(X**0.2)


def test_a_curve_that_bends_down_has_its_floor_at_zero() -> None:
    assert "floor-at-zero" in flags(np.exp(-0.02 * np.log(X) ** 2))


def test_noise_far_beyond_the_curvature_leaves_the_exponent_weak() -> None:
    noisy = (1.5 + 0.05 * (X / 16) ** -0.4) * np.exp(
        0.01 * np.random.default_rng(2).normal(size=8)
    )
    assert "exponent-weakly-identified" in flags(noisy)


def test_pinned_exponent_is_never_weak() -> None:
    noisy = (1.5 + 0.05 * (X / 16) ** -0.4) * np.exp(
        0.01 * np.random.default_rng(2).normal(size=8)
    )
    assert "exponent-weakly-identified" not in flags(noisy, fix={"c": 0.4})


def test_one_residual_degree_of_freedom_is_too_few_sizes() -> None:
    assert "too-few-sizes" in flags(CURVE[:4], x=X[:4])
    assert "too-few-sizes" not in flags(CURVE[:5], x=X[:5])
    assert "too-few-sizes" not in flags(CURVE[:4], x=X[:4], fix={"E": 1.5})


def test_residuals_beyond_the_known_noise_are_a_lack_of_fit() -> None:
    broken = np.where(X > 200, 0.9, 1.0) * CURVE
    assert "lack-of-fit" in flags(broken, loss_se=0.003 * broken, loss_se_dof=16)
    assert "lack-of-fit" not in flags(broken)  # nothing to hold the residuals against


def test_lack_of_fit_is_the_chi_square_test_or_the_f_test() -> None:
    assert lack_of_fit_p(20.0, 5, None) == pytest.approx(stats.chi2.sf(20, 5))
    assert lack_of_fit_p(20.0, 5, 3) == pytest.approx(stats.f.sf(4, 5, 3))


def test_two_solutions_that_part_beyond_the_data_are_told() -> None:
    """Losses that waver about a line: a break before or after the middle fits equally well."""
    loss = np.exp(-0.1 * np.log(X) + 0.02 * np.array([1, -1, 1, -1, 1, -1, 1, -1]))
    with broken_power_known() as law:
        assert "starts-disagree" in flags(loss, law)
    assert "starts-disagree" not in flags(loss, "power")


def test_a_break_in_a_constant_is_ill_conditioned() -> None:
    with broken_power_known() as law:
        assert "ill-conditioned" in flags(np.full(8, 2.0), law)


def test_log_linear_law_says_that_it_turns_negative() -> None:
    assert "loss-turns-negative" in flags(5 - 0.3 * np.log(X), "log_linear")


@pytest.mark.parametrize("law", [key for key, law in LOSS_LAWS.items() if 1 in law.n_columns])
@pytest.mark.parametrize("robust", [None, 1e-3])
def test_identical_losses_give_a_result_with_finite_numbers(law, robust):
    found = fit(law, {"x": X}, np.full(8, 2.0), robust=robust)
    assert np.isfinite(found.values).all()
    assert np.isfinite(found.covariance).all()
    if law in ("power_floor", "log_linear"):
        assert "size-without-effect" in found.flags
