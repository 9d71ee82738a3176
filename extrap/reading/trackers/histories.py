"""Tables with a row a step: histories of many runs, and the charts that W&B exports.

| table | columns |
|---|---|
| history | the run's name or ID, a step, settings that stay, metrics that change |
| chart | `Step`, and of each line `NAME - METRIC` with `…__MIN` and `…__MAX` |

The name of a line, or of a group of runs (`lr: 0.01, width: 64`), says its settings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pandas as pd

from extrap.reading.cells import is_empty
from extrap.reading.columns import bare_name
from extrap.reading.found import Found
from extrap.reading.settings import settings_in
from extrap.reading.states import state_column
from extrap.reading.trackers.tracked import Points, TrackedRun, table_of

__all__ = ["history_of", "is_history"]

RUNS = ("run", "run_id", "Run", "Name", "run_name", "id", "ID")
STEPS = ("_step", "step", "Step", "global_step", "trainer/global_step")
LINE = re.compile(r"(?P<run>.+) - (?P<metric>[^ ].*?)")
EDGES = ("__MIN", "__MAX")


def is_history(table: pd.DataFrame, sizes: Sequence[str] = ()) -> bool:
    """Whether a table has a row a step, by a step that differs within a run.

    Where a size differs within a run too, such as its tokens, every row is a run of its own.
    """
    if _chart_step(table) is not None:
        return True
    run, step = _first(RUNS, table), _first(STEPS, table)
    if state_column(table) is not None:  # a table of runs, whose names may repeat
        return False
    if run is None or step is None or not table[run].duplicated().any():
        return False
    repeats = table[table[run].duplicated(keep=False)]
    sized = [c for c in table if str(c) in sizes or bare_name(str(c)) in sizes]
    if any(repeats.groupby(run, sort=False)[c].nunique().gt(1).any() for c in sized):
        return False
    is_stepped = repeats.groupby(run, sort=False)[step].nunique().gt(1).all()
    return bool(is_stepped) and not table.duplicated([run, step]).any()


def history_of(table: pd.DataFrame, where: str) -> Found:
    """The runs of such a table, and their curves."""
    step = _chart_step(table)
    runs = _long_runs(table) if step is None else _lines(table, step)
    n_points = len(table)
    note = f"the table has a row a step: {len(runs)} runs of {n_points} rows"
    return table_of(runs, where=where, notes=[note])


def _first(names: Sequence[str], table: pd.DataFrame) -> str | None:
    return next((name for name in names if name in table), None)


def _chart_step(table: pd.DataFrame) -> str | None:
    """The step of a chart's table: its first column, all others being lines."""
    names = [str(column) for column in table.columns]
    is_chart = len(names) > 1 and names[0] in STEPS and all(map(LINE.fullmatch, names[1:]))
    return names[0] if is_chart else None


def _lines(table: pd.DataFrame, step: str) -> list[TrackedRun]:
    runs: dict[str, dict[str, Points]] = {}
    for column in table.columns[1:]:
        line = LINE.fullmatch(column)
        if line is None or column.endswith(EDGES):
            continue
        runs.setdefault(line["run"], {})[line["metric"]] = _points(table[step], table[column])
    return [
        TrackedRun(name=name, settings=settings_in(name), history=history)
        for name, history in runs.items()
    ]


def _long_runs(table: pd.DataFrame) -> list[TrackedRun]:
    run, step = str(_first(RUNS, table)), str(_first(STEPS, table))
    others = [c for c in table.columns if c not in (run, step)]
    varying = [c for c in others if _varies(table, run, c)]
    found = []
    for name, rows in table.groupby(run, sort=False):
        settings: dict[str, Any] = {c: rows[c].iloc[0] for c in others if c not in varying}
        history = {c: _points(rows[step], rows[c]) for c in varying}
        found.append(TrackedRun(name=str(name), settings=settings, history=history))
    return found


def _varies(table: pd.DataFrame, run: str, column: str) -> bool:
    """Whether a column is measured: it holds numbers that differ within a run."""
    texts = table[column].astype(str)
    if not texts.groupby(table[run], sort=False).nunique().gt(1).any():
        return False
    return bool(pd.to_numeric(table[column].astype(object), errors="coerce").notna().any())


def _points(steps: pd.Series, values: pd.Series) -> Points:
    """The points of a metric, where it was logged; text that is no number is not finite."""
    logged = ~is_empty(values)
    if values.dtype.kind == "f":
        logged &= values.notna()  # a gap of a frame
    at = pd.to_numeric(steps[logged].astype(object), errors="coerce").astype(float)
    numbers = pd.to_numeric(values[logged].astype(object), errors="coerce").astype(float)
    return [(s, v) for s, v in zip(at, numbers, strict=True) if s == s]
