"""The monitor on runs in progress: how soon mistuned ones are called, how rarely tuned ones are.

A sweep as in `studies/metz.py` at widths 16 to 128, then runs at three small widths and two larger
ones that it has not seen, with seeds of their own: half of them within a quarter octave of the
forecast rate, half of them 2 and 3 octaves off on either side. `watched.csv` has one row per run
and one column per step of its held-out curve; the program that trained them is in version 0.1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import extrap
from benchmarks.rows import Row, share_row
from extrap.records import Runs

TABLE = Path(__file__).with_name("watched.csv")
KNOWN = ["width", "lr", "seed", "status", "stage", "loss"]


def load() -> tuple[Runs, Runs]:
    """The sweep and the watched runs, with curves."""
    table = pd.read_csv(TABLE)
    stages = (table[table["stage"] == stage].reset_index(drop=True) for stage in ("tune", "check"))
    sweep, watched = map(_runs, stages)
    return sweep, watched


def _runs(table: pd.DataFrame) -> Runs:
    curves = table.drop(columns=KNOWN).rename(columns=float)
    long = curves.stack().dropna().rename_axis(["run", "step"]).rename("loss").reset_index()
    return Runs.from_frame(table[KNOWN], sizes=["width"], tuned=["lr"], curves=long)


def watch_all() -> pd.DataFrame:
    """One row a watched run: how far off its rate is, when it was called and why."""
    sweep, watched = load()
    made = extrap.forecast(sweep)
    frame, curves = watched.to_frame(), watched.curves()
    assert curves is not None
    by_run = dict(iter(curves.groupby("run")))
    rows = []
    for i, row in enumerate(frame.to_dict("records")):
        size = {"width": float(row["width"])}
        best = made.predict_tuned(size)["lr"].value
        monitor = extrap.Monitor(made, at=size)
        steps, losses = (by_run[i][name].to_numpy(float) for name in ("step", "loss"))
        for step, loss in zip(steps, losses, strict=True):
            monitor.update(step, loss)
        called = next((reading for reading in monitor.history if reading.alarm), None)
        off = np.log2(row["lr"] / (best or np.nan))
        rows.append(
            {
                "width": row["width"],
                "octaves": round(off),
                "fraction": np.inf if called is None else called.fraction,
                "cause": None if called is None else called.cause,
                "said_high": called is not None and "too high" in called.advice,
            }
        )
    return pd.DataFrame(rows)


def rows(found: pd.DataFrame) -> list[Row]:
    """The figures."""
    off, tuned = found[found["octaves"].abs() >= 2], found[found["octaves"] == 0]
    right = (off["cause"] == "mistuned") & (off["said_high"] == (off["octaves"] > 0))
    part = "monitor, our own runs"
    mistuned = "mistuned by ≥ 2 octaves called within"
    return [
        share_row(part, f"{mistuned} 10 % of training", off["fraction"] <= 0.1001, least=0.8),
        share_row(part, f"{mistuned} 25 % of training", off["fraction"] <= 0.2501, least=0.95),
        share_row(
            part,
            "false alarms over whole tuned runs",
            np.isfinite(tuned["fraction"]),
            most=0.05,
        ),
        share_row(part, "cause of those called: mistuned, on the right side", right),
    ]
