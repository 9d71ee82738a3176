"""The project's own sweeps whose larger sizes are forecast from the smaller ones.

1. `studies/metz_full.csv`, widths 16 to 2048: four widths and more forecast all larger ones.
2. The default study, `examples/`: its sweep forecasts widths 512 and 1024, which were trained
   after the forecast was sealed.

What larger sizes reach is the loss at their best rate. A rate is held against the minimum of the
parabola through the three best rates of its width, which also says what another rate costs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.horizon_draws import parabola_of, plane_columns
from benchmarks.rows import Row
from benchmarks.scores import LEVEL, Table, by_table, score_forecast
from extrap.fitting.regression import predict_power
from extrap.reporting.text import answer_text

ROOT = Path(__file__).parents[1]
METZ, SWEEP, LARGER = (
    ROOT / path for path in ("studies/metz_full.csv", "examples/sweep.csv", "examples/big.csv")
)
LEAST_SIZES = 4
COLUMNS = {"size": "width", "tune": ["lr"]}
SCORES = ("error", "held_90", "width", "interval_score")


def forecast_of(runs: pd.DataFrame) -> extrap.Forecast:
    """Forecast widths and rates."""
    return extrap.forecast(extrap.read_runs(runs, **COLUMNS), level=LEVEL)


def best_losses(runs: pd.DataFrame) -> pd.DataFrame:
    """Read off width and loss at the best rate, means over seeds."""
    means = runs.groupby(["width", "lr"], as_index=False)["loss"].mean()
    return means.loc[means.groupby("width")["loss"].idxmin()].reset_index(drop=True)


def loss_tables() -> Iterator[Table]:
    """Make tables of the best losses of the fitted and of larger widths."""
    runs = pd.read_csv(METZ)
    best = best_losses(runs)
    for n in range(LEAST_SIZES, len(best)):
        yield Table(f"{n} widths", "Metz", ("width",), best.iloc[:n], best.iloc[n:])
    larger = best_losses(pd.read_csv(LARGER))
    yield Table("sealed", "default study", ("width",), best_losses(pd.read_csv(SWEEP)), larger)


def judge_losses() -> pd.DataFrame:
    """Make one row per table of `loss_tables`, without scores where extrap refuses a width."""
    metz, parts = pd.read_csv(METZ), []
    for table in loss_tables():
        runs = metz if table.group == "Metz" else pd.read_csv(SWEEP)
        runs = runs[runs["width"] <= table.fitted["width"].max()]
        began = time.process_time()
        forecast = forecast_of(runs)
        points = table.truth[["width"]].astype(float).to_dict("records")
        if any(forecast.predict_loss(point) is None for point in points):
            scores = pd.DataFrame([dict.fromkeys(SCORES, np.nan)])
        else:
            scores = score_forecast(forecast, points, table.truth["loss"])
        seconds = time.process_time() - began
        parts.append(scores.assign(table=table.name, group=table.group, seconds=seconds))
    return by_table(pd.concat(parts))


def judge_rates() -> pd.DataFrame:
    """Make one row per larger width and rule: the rate, log2, and what it costs there."""
    runs, rows = pd.read_csv(METZ), []
    means = runs.groupby(["width", "lr"], as_index=False)["loss"].mean()
    truths = {float(str(width)): parabola_of(cell) for width, cell in means.groupby("width")}
    widths = sorted(truths)
    for n in range(LEAST_SIZES, len(widths)):
        made = forecast_of(runs[runs["width"] <= widths[n - 1]])
        best = {o.size["width"]: o.tuned["lr"].value for o in made.optima}
        for width in widths[n:]:
            truth = truths[width]
            assert truth is not None
            rows += [
                {
                    **row,
                    "cluster": width,
                    "split": f"{n} widths, {width:g}",
                    "truth": truth.minimum[0],
                    "regret": truth.excess(np.array([row["used"]])),
                }
                for row in _rates(made, best, width)
            ]
    return pd.DataFrame(rows)


def _rates(made: extrap.Forecast, best: dict[float, Any], width: float) -> list[dict[str, Any]]:
    """Make one row per rule, log2: the optimum `mid`, its interval, the rate that is `used`."""
    fitted = sorted(best)
    first, last, times = best[fitted[0]], best[fitted[-1]], width / fitted[-1]
    rates = [best[own] for own in fitted]
    line = plane_columns(
        predict_power({"width": fitted}, rates, None, at={"width": width}, level=LEVEL)
    )
    rules = {
        "smallest width's rate": first,
        "largest fitted width's rate": last,
        "that, over √width": last / times**0.5,
        "that, over width (μTransfer)": last / times,
    }
    values = made.values_at({"width": width})
    low, high = np.log2([*values.estimates["lr"].pi]) if values else (np.nan, np.nan)
    ours = {
        "mid": values.optimum[0] if values else np.nan,
        "used": values.answer.values[0] if values else np.nan,
    }
    return [
        {"method": "extrap", "low": low, "high": high, **ours},
        *(
            {"method": rule, "mid": float(np.log2(rate)), "used": float(np.log2(rate))}
            for rule, rate in rules.items()
        ),
        {
            "method": "straight line",
            **dict(zip(("mid", "low", "high"), line.values(), strict=True)),
            "used": line["plane"],
        },
    ]


def backtest() -> extrap.Backtest:
    """Run what `extrap backtest studies/metz_full.csv` runs."""
    return extrap.backtest(extrap.read_runs(pd.read_csv(METZ), **COLUMNS))


def backtest_rows(found: extrap.Backtest) -> list[Row]:
    """Make a row of its answer."""
    return [Row(part="Metz' sizes, rolling origin", figure="loss", reached=answer_text(found))]
