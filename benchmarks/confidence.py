"""How often a forecast's confidence is low, and how often one of high confidence is wrong.

    python -m benchmarks.confidence [--n 400] [--seed 1] [--workers 2]

1. Sweeps of `benchmarks.verdicts`, of a known law, forecast at 2, 4, 8 and 16 times their largest
   size: against the loss of a tuned run there, and the cost of the recommended rate.
2. The sweeps of the repository, from their smaller sizes, three at least, for every larger one:
   against the best loss there, and the rate that the runs of that size make best.
3. Losses of public ladders, split as by `benchmarks.refused_losses`, where the data are there.

A forecast of high confidence is wrong if the loss is off by more than 3 %, or the recommended rate
costs more than 1 % of it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import extrap
from benchmarks.ladders import all_splits
from benchmarks.page import print_rows
from benchmarks.rows import DATA, Row, share_row
from benchmarks.verdicts import DrawnSweep

ROOT = Path(__file__).parents[1]
SHIPPED = (ROOT / "examples" / "sweep.csv", ROOT / "studies" / "metz_full.csv")
RATIOS, LEAST_SIZES, MOST_FORECASTS = (2, 4, 8, 16), 3, 10
MOST_OFF, MOST_COST, MOST_WRONG = math.log(1.03), math.log(1.01), 0.03


def graded(point: extrap.Point, loss: float, cost: Mapping[str, Any] | float) -> dict[str, Any]:
    """The confidence of a point beside how far its loss is off and what its values cost."""
    off = math.nan if point.loss is None else abs(math.log(point.loss / loss))
    return {"level": point.confidence.level, "off": off, "cost": cost}


def of_drawn(number: int, *, seed: int) -> list[dict[str, Any]]:
    """A sweep of a known law at larger sizes."""
    warnings.simplefilter("ignore")
    sweep = DrawnSweep(np.random.default_rng([seed, number]))
    tune = ["lr"] if sweep.is_tuned else []
    try:
        made = extrap.forecast(extrap.read_runs(sweep.table, size="width", tune=tune))
    except extrap.ExtrapError:
        return []
    found, remedy = [], mock.patch.object(extrap.Forecast, "remedy", return_value="")  # is slow
    for ratio in RATIOS:
        size = float(sweep.sizes[-1] * ratio)
        with remedy:
            point = made.at(width=size)
        rate, cost = point.recommended.get("lr"), math.nan
        if rate:
            octaves = math.log2(rate / 0.01) - sweep.best(size)
            cost = min(sweep.curvature / 2 * octaves**2, 3.0) if octaves <= sweep.limit else 3.0
        loss = sweep.floor + 2 * (size / 16) ** -sweep.power
        found.append(graded(point, loss, cost))
    return found


def of_shipped(path: Path) -> Iterator[dict[str, Any]]:
    """A sweep of the repository from its smaller sizes."""
    table = pd.read_csv(path)
    whole = extrap.forecast(table, size="width", tune=["lr"])
    sizes = sorted(optimum.size["width"] for optimum in whole.optima)
    for n in range(LEAST_SIZES, len(sizes)):
        made = extrap.forecast(table[table["width"] <= sizes[n - 1]], size="width", tune=["lr"])
        for optimum in whole.optima:
            if optimum.size["width"] <= sizes[n - 1] or optimum.loss is None:
                continue
            point, cost = made.at(**optimum.size), math.nan
            rate, values = point.recommended["lr"], whole.values_at(optimum.size)
            if rate and values is not None:
                cost = float(values.typical.excesses(np.log2([[rate]]))[0, 0])
            yield graded(point, optimum.loss, cost)


def of_ladder(table: Any) -> list[dict[str, Any]]:
    """A split of a public ladder."""
    warnings.simplefilter("ignore")
    try:
        made = table.forecast()
    except extrap.ExtrapError:
        return []
    ahead = table.truth.iloc[:: len(table.truth) // MOST_FORECASTS + 1]
    ahead = ahead[(ahead[list(table.sizes)] >= table.fitted[list(table.sizes)].min()).all(axis=1)]
    with mock.patch.object(extrap.Forecast, "remedy", return_value=""):
        return [
            graded(made.at(**size), loss, math.nan) | {"source": table.group}
            for size, loss in zip(
                ahead[list(table.sizes)].astype(float).to_dict("records"),
                ahead["loss"].astype(float),
                strict=True,
            )
        ]


def judge_ladders(data: Path = DATA) -> pd.DataFrame:
    """Every split of the public ladders."""
    tables = [table for _, table in all_splits(data)]
    with ProcessPoolExecutor(2) as pool:
        points = pool.map(of_ladder, tables, chunksize=4)
        return pd.DataFrame(list(itertools.chain.from_iterable(points)))


def rows(part: str, found: pd.DataFrame) -> list[Row]:
    """Shares of a part."""
    high = found[found["level"] == "high"]
    is_off, is_costly = high["off"] > MOST_OFF, high["cost"] > MOST_COST
    shares = [share_row(part, "low confidence", found["level"] == "low")]
    if len(high):
        figure = "high confidence: loss off by more than 3 %, or a rate that costs more than 1 %"
        n_off, n_costly = int(is_off.sum()), int(is_costly.sum())
        note = f"{n_off} losses, {n_costly} rates"
        if "source" in high:
            counts = is_off.groupby(high["source"]).agg(["sum", "size"])
            note += "; " + ", ".join(f"{s} {a} of {b}" for s, a, b in counts.itertuples())
        shares.append(share_row(part, figure, is_off | is_costly, most=MOST_WRONG, note=note))
    for level in ("low", "medium"):
        one = found[found["level"] == level]
        if len(one):
            is_wrong = (one["off"] > MOST_OFF) | (one["cost"] > MOST_COST)
            shares.append(share_row(part, f"{level} confidence: the same", is_wrong))
    return shares


def main() -> None:
    """Draw, forecast and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    tables = [table for _, table in all_splits()] if DATA.is_dir() else []
    with ProcessPoolExecutor(given.workers) as pool:
        parts = {
            "sweeps of the repository": map(list, map(of_shipped, SHIPPED)),
            f"{given.n} drawn sweeps": pool.map(
                partial(of_drawn, seed=given.seed), range(given.n), chunksize=4
            ),
            "public ladders": pool.map(of_ladder, tables, chunksize=4),
        }
        for part, found in parts.items():
            if points := list(itertools.chain.from_iterable(found)):
                print_rows(rows(part, pd.DataFrame(points)))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
