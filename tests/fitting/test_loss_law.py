from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from extrap.errors import DataError
from extrap.fitting import fit, predict_log, relative_sizes

SIZES = [16.0, 32.0, 64.0, 128.0, 256.0, 512.0]


def noisy_losses(seed: int, noise: float = 0.01) -> np.ndarray:
    x = np.array(SIZES) / 16
    return (1.5 + 2 * x**-0.4) * np.exp(noise * np.random.default_rng(seed).normal(size=len(x)))


@pytest.mark.parametrize("law", ["power", "power_floor"])
@given(factor=st.floats(1e-12, 1e24), seed=st.integers(0, 20))
def test_unit_of_the_sizes_does_not_matter(law: str, factor: float, seed: int) -> None:
    loss = noisy_losses(seed)
    plain = fit(law, {"x": SIZES}, loss)
    scaled = fit(law, {"x": [factor * v for v in SIZES]}, loss)
    assert scaled.values == pytest.approx(plain.values, rel=1e-3, abs=1e-6)
    for target in (16.0, 2000.0):
        here, there = {"x": target}, {"x": factor * target}
        mean, se = predict_log(plain, relative_sizes(plain, here))
        other_mean, other_se = predict_log(scaled, relative_sizes(scaled, there))
        assert other_mean == pytest.approx(mean, abs=1e-5)
        assert other_se == pytest.approx(se, rel=1e-2, abs=1e-8)


@pytest.mark.parametrize("law", ["power", "power_floor"])
@given(factor=st.floats(1e-20, 1e24))
def test_unit_of_the_loss_shifts_the_logarithm_only(law: str, factor: float) -> None:
    plain = fit(law, {"x": SIZES}, noisy_losses(0))
    scaled = fit(law, {"x": SIZES}, factor * noisy_losses(0))
    z = relative_sizes(plain, {"x": 4000.0})
    (mean, se), (other_mean, other_se) = predict_log(plain, z), predict_log(scaled, z)
    assert other_mean - mean == pytest.approx(np.log(factor), abs=1e-5)
    assert other_se == pytest.approx(se, rel=1e-2)
    assert scaled.chi2 == pytest.approx(plain.chi2, rel=1e-5)


@given(order=st.permutations(range(len(SIZES))))
def test_order_of_the_points_does_not_matter(order: list[int]) -> None:
    loss = noisy_losses(3)
    plain = fit("power_floor", {"x": SIZES}, loss)
    mixed = fit("power_floor", {"x": [SIZES[i] for i in order]}, loss[list(order)])
    assert mixed.values == pytest.approx(plain.values, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_projection_finds_what_plain_least_squares_finds(seed: int) -> None:
    loss, x = noisy_losses(seed), np.array(SIZES)
    fitted = fit("power_floor", {"x": SIZES}, loss)
    z = x / fitted.reference[0]

    def residuals(p: np.ndarray) -> np.ndarray:
        return (loss - p[0] - p[1] * z ** -p[2]) / loss

    starts = [(1.0, 1.0, c) for c in (0.1, 0.5, 1.0)]
    found = [optimize.least_squares(residuals, s, bounds=(0, [9, 9, 3])) for s in starts]
    best = min(2 * f.cost for f in found)
    assert fitted.chi2 == pytest.approx(best, rel=1e-6)


def test_noise_known_to_be_larger_than_the_residuals_is_kept() -> None:
    loss = noisy_losses(0, noise=0.001)
    free = fit("power", {"x": SIZES[:3]}, loss[:3])
    known = fit("power", {"x": SIZES[:3]}, loss[:3], loss_se=0.1 * loss[:3], loss_se_dof=20)
    assert known.covariance[0][0] > 10 * free.covariance[0][0]
    assert known.scale_dof == 20
    assert known.scatter == pytest.approx(0.1, rel=0.01)


def test_residuals_larger_than_the_known_noise_widen_the_covariance() -> None:
    loss = noisy_losses(0, noise=0.05)
    known = fit("power", {"x": SIZES}, loss, loss_se=1e-4 * loss, loss_se_dof=20)
    assert known.chi2 > known.dof
    assert known.scale_dof == known.dof
    assert known.scatter > 0.01


@pytest.mark.parametrize(
    ("law", "sizes", "message"),
    [
        ("power_floor", [1.0, 2.0, 4.0], "has 3 parameters and needs at least 4 distinct sizes"),
        ("power", [1.0, 2.0, 2.0], "needs at least 3 distinct sizes, got 2"),
        ("power", [100.0, 100.001, 100.002], "must span at least a factor 1.1"),
    ],
)
def test_too_few_sizes_are_refused(law: str, sizes: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        fit(law, {"x": sizes}, [3.0, 2.0, 1.5])


def test_unknown_law_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="law must be one of power, power_floor; got 'chinchila'"):
        fit("chinchila", {"x": SIZES}, noisy_losses(0))


def test_doubtful_fits_say_so() -> None:
    rising = np.array(SIZES) ** 0.2
    assert fit("power", {"x": SIZES}, rising).flags == ("exponent-at-bound",)
    assert fit("power_floor", {"x": SIZES}, rising).flags == ("size-without-effect",)
    bent = fit("power_floor", {"x": SIZES}, np.exp(-0.02 * np.log(SIZES) ** 2))
    assert "floor-at-zero" in bent.flags
