from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from extrap.fitting import fit
from extrap.fitting.projection import Problem
from extrap.fitting.robust import huber, minimise_huber
from extrap.laws import LOSS_LAWS

X = 16 * 2.0 ** np.arange(10)


def losses(seed: int = 0, noise: float = 0.01) -> np.ndarray:
    noisy = np.random.default_rng(seed).standard_t(3, size=len(X))
    return (1.5 + 2 * (X / 16) ** -0.4) * np.exp(noise * noisy)


def test_hubers_loss_is_quadratic_then_linear() -> None:
    assert huber(np.array([0.0, 0.5, -1.0, 3.0]), 1.0) == pytest.approx([0, 0.125, 0.5, 2.5])
    assert huber(np.array([3e-3]), 1e-3) == pytest.approx([2.5])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("delta", [1e-3, 1e-2])
def test_robust_minimum_is_that_of_a_general_optimiser(seed: int, delta: float) -> None:
    loss = losses(seed)
    found = fit("power_floor", {"x": X}, loss, robust=delta)
    log_z = np.log(X / found.reference[0])

    def objective(q: np.ndarray) -> float:
        r = np.log(np.exp(q[0]) + np.exp(q[1] - q[2] * log_z)) - np.log(loss)
        return float(huber(r, delta).sum())

    ours = np.array([*np.log(found.values[:2]), found.values[2]])
    best = min(
        optimize.minimize(objective, start, method="Nelder-Mead", options=options).fun
        for start in (ours, ours + 0.1, [0.3, 0.3, 0.5])
        for options in ({"xatol": 1e-12, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000},)
    )
    assert objective(ours) <= best * (1 + 1e-9)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_scale_of_the_objective_does_not_move_the_answer(scale: float) -> None:
    """A mean in place of the sum, with a fixed tolerance, stops early: bootstraps get narrow."""
    loss = losses()
    plain = fit("power_floor", {"x": X}, loss, robust=1e-3)
    problem = Problem(
        law=LOSS_LAWS["power_floor"],
        z=(X / plain.reference[0])[:, None],
        y=loss[None],
        weight=np.full((1, len(X)), scale),
        fixed={},
    )
    found = minimise_huber(problem, np.array([[[1.0, 1.0, 1.0]]]), delta=1e-3)
    assert found.values[0, 0] == pytest.approx(plain.values, rel=1e-6)
    weighted = fit("power_floor", {"x": X}, loss, robust=1e-3, weights=np.full(len(X), scale))
    assert weighted.values == pytest.approx(plain.values, rel=1e-9)
    assert np.array(weighted.covariance) == pytest.approx(np.array(plain.covariance))


@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_one_outlier_misleads_least_squares_but_not_the_robust_fit(factor: float) -> None:
    loss = losses(noise=0.002)
    clean = fit("power_floor", {"x": X}, loss)
    loss[4] *= factor
    squares = fit("power_floor", {"x": X}, loss, loss_se=0.003 * loss)
    robust = fit("power_floor", {"x": X}, loss, loss_se=0.003 * loss, robust=1e-3)
    assert "lack-of-fit" in squares.flags
    assert "lack-of-fit" in robust.flags
    assert robust.parameters["c"] == pytest.approx(clean.parameters["c"], rel=0.1)
    error = [abs(found.parameters["E"] - 1.5) for found in (robust, squares)]
    assert error[0] < 0.05
    if factor < 1:  # a loss far too high has a relative residual of at most 1, which pulls less
        assert error[1] > 1
    assert robust.scatter < 0.02


def test_starts_other_than_the_least_squares_solution_are_needed() -> None:
    """Four of twelve losses off by tenfold or more: least squares alone leads to a bound."""
    x, rng = 16 * 2.0 ** np.arange(12), np.random.default_rng(38)
    loss = (1.5 + 2 * (x / 16) ** -0.4) * np.exp(0.003 * rng.normal(size=12))
    wild = rng.choice(12, 4, replace=False)
    loss[wild] *= rng.choice([0.01, 0.1, 10, 100], 4)
    found = fit("power_floor", {"x": x}, loss, robust=1e-3)
    assert found.parameters["c"] == pytest.approx(0.4, abs=0.02)
    assert found.parameters["E"] == pytest.approx(1.5, abs=0.05)


def test_robust_fit_records_delta_and_pins() -> None:
    found = fit("power_floor", {"x": X}, losses(), robust=2e-3, fix={"E": 1.4})
    assert found.robust == 2e-3
    assert found.parameters["E"] == 1.4
    assert fit("power_floor", {"x": X}, losses()).robust is None


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan])
def test_delta_must_be_positive(delta: float) -> None:
    with pytest.raises(ValueError, match=f"got {delta:g}"):
        fit("power_floor", {"x": X}, losses(), robust=delta)
