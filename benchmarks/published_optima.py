"""Tuned values of forecasts on published and measured tables.

    python -m benchmarks.published_optima [--only PART …]

| part | table |
|---|---|
| steplaw | Step Law's dense runs: larger cells from the smaller ones |
| divergence | the same: chance of divergence of the runs of a cell that is left out |
| metz, sweep | `studies/metz_full.csv`, `examples/sweep.csv`: larger widths from four or more |
| porian | Porian et al.: best model size at larger budgets, by the law of optima alone |
| cases | tables of users whose best value is known |
| effects | simulated optima over two size columns, by the law of optima alone |
| spreads | log scores of the law of optima under other prior probabilities of its spreads |

Beside them stands the value, or the loss, of the largest fitted size.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

import extrap
from benchmarks import optima, optimum_laws
from benchmarks.optimum_laws import N_WIDTHS, WIDTHS
from benchmarks.page import ROOT, print_rows
from benchmarks.rows import DATA, Row
from benchmarks.scores import LEVEL, rms


def widths(part: str) -> list[Row]:
    """Every larger width from four or more smaller ones, against the forecast of all runs."""
    table = pd.read_csv(ROOT / WIDTHS[part])[["width", "lr", "seed", "loss", "status"]]
    whole, found = extrap.forecast(table, size="width", tune="lr", level=LEVEL), []
    for k in range(N_WIDTHS, len(whole.optima)):
        below = table[table["width"] <= whole.optima[k - 1].size["width"]]
        made = extrap.forecast(below, size="width", tune="lr", level=LEVEL)
        for optimum in whole.optima[k:]:
            values, loss = made.values_at(optimum.size), made.predict_loss(optimum.size)
            assert values is not None
            assert loss is not None
            low, high = np.log2([*values.estimates["lr"].pi])
            row = {"mid": values.optimum[0], "low": low, "high": high}
            row |= {"kept": math.log2(made.optima[-1].tuned["lr"].value)}
            row |= {"truth": math.log2(optimum.tuned["lr"].value)}
            row |= {"refused": not made.is_tuned_at(optimum.size)}
            row |= {"off": loss.log_loss - math.log(optimum.loss)}
            found.append(row | {"last": math.log(made.last_value() / optimum.loss)})
    rows = pd.DataFrame(found)
    return [
        optima.optimum_row(part, f"learning rate, {rows['refused'].sum()} refused", rows),
        Row(
            part=part,
            figure="rms error of the loss",
            beat=f"last value {100 * rms(rows['last']):.2f} %",
            reached=f"{100 * rms(rows['off']):.2f} %",
        ),
    ]


class Known(NamedTuple):
    """A table and what is true at a width, and runs there by which the cost of a rate is known."""

    path: Path
    at: float
    truth: str
    measured: Path | None = None


USERS, EXAMPLES = DATA.with_name("cases2"), ROOT / "examples"
"""Tables of users beside the project; their truth is what the users measured."""
OWN, OWN_RUNS = "best lr .0055 to .0073, loss .738", USERS / "own_truth_width96.csv"
BIG = EXAMPLES / "big.csv"
KNOWN = (
    Known(USERS / "own_grid.csv", 96, OWN, OWN_RUNS),
    Known(USERS / "own_optuna_tpe.csv", 96, f"{OWN}; refused, or held", OWN_RUNS),
    Known(USERS / "own_two_values_tpe.csv", 96, f"{OWN}; decay at most about .1, flat", OWN_RUNS),
    Known(USERS / "largest_size_diverged.csv", 192, "no rate, or a small chance"),
    Known(USERS / "largest_size_diverged.csv", 960, "no rate, or a small chance"),
    Known(EXAMPLES / "sweep.csv", 512, "best of four rates .0032, loss 1.837", BIG),
    Known(EXAMPLES / "sweep.csv", 1024, "loss 1.807 at .0024, the better of two", BIG),
    Known(EXAMPLES / "wandb_export.csv", 512, "as of sweep.csv"),
)


def cases() -> list[Row]:
    """What is said of every table that is there."""
    rows = []
    for known in KNOWN:
        head = {"part": f"{known.path.parent.name}/{known.path.name}"}
        head["figure"] = f"at width {known.at:g}"
        if not known.path.is_file():
            rows.append(Row(**head, reached="left out: the table is not there"))
            continue
        point = extrap.forecast(known.path, level=LEVEL).at(known.at)
        said = [
            f"{name} {point.recommended[name] or math.nan:.4g} ({_ends(estimate.pi)})"
            for name, estimate in point.tuned.items()
        ]
        said.append(f"loss {point.loss or math.nan:.4g} ({_ends(point.loss_pi)})")
        if (advised := point.recommendation) is not None:
            said.append(f"cost {100 * advised.expected_cost:.1f} %")
            said.append(f"chance of divergence {advised.chance_of_divergence or 0:.3f}")
        said.append(true_cost(known, next(iter(point.recommended.values()))))
        said += [f"{name} refused" for name in point.refusals]
        words = ", ".join(filter(None, said))
        rows.append(Row(**head, reached=words, note=f"truth: {known.truth}"))
    return rows


def _ends(interval: extrap.Interval) -> str:
    return " to ".join("open" if end is None else f"{end:.4g}" for end in interval)


def true_cost(known: Known, rate: float | None) -> str:
    """What a rate costs over the best measured one, by linear interpolation of log losses."""
    if known.measured is None or rate is None:
        return ""
    table = pd.read_csv(known.measured)
    losses = table[table["width"] == known.at].groupby("lr")["loss"].mean()
    logs, rates = np.log(losses.to_numpy()), np.log2(losses.index.to_numpy())
    if not rates.min() <= math.log2(rate) <= rates.max():
        return "true cost not measured"
    return f"true cost {100 * (np.interp(math.log2(rate), rates, logs) - logs.min()):.1f} %"


PARTS = {
    "steplaw": lambda: optima.rolling_rows(optima.judge_rolling()),
    "divergence": optima.divergence,
    "metz": lambda: widths("Metz"),
    "sweep": lambda: widths("sweep.csv"),
    "porian": lambda: optimum_laws.porian_rows(optimum_laws.judge_porian()),
    "cases": cases,
    "effects": optimum_laws.effects,
    "spreads": optimum_laws.spreads,
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
