"""Loss curves beside a table of runs: one row a point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown
from extrap.reading.columns import missing_column
from extrap.reading.tables import read_table


def read_curves(source: str | Path | pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The curves of the runs in a table, `run` replaced by the row.

    Points of runs that are not in the table are left out: one file may serve the sweep and the
    larger runs. A loss that is no number stays, as a sign of instability.

    Args:
        source: A CSV, Parquet or JSONL file or a DataFrame with `run`, `step`, `loss`.
        table: The runs; their `run` column, or else their place from 0, is what `run` means.

    Returns:
        Columns `run` (row of the table), `step`, `loss`.

    Raises:
        DataError: A column is missing, a step is no number, two runs have one name, or no point
            belongs to any run.
    """
    points = read_table(source)
    for column in ("run", "step", "loss"):
        if column not in points:
            raise missing_column(column, list(points), "the table of curves")
    if points.empty:
        raise DataError("a table of curves needs at least one row, it has none; leave it out.")
    names = table["run"] if "run" in table else pd.Series(range(len(table)))
    names = names.map(_name)
    twice = names[names.duplicated()]
    if len(twice):
        raise DataError(
            f"each run needs a name of its own where it has a curve, {shown(twice.iloc[0])} "
            "occurs twice; make the run column of the table unique."
        )
    row = pd.Series(range(len(names)), index=names)
    step = pd.to_numeric(points["step"], errors="coerce")
    if step.isna().any():
        at = int(np.flatnonzero(step.isna())[0])
        raise DataError(
            f"steps of curves are numbers, got {shown(points['step'].iloc[at])} in row {at + 1}."
        )
    found = pd.DataFrame(
        {
            "run": points["run"].map(_name).map(row),
            "step": step,
            "loss": pd.to_numeric(points["loss"], errors="coerce"),
        }
    ).dropna(subset="run")
    if found.empty:
        raise DataError(
            "the curves belong to none of the runs: their run column must hold the values of the "
            f"table's run column, or its row numbers from 0; got {shown(points['run'].iloc[0])}."
        )
    return found.astype({"run": int}).reset_index(drop=True)


def _name(value: object) -> str:
    """A run's name as text; `3` and `3.0` are one."""
    text = str(value).strip()
    return text[:-2] if text.endswith(".0") else text
