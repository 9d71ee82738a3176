from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from extrap.fitting import Valley, estimate_noise, estimate_optima, fit_valley
from extrap.forecasting import Forecast
from extrap.reading import read_runs

Table = Callable[..., pd.DataFrame]


def valley_of(table: pd.DataFrame) -> Valley | None:
    runs = read_runs(table, size="width", tune="lr")
    return fit_valley(runs, estimate_optima(runs, noise=estimate_noise(runs), level=0.95))


def true_excess(u: float) -> float:
    rise = 0.5 if u > 0 else -0.35
    return float(0.03 * (np.expm1(rise * u) - rise * u) / rise**2)


@pytest.mark.parametrize("u", [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
def test_cost_of_mistuning_is_that_of_the_truth(sweep_table: Table, u: float) -> None:
    valley = valley_of(sweep_table(noise=0.001))
    assert valley is not None
    for width in (16.0, 192.0, 1024.0):
        assert valley.excess([u], {"width": width}) == pytest.approx(true_excess(u), rel=0.12)


def test_excess_is_nothing_at_the_optimum_and_bounded_far_out(made: Forecast) -> None:
    valley = made.valley
    assert valley is not None
    assert valley.excess([0.0], {"width": 512.0}) == 0.0
    far = [valley.excess([u], {"width": 512.0}) for u in (-1e4, -2.0, 2.0, 1e4)]
    assert all(0 < excess <= 5.0 for excess in far)
    assert far[0] == far[3] == 5.0


def test_no_valley_without_bracketed_optima(sweep_table: Table) -> None:
    assert valley_of(sweep_table(rates=tuple(float(2.0**k) for k in range(-5, 0)))) is None


def test_two_tuned_values_have_a_quadratic_valley() -> None:
    rows = [
        {
            "width": w,
            "lr": lr,
            "batch": b,
            "loss": 2 * np.exp(0.02 * np.log2(lr / 0.01) ** 2 + 0.01 * np.log2(b / 32) ** 2),
        }
        for w in (8, 16, 32)
        for lr in 0.01 * 2.0 ** np.arange(-3, 4)
        for b in 2.0 ** np.arange(3, 8)
    ]
    runs = read_runs(pd.DataFrame(rows), size="width", tune=("lr", "batch"))
    valley = fit_valley(runs, estimate_optima(runs, noise=estimate_noise(runs), level=0.95))
    assert valley is not None
    assert valley.excess([2.0, 0.0], {"width": 64}) == pytest.approx(0.08, rel=0.02)
    assert valley.excess([0.0, -2.0], {"width": 64}) == pytest.approx(0.04, rel=0.02)


def test_each_of_two_tuned_values_has_its_own_steep_side() -> None:
    def side(u: float, low: float, high: float) -> float:
        r = high if u > 0 else low
        return float((np.expm1(r * abs(u)) - r * abs(u)) / r**2)

    rows = [
        {
            "width": w,
            "lr": lr,
            "batch": b,
            "loss": 2
            * np.exp(
                0.03 * side(np.log2(lr / 0.01), 0.1, 0.8) + 0.02 * side(np.log2(b / 32), 0.5, 0.1)
            ),
        }
        for w in (8, 16, 32)
        for lr in 0.01 * 2.0 ** np.arange(-3, 4)
        for b in 2.0 ** np.arange(2, 9)
    ]
    runs = read_runs(pd.DataFrame(rows), size="width", tune=("lr", "batch"))
    valley = fit_valley(runs, estimate_optima(runs, noise=estimate_noise(runs), level=0.95))
    assert valley is not None
    for u in (-2.0, 2.0):
        lr, batch = (valley.excess(at, {"width": 64}) for at in ([u, 0.0], [0.0, u]))
        assert lr == pytest.approx(0.03 * side(u, 0.1, 0.8), rel=0.15)
        assert batch == pytest.approx(0.02 * side(u, 0.5, 0.1), rel=0.15)


def test_many_distances_at_once_are_those_one_by_one(made: Forecast) -> None:
    valley, size = made.valley, {"width": 512.0}
    assert valley is not None
    u = np.linspace(-3, 3, 7)
    one_by_one = [valley.excess([value], size) for value in u]
    assert valley.excesses(u[:, None], size) == pytest.approx(one_by_one)
