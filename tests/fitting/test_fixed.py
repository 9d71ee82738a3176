from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from extrap.errors import DataError
from extrap.forecasting import Forecast, forecast
from extrap.reading import read_runs

SIZES = [{"width": w} for w in (16.0, 64.0, 192.0, 1024.0, 16384.0)]


@pytest.fixture(scope="module")
def made(sweep_table: Callable[..., pd.DataFrame]) -> Forecast:
    return forecast(read_runs(sweep_table(), size="width", tune="lr"))


def test_fixed_rate_curve_turns_up_where_the_tuned_one_goes_on_falling(made: Forecast) -> None:
    rate = made.at(width=16.0).tuned["lr"].value
    kept = made.frame_at_values(SIZES, tuned={"lr": rate})
    tuned = made.frame(SIZES)
    assert (np.diff(tuned["loss"]) < 0).all()
    assert np.diff(kept["loss"])[0] < 0 < np.diff(kept["loss"])[-1]
    assert kept["loss"][0] == pytest.approx(tuned["loss"][0], rel=0.005)
    assert (np.diff(kept["lr_octaves"]) > 0).all()


def test_loss_at_the_optimum_is_that_of_a_tuned_run(made: Forecast) -> None:
    rate = made.at(width=512.0).tuned["lr"].value
    (row,) = made.frame_at_values([{"width": 512.0}], tuned={"lr": rate}).to_dict("records")
    assert row["log_excess"] == pytest.approx(0, abs=1e-9)
    assert row["loss"] == pytest.approx(made.at(width=512.0).loss, rel=0.005)


def test_interval_holds_the_loss_and_widens_away_from_the_optimum(made: Forecast) -> None:
    rate = made.at(width=512.0).tuned["lr"].value
    rates = [rate, 2 * rate, 8 * rate]
    rows = [made.frame_at_values([{"width": 512.0}], tuned={"lr": r}).iloc[0] for r in rates]
    assert all(row["loss_pi_lower"] < row["loss"] < row["loss_pi_upper"] for row in rows)
    widths = [np.log(row["loss_pi_upper"] / row["loss_pi_lower"]) for row in rows]
    assert widths == sorted(widths)


def test_scatter_of_the_valley_widens_the_interval_of_a_mistuned_run(made: Forecast) -> None:
    assert made.valley is not None
    spans = []
    for scatter in (0.0, 0.5):
        valley = replace(made.valley, relative_sd=scatter)
        rows = replace(made, valley=valley).frame_at_values(SIZES[3:4], tuned={"lr": 0.05})
        spans.append(float(np.log(rows["loss_pi_upper"] / rows["loss_pi_lower"])[0]))
    assert spans[1] > 1.3 * spans[0]


def test_wider_level_holds_the_narrower_interval(made: Forecast) -> None:
    narrow, wide = (
        replace(made, level=level).frame_at_values([{"width": 512.0}], tuned={"lr": 0.01}).iloc[0]
        for level in (0.5, 0.99)
    )
    assert wide["loss_pi_lower"] < narrow["loss_pi_lower"]
    assert narrow["loss_pi_upper"] < wide["loss_pi_upper"]


@pytest.mark.parametrize("tuned", [{}, {"lr": -1.0}, {"lr": 0.1, "momentum": 0.9}])
def test_kept_values_must_be_the_tuned_columns(made: Forecast, tuned: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="kept values must be positive, one for each of lr"):
        made.frame_at_values(SIZES, tuned=tuned)


def test_sweep_without_optima_says_why_it_cannot_tell(
    sweep_table: Callable[..., pd.DataFrame],
) -> None:
    table = sweep_table()
    edge = forecast(read_runs(table[table["lr"] <= 0.002], size="width", tune="lr"))
    with pytest.raises(DataError, match="extend the sweep"):
        edge.frame_at_values(SIZES, tuned={"lr": 0.002})
