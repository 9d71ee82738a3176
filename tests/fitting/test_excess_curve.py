from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

from extrap.fitting import ExcessCurve, estimate_noise, estimate_optima, fit_excess_curve
from extrap.reading import read_runs

Table = Callable[..., pd.DataFrame]


def curve_of(table: pd.DataFrame) -> ExcessCurve | None:
    runs = read_runs(table, size="width", tune="lr")
    return fit_excess_curve(runs, estimate_optima(runs, noise=estimate_noise(runs), level=0.95))


def true_excess(u: float) -> float:
    rise = 0.5 if u > 0 else -0.35
    return float(0.03 * (np.expm1(rise * u) - rise * u) / rise**2)


BOWL = ExcessCurve(
    tuned=("lr", "batch"),
    columns=("width",),
    reference=(64.0,),
    curvature=((0.04, -0.01), (-0.01, 0.02)),
    trend=(0.5,),
    rise=((0.1, 0.8), (0.0, -0.3)),
    relative_sd=0.1,
)


def h(u: float, rise: float) -> float:
    return u**2 / 2 if rise == 0 else (math.expm1(rise * u) - rise * u) / rise**2


def test_excess_is_the_formula_worked_out() -> None:
    """At four times the reference size the curvature is twice as large."""
    for (u, v), (r, q) in (((1, 2), (0.8, -0.3)), ((-2, -1), (0.1, 0)), ((3, -1), (0.8, 0))):
        x = math.copysign(math.sqrt(2 * h(abs(u), r)), u)
        y = math.copysign(math.sqrt(2 * h(abs(v), q)), v)
        half = (0.04 * x**2 + 0.02 * y**2 - 0.02 * x * y) / 2
        assert BOWL.excess([u, v], {"width": 64}) == pytest.approx(half)
        assert BOWL.excess([u, v], {"width": 256}) == pytest.approx(2 * half)
    many = BOWL.excesses(np.array([[1e-6, 0.0], [0, 0], [1e4, 0], [-1e4, 0]]), {"width": 64})
    assert many == pytest.approx([0.02e-12, 0.0, 5.0, 5.0], rel=1e-6)


@pytest.mark.parametrize("batch", [-1.5, 0.0, 1.0, 200.0])
def test_best_rate_beside_another_batch_is_that_of_a_search(batch: float) -> None:
    """Straightened, it lies a quarter as far as the batch: −H12 / H11."""
    size = {"width": 64.0}
    found = BOWL.best_given([7.0, batch], "lr")
    if batch == 200.0:  # as far as 100 octaves, where √(2 h) = √(2 (e^−30 − 1 + 30) / .09)
        x = math.sqrt(2 * h(100.0, -0.3)) / 4
        assert math.sqrt(2 * h(found, 0.8)) == pytest.approx(x)
        return
    searched = optimize.minimize_scalar(
        lambda u: BOWL.excess([u, batch], size), bounds=(-3, 3), options={"xatol": 1e-10}
    )
    assert found == pytest.approx(searched.x, abs=1e-5)


def test_cost_of_mistuning_is_that_of_the_truth(sweep_table: Table) -> None:
    table = sweep_table(noise=0.001)
    excess_curve = curve_of(table)
    assert excess_curve is not None
    for u in (-3.0, -2.0, -1.0, 1.0, 2.0, 3.0):
        for width in (16.0, 192.0, 1024.0):
            assert excess_curve.excess([u], {"width": width}) == pytest.approx(
                true_excess(u), rel=0.12
            )
    ((low, high),) = excess_curve.rise
    assert (low, high) == pytest.approx((0.35, 0.5), abs=0.15)
    assert excess_curve.curvature[0][0] == pytest.approx(0.03, rel=0.06)
    assert excess_curve.trend == pytest.approx((0.0,), abs=0.03)
    assert excess_curve.reference == pytest.approx(
        (np.exp(np.log(table["width"]).mean()),), rel=0.1
    )


def test_scatter_about_the_shape_is_relative_to_the_excess() -> None:
    """Runs 20 % above and below the excess of a parabola in log2 of the rate."""
    u = np.tile(np.arange(-3.0, 4.0), 12)
    sign = np.repeat([1.0, -1.0], 42)
    table = pd.DataFrame({"width": np.tile(np.repeat([8, 16, 32], 14), 2), "lr": 0.01 * 2**u})
    table["loss"] = 2 * np.exp(0.03 * u**2 * (1 + 0.2 * sign))
    table["seed"] = np.tile(np.repeat([0, 1], 7), 6) + 2 * (sign > 0)
    excess_curve = curve_of(table)
    assert excess_curve is not None
    assert excess_curve.relative_sd == pytest.approx(0.2, abs=0.04)


def test_no_excess_curve_without_bracketed_optima(sweep_table: Table) -> None:
    assert curve_of(sweep_table(rates=tuple(float(2.0**k) for k in range(-5, 0)))) is None


def test_each_of_two_tuned_values_has_its_own_steep_side() -> None:
    def side(u: float, low: float, high: float) -> float:
        return h(abs(u), high if u > 0 else low)

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
    excess_curve = fit_excess_curve(
        runs, estimate_optima(runs, noise=estimate_noise(runs), level=0.95)
    )
    assert excess_curve is not None
    for u in (-2.0, 2.0):
        lr, batch = (excess_curve.excess(at, {"width": 64}) for at in ([u, 0.0], [0.0, u]))
        assert lr == pytest.approx(0.03 * side(u, 0.1, 0.8), rel=0.15)
        assert batch == pytest.approx(0.02 * side(u, 0.5, 0.1), rel=0.15)
