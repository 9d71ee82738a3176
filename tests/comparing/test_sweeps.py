"""Two sweeps side by side: differences of exponents and of losses, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from extrap.comparing import compare_losses, compare_slopes
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs

Table = Callable[..., pd.DataFrame]
TARGET = {"width": 1024.0}


def made_of(table: pd.DataFrame, **options: float) -> Forecast:
    return forecast(read_runs(table, size="width", tune="lr"), **options)


@pytest.fixture(scope="module")
def falling(sweep_table: Table) -> Forecast:
    """The best rate falls as width^-0.4."""
    return made_of(sweep_table())


@pytest.fixture(scope="module")
def still(sweep_table: Table) -> Forecast:
    """The best rate stays put: every rate of the other sweep times width^0.4."""
    table = sweep_table(seed=1)
    return made_of(table.assign(lr=table["lr"] * (table["width"] / 16) ** 0.4))


def test_slopes_and_their_difference_hold_the_truth(still: Forecast, falling: Forecast) -> None:
    (found,) = compare_slopes(still, falling)
    assert (found.tuned, found.column) == ("lr", "width")
    assert 0.0 in found.slope.ci
    assert -0.4 in found.baseline.ci
    assert 0.4 in found.difference.ci
    assert 0.0 not in found.difference.ci
    assert found.difference.value == found.slope.value - found.baseline.value
    assert found.difference.se == math.hypot(found.slope.se, found.baseline.se)


def test_difference_turns_round_with_the_order(still: Forecast, falling: Forecast) -> None:
    (there,), (back,) = compare_slopes(still, falling), compare_slopes(falling, still)
    assert there.difference.value == -back.difference.value
    assert there.difference.ci.lower == pytest.approx(-back.difference.ci.upper)


def with_law(made: Forecast, slope: float, se: float, dof: int) -> Forecast:
    fit = made.tuned_laws["lr"]
    known = replace(
        fit,
        values=(fit.values[0], slope),
        covariance=((0.0, 0.0), (0.0, se**2)),
        dof=dof,
    )
    return replace(made, tuned_laws={"lr": known})


def test_two_equally_well_known_slopes_have_twice_the_degrees_of_freedom(
    falling: Forecast,
) -> None:
    (found,) = compare_slopes(with_law(falling, 0.1, 0.02, 3), with_law(falling, 0.0, 0.02, 3))
    assert found.difference.dof == pytest.approx(6)
    half = stats.t.ppf(0.975, 6) * 0.02 * math.sqrt(2)
    assert found.difference.ci.upper == pytest.approx(0.1 + half)


def test_pinned_slope_adds_no_uncertainty(falling: Forecast) -> None:
    (found,) = compare_slopes(with_law(falling, 0.1, 0.02, 3), with_law(falling, 0.0, 0.0, 4))
    assert found.difference.ci == pytest.approx(found.slope.ci)
    (both,) = compare_slopes(with_law(falling, 0.1, 0.0, 3), with_law(falling, 0.0, 0.0, 4))
    assert both.difference.ci == (0.1, 0.1)


def test_interval_of_the_difference_covers_as_often_as_it_says(falling: Forecast) -> None:
    """2,000 repeats at 0.95 have a standard error of half a point."""
    rng, n, inside = np.random.default_rng(0), 2000, 0
    for _ in range(n):
        ours, theirs = (
            with_law(
                falling,
                rng.normal(0, sd),
                sd * math.sqrt(rng.chisquare(dof) / dof),
                dof,
            )
            for sd, dof in ((0.05, 3), (0.02, 5))
        )
        inside += 0.0 in compare_slopes(ours, theirs)[0].difference.ci
    assert 0.94 <= inside / n <= 0.98


def test_slope_without_a_law_is_unknown_and_so_is_the_difference(falling: Forecast) -> None:
    (found,) = compare_slopes(falling, replace(falling, tuned_laws={"lr": None}))
    assert found.slope is not None
    assert found.baseline is None
    assert found.difference is None


def test_losses_are_compared_at_common_sizes_and_at_the_target(sweep_table: Table) -> None:
    ours = made_of(sweep_table())
    table = sweep_table(widths=(32.0, 64.0, 128.0, 192.0, 256.0), seed=1)
    worse = made_of(table.assign(loss=1.1 * table["loss"]))
    rows = compare_losses(ours, worse, target=TARGET)
    assert [row.size["width"] for row in rows] == [32, 64, 128, 192, 1024]
    assert [row.is_forecast for row in rows] == [False] * 4 + [True]
    for row in rows:
        assert 1 / 1.1 in row.ratio_ci
        assert row.of_sweep.loss in row.of_sweep.ci
    assert all(1.0 not in row.ratio_ci for row in rows[:-1])
    assert rows[0].of_sweep.loss == ours.optima[1].loss


def test_ratio_is_less_sure_than_either_loss(still: Forecast, falling: Forecast) -> None:
    for row in compare_losses(still, falling, target=TARGET):
        low, high = map(math.log, row.ratio_ci)
        for one in (row.of_sweep, row.of_baseline):
            assert high - low > math.log(one.ci.upper / one.ci.lower)


def test_loss_at_the_edge_of_a_grid_is_only_bounded(sweep_table: Table, still: Forecast) -> None:
    edge = made_of(sweep_table(rates=(2**-12, 2**-11, 2**-10)))
    for row in compare_losses(still, edge, target=TARGET):
        assert row.of_baseline.loss is None
        assert row.of_baseline.ci.upper is not None
        assert row.ratio is None
        assert row.ratio_ci == (None, None)


def test_target_below_the_baselines_sizes_is_unknown_there(sweep_table: Table) -> None:
    large = made_of(sweep_table(widths=(64.0, 128.0, 192.0, 256.0)))
    row = compare_losses(made_of(sweep_table()), large, target={"width": 32.0})[-1]
    assert row.of_sweep.loss is not None
    assert row.of_baseline.loss is None
    assert row.ratio is None


def test_sweeps_of_other_columns_or_levels_are_not_compared(
    sweep_table: Table, falling: Forecast
) -> None:
    renamed = sweep_table().rename(columns={"lr": "rate"})
    other = forecast(read_runs(renamed, size="width", tune="rate"))
    with pytest.raises(
        ValueError, match="tuned columns of what it is compared with, lr; got rate"
    ):
        compare_slopes(falling, other)
    with pytest.raises(ValueError, match=r"level of what it is compared with, 0\.95; got 0\.9"):
        compare_losses(falling, replace(falling, level=0.9), target=TARGET)
