"""The project's own sweeps whose larger sizes are forecast from the smaller ones.

1. `studies/metz_full.csv`, widths 16 to 2048: four widths and more forecast all larger ones.
2. The default study, `examples/`: its sweep forecasts widths 512 and 1024, which were trained
   after the forecast was sealed.

What larger sizes reach is the loss at their best rate; a rate is held against the optimum that a
forecast of all runs has, whose curve also says what another rate costs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import extrap
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


class Origin(NamedTuple):
    """Runs of the smaller sizes, and of all, with the forecasts of both."""

    name: str
    fitted: pd.DataFrame
    made: extrap.Forecast
    whole: extrap.Forecast


def forecast_of(runs: pd.DataFrame) -> extrap.Forecast:
    """The forecast of widths and rates."""
    return extrap.forecast(extrap.read_runs(runs, **COLUMNS), level=LEVEL)


def best_losses(runs: pd.DataFrame) -> pd.DataFrame:
    """Width and loss at the best rate, a mean over seeds, as anyone would read it off."""
    means = runs.groupby(["width", "lr"], as_index=False)["loss"].mean()
    return means.loc[means.groupby("width")["loss"].idxmin()].reset_index(drop=True)


def origins() -> Iterator[Origin]:
    """Of Metz' sizes."""
    runs = pd.read_csv(METZ)
    whole, widths = forecast_of(runs), sorted(runs["width"].unique())
    for n in range(LEAST_SIZES, len(widths)):
        fitted = runs[runs["width"] <= widths[n - 1]]
        yield Origin(f"{n} widths", fitted, forecast_of(fitted), whole)


def loss_tables() -> Iterator[Table]:
    """Best losses of the fitted and of larger widths; sets count alike."""
    runs = pd.read_csv(METZ)
    best = best_losses(runs)
    for n in range(LEAST_SIZES, len(best)):
        yield Table(f"{n} widths", "Metz", ("width",), best.iloc[:n], best.iloc[n:])
    larger = best_losses(pd.read_csv(LARGER))
    yield Table("sealed", "default study", ("width",), best_losses(pd.read_csv(SWEEP)), larger)


def judge_losses() -> pd.DataFrame:
    """One row per set of fitted widths: scores of extrap on the tables of `loss_tables`."""
    metz, parts = pd.read_csv(METZ), []
    for table in loss_tables():
        runs = metz if table.group == "Metz" else pd.read_csv(SWEEP)
        runs = runs[runs["width"] <= table.fitted["width"].max()]
        began = time.process_time()
        forecast = forecast_of(runs)
        refused = [forecast.predict_loss({"width": w}) is None for w in table.truth["width"]]
        truth = table.truth[~np.array(refused)]
        points = truth[["width"]].astype(float).to_dict("records")
        scores = score_forecast(forecast, points, truth["loss"])
        seconds = time.process_time() - began
        parts.append(scores.assign(table=table.name, group=table.group, seconds=seconds))
    return by_table(pd.concat(parts))


def judge_rates() -> pd.DataFrame:
    """One row per larger width: the rate by several rules, log2, and what it costs there."""
    rows = []
    for origin in origins():
        best = {o.size["width"]: o.tuned["lr"].value for o in origin.made.optima}
        widths = np.array(sorted(best))
        first, last = best[widths[0]], best[widths[-1]]
        for optimum in origin.whole.optima:
            width = optimum.size["width"]
            if width <= widths[-1]:
                continue
            truth = origin.whole.values_at(optimum.size)
            values = origin.made.values_at(optimum.size)
            assert truth is not None
            if values is None:
                continue
            low, high = np.log2([*values.estimates["lr"].pi])
            line = predict_power(
                {"width": widths.tolist()},
                [best[w] for w in widths],
                None,
                at=optimum.size,
                level=LEVEL,
            )
            rates: dict[str, Any] = {
                "extrap": 2.0 ** values.answer.values[0],
                "smallest width's rate": first,
                "largest fitted width's rate": last,
                "that, over √width": last * (widths[-1] / width) ** 0.5,
                "that, over width (μTransfer)": last * widths[-1] / width,
                "straight line": line.value,
            }
            ends = {"extrap": (low, high), "straight line": tuple(np.log2([*line.ci]))}
            for method, rate in rates.items():
                value = float(np.log2(rate))
                cost = float(truth.typical.excesses(np.array([[value]]))[0, 0])
                row = {"method": method, "cluster": width, "split": f"{origin.name}, {width:g}"}
                row |= dict(zip(("low", "high"), ends.get(method, (np.nan,) * 2), strict=True))
                mid = values.optimum[0] if method == "extrap" else value
                rows.append(row | {"mid": mid, "truth": truth.optimum[0], "regret": cost})
    return pd.DataFrame(rows)


def backtest() -> extrap.Backtest:
    """What `extrap backtest studies/metz_full.csv` gives."""
    return extrap.backtest(extrap.read_runs(pd.read_csv(METZ), **COLUMNS))


def backtest_rows(found: extrap.Backtest) -> list[Row]:
    """Its answer."""
    return [Row(part="Metz' sizes, rolling origin", figure="loss", reached=answer_text(found))]
