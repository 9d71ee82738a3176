from __future__ import annotations

import numpy as np
import pytest

from extrap.errors import DataError
from extrap.fitting import fit_surviving_laws

X = 2.0 ** np.arange(4, 14)


def weights_of(loss: np.ndarray, **options: object) -> dict[str, float]:
    laws = fit_surviving_laws({"x": X[: len(loss)]}, loss, **{"loss_se": None, **options})  # type: ignore[arg-type]
    return {fit.law: weight for fit, weight in laws}


def test_clear_floor_rejects_the_power_law() -> None:
    noise = np.exp(0.001 * np.random.default_rng(0).normal(size=len(X)))
    assert weights_of((1.5 + 2 * (X / 16) ** -0.5) * noise) == {"power": 0.0, "power_floor": 1.0}


def test_laws_that_the_noise_cannot_tell_apart_share_the_weight() -> None:
    noise = np.exp(0.02 * np.random.default_rng(1).normal(size=len(X)))
    assert weights_of(3 * (X / 16) ** -0.1 * noise) == {"power": 0.5, "power_floor": 0.5}


def test_known_noise_keeps_a_law_that_small_residuals_alone_would_reject() -> None:
    loss = (1.5 + 2 * (X / 16) ** -0.5) * np.exp(1e-5 * np.random.default_rng(0).normal(size=10))
    assert weights_of(loss)["power"] == 0.0
    assert weights_of(loss, loss_se=0.5 * loss, loss_se_dof=30)["power"] == 0.5


def test_three_sizes_carry_the_power_law_alone() -> None:
    assert weights_of(np.array([3.0, 2.5, 2.2])) == {"power": 1.0}


def test_two_sizes_carry_no_law() -> None:
    with pytest.raises(DataError, match="at least 3 distinct sizes, got 2"):
        weights_of(np.array([3.0, 2.5]))
