"""One surface beside today's estimators, on published and measured tables.

    python -m benchmarks.published_surfaces [--only PART …]

| part | table |
|---|---|
| steplaw | Step Law's dense runs: larger cells from the smaller ones |
| divergence | the same: chance of divergence of the runs of a cell that is left out |
| metz, sweep | `studies/metz_full.csv`, `examples/sweep.csv`: larger widths from four or more |
| porian | Porian et al.: best model size at larger budgets, by the law of optima alone |
| cases | tables of users whose best value is known |
| effects | simulated optima over two size columns |
| spreads | log scores of the law of optima under other prior probabilities of its spreads |

"today" has the optima that all runs give, "runs below" only the smaller cells' runs, as the
surface has. Intervals and scores are in octaves, see `forecast_scores`.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import extrap
from benchmarks.fitted_surface import Fitted, ends_of
from benchmarks.forecast_scores import SURFACE, TODAY, paired_row, scored, words
from benchmarks.optimum_laws import effects, porian_rows
from benchmarks.page import ROOT, print_rows
from benchmarks.rows import Row
from benchmarks.scores import LEVEL, rms
from benchmarks.spread_scores import N_WIDTHS, WIDTHS, spreads
from benchmarks.surface_cases import cases
from benchmarks.surface_steplaw import divergence, steplaw
from extrap.fitting.surface.answers import answer


def widths(part: str, path: Path) -> list[Row]:
    """Every larger width from four or more smaller ones."""
    table = pd.read_csv(path)[["width", "lr", "seed", "loss", "status"]]
    every = sorted(table["width"].unique())
    made = extrap.forecast(extrap.read_runs(table, size=["width"], tune=["lr"]), level=LEVEL)
    truth = {o.size["width"]: o for o in made.optima}
    whole = Fitted(extrap.read_runs(table, size=["width"], tune=["lr"]), [[every[-1]]])
    own = dict(zip(every, whole.optima[:, 0], strict=True))
    rows = []
    for k in range(N_WIDTHS, len(every)):
        below = table[table["width"].isin(every[:k])].reset_index(drop=True)
        for row in _beyond(below, every[k:]):
            optimum, width = truth[row["width"]], row["width"]
            value = optimum.tuned["lr"].value
            references = {"truth": math.log2(value) if value else math.nan, "own": own[width]}
            rows.append({**row, **references, "cluster": width, "case": (k, width)})
            rows[-1]["loss off"] = row["loss"] - math.log(optimum.loss)
    return _width_rows(part, pd.DataFrame(rows))


def _beyond(table: pd.DataFrame, larger: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Forecasts at larger widths, today's and the surface's: log2 rate, log loss."""
    runs = extrap.read_runs(table, size=["width"], tune=["lr"])
    made, new = extrap.forecast(runs, level=LEVEL), Fitted(runs, [[w] for w in larger])
    losses = new.log_losses(np.array(larger, dtype=float))[:, 0]
    for width, draws, loss in zip(larger, new.draws, losses, strict=True):
        point = made.at(width=float(width))
        rate = point.tuned.get("lr")
        ends = {"mid": math.nan, "low": math.nan, "high": math.nan}
        if rate and rate.value:
            three = (rate.value, rate.pi.lower, rate.pi.upper)
            ends = dict(zip(ends, map(math.log2, three), strict=True))
        log_loss = math.log(point.loss) if point.loss else math.nan
        refused = math.isnan(ends["mid"])
        yield {"width": width, "who": TODAY, **ends, "loss": log_loss, "refused": refused}
        said = {"loss": loss, "refused": bool(answer(draws, level=LEVEL).refusal)}
        yield {"width": width, "who": SURFACE, **ends_of(draws), **said}


def _width_rows(part: str, found: pd.DataFrame) -> list[Row]:
    rows = []
    for truth, of in {"truth": "today's fit of all", "own": "the surface's fit of all"}.items():
        rows.append(paired_row(part, f"rate to {of}, both answer", found, truth))
        new = scored(found[found["who"] == SURFACE], truth)
        rows.append(Row(part=part, figure=f"the same, all {len(new)}", reached=words(new)))
    by = {who: found[found["who"] == who].set_index("case") for who in (TODAY, SURFACE)}
    refused = {who: f"{here['refused'].sum()} of {len(here)}" for who, here in by.items()}
    rows.append(Row(part=part, figure="refused", beat=refused[TODAY], reached=refused[SURFACE]))
    said = by[TODAY].index[by[TODAY]["loss"].notna()]
    off = {who: 100 * here["loss off"].astype(float) for who, here in by.items()}
    errors = {who: f"rms {rms(here[said]):.2f} %" for who, here in off.items()}
    rows.append(
        Row(
            part=part,
            figure=f"loss, {len(said)} that today says; all {len(off[SURFACE])}",
            beat=errors[TODAY],
            reached=f"{errors[SURFACE]}; {rms(off[SURFACE]):.2f} %",
        )
    )
    return rows


PARTS = {
    "steplaw": steplaw,
    "divergence": divergence,
    "metz": lambda: widths("Metz", ROOT / WIDTHS["Metz"]),
    "sweep": lambda: widths("examples/sweep.csv", ROOT / WIDTHS["sweep.csv"]),
    "porian": porian_rows,
    "cases": cases,
    "effects": effects,
    "spreads": spreads,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[*PARTS], choices=PARTS, metavar="PART")
    warnings.simplefilter("ignore")
    for name in parser.parse_args().only:
        began = time.perf_counter()
        try:
            rows = PARTS[name]()
        except FileNotFoundError as error:
            rows = [Row(part=name, figure="left out", reached=str(error))]
        print_rows(rows)
        sys.stdout.write(f"{name}: {time.perf_counter() - began:.0f} s\n\n")


if __name__ == "__main__":
    main()
