from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extrap.fitting.local import fit_local

X = 2.0 ** np.arange(12)


def noisy(seed: int = 0, noise: float = 0.002) -> np.ndarray:
    return (1.5 + X**-0.5) * np.exp(noise * np.random.default_rng(seed).normal(size=len(X)))


def predict(x: np.ndarray, loss: np.ndarray, target: float) -> tuple[float, float]:
    law = fit_local("x", x, loss)
    assert law is not None
    mean, variance = law.predict_log(np.array([target]))
    return float(mean[0]), float(variance[0])


def test_far_end_decides_where_no_law_follows_the_whole_curve() -> None:
    early_plateau = np.where(X < 64, 9.0, 1.5 + 8 * (X / 64) ** -0.5)
    mean, _ = predict(X, early_plateau, 4 * X[-1])
    assert np.exp(mean) == pytest.approx(1.5 + 8 * (4 * X[-1] / 64) ** -0.5, rel=0.02)


def test_effective_points_are_those_near_the_end() -> None:
    law = fit_local("x", X, noisy())
    assert law is not None
    expected = np.mean([np.sum((X / X[-1]) ** (2 * k)) for k in (1, 1.5, 2)])
    assert law.dof == pytest.approx(expected)


def test_scatter_grows_with_the_noise() -> None:
    laws = [fit_local("x", X, noisy(noise=noise)) for noise in (0.01, 0.02)]
    assert laws[1].scatter / laws[0].scatter == pytest.approx(2.0, rel=0.1)


@given(size=st.floats(1e-12, 1e24), loss=st.floats(1e-6, 1e6), seed=st.integers(0, 20))
def test_units_do_not_matter(size: float, loss: float, seed: int) -> None:
    mean, variance = predict(X, noisy(seed), 8 * X[-1])
    other, other_variance = predict(size * X, loss * noisy(seed), 8 * size * X[-1])
    assert other - np.log(loss) == pytest.approx(mean, abs=1e-6)
    assert other_variance == pytest.approx(variance, rel=1e-3, abs=1e-12)


def test_better_known_points_count_more() -> None:
    off = noisy(noise=0.0)
    off[-1] *= 1.05
    se = np.full(len(X), 0.002)
    trusted = fit_local("x", X, off, loss_se=se)
    se[-1] = 0.2
    doubted = fit_local("x", X, off, loss_se=se)
    assert trusted is not None
    assert doubted is not None
    truth = np.log(1.5 + (2 * X[-1]) ** -0.5)
    errors = [
        abs(law.predict_log(np.array([2 * X[-1]]))[0][0] - truth) for law in (trusted, doubted)
    ]
    assert errors[1] < errors[0] / 3


def test_identical_losses_are_predicted_to_stay() -> None:
    mean, variance = predict(X, np.full(len(X), 2.0), 64 * X[-1])
    assert np.exp(mean) == pytest.approx(2.0, rel=1e-6)
    assert variance < 1e-9
