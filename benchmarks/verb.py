"""The project's own backtest, as a user would call it, on shipped and published sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

import extrap
from benchmarks.optima import SIZES, TUNED, step_law
from benchmarks.rows import DATA, Row, gadre_sets

EXAMPLE = Path(__file__).parents[1] / "examples" / "sweep.csv"
LEVELS = (50, 80, 90)


def sweeps(data: Path = DATA) -> Iterator[tuple[str, extrap.Runs]]:
    """Name and runs; published ones where their table is there."""
    yield "examples/sweep.csv", extrap.read_runs(EXAMPLE, size="width", tune="lr")
    if (data / "steplaw.csv").is_file():
        yield "Step Law dense", extrap.read_runs(step_law(data), size=SIZES, tune=TUNED)
    if (data / "gadre_mlfoundations.csv").is_file():
        for name, runs in gadre_sets(data).items():
            kept = runs[~runs["long_warmup"]].reset_index(drop=True)
            table = kept[[*SIZES, "loss"]]
            yield f"Gadre, {name}, short warm-up", extrap.read_runs(table, size=SIZES)


def judge_sweeps(data: Path = DATA) -> pd.DataFrame:
    """Scores by sweep and extrapolation ratio, `all` last."""
    tables = []
    for name, runs in sweeps(data):
        found = extrap.backtest(runs)
        tables.append(found.summary().assign(sweep=name, n_failed=found.n_failed))
    return pd.concat(tables, ignore_index=True)


def rows(table: pd.DataFrame) -> list[Row]:
    """One row a sweep; no targets."""
    return [
        Row(
            part="extrap.backtest, small sizes predict larger ones",
            figure=f"{r['sweep']}: {r['n']} predictions",
            beat=f"last value rms {100 * r['last_value_rms_error']:.2f} %",
            reached="held at 50/80/90 %: "
            + "/".join(f"{100 * r[f'coverage_{level}']:.0f}" for level in LEVELS)
            + f" %; rms {100 * r['rms_error']:.2f} %, skill {r['skill']:.2f}",
            note="Predictions of one sweep share data and are no independent trials."
            if r["sweep"].startswith("examples")
            else "",
        )
        for r in table[table["extrapolation_ratio"] == "all"].to_dict("records")
    ]
