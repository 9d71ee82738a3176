"""Tables with one row per step: histories of many runs, and the charts that W&B exports.

| table | columns |
|---|---|
| history | the run's name or ID, a step, settings that stay, metrics that change |
| chart | `Step`, and of each line `NAME - METRIC` with `…__MIN` and `…__MAX` |

The name of a line, or of a group of runs (`lr: 0.01, width: 64`), says its settings.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown
from extrap.reading.cells import is_empty
from extrap.reading.endings import state_column
from extrap.reading.found import Found
from extrap.reading.layouts import EDGES
from extrap.reading.names import WORDS, bare_name
from extrap.reading.settings import settings_in
from extrap.reading.trackers.tracked import Points, TrackedRun, table_of

RUNS = (
    *("run", "run_id", "run id", "run_name", "run name", "name", "id"),
    *("experiment", "experiment_id", "experiment_name", "exp", "trial", "trial_id", "job_id"),
)
"""In lower case."""
STEPS = (
    *("_step", "step", "global_step", "trainer/global_step", "train/global_step"),
    *("iteration", "iter", "epoch", "train/epoch"),
)
"""In lower case, the finest first."""
OF_RUNS = re.compile(r"(created|started|start_time|start time|created_at|end_time|updated_at)")
"""Columns that a table of runs has, in lower case: when each began."""
LINE = re.compile(r"(?P<run>.+) - (?P<metric>[^ ].*?)")


def is_history(table: pd.DataFrame, settings: Sequence[str] = ()) -> bool:
    """Whether a table has a row a step, by a step that differs within a run.

    Where a setting differs within a run too (a size such as its tokens, a tuned value, the seed,
    how it ended), runs share a name and every row is a run of its own.

    Args:
        table: The table.
        settings: Columns that are known to be set, not measured: sizes, tuned values, conditions
            and the seed.
    """
    return _chart_step(table) is not None or _run_and_step(table, settings) is not None


def check_rows_are_runs(table: pd.DataFrame, settings: Sequence[str]) -> None:
    """Raise where rows of a table are steps, and nothing says of which run.

    Such rows have equal settings, the seed among them if there is one, and differ in a step. Each
    would pass for a replicate of the others.

    Raises:
        DataError: They are.
    """
    step = _step_of(table)
    known = [c for c in table if _is_one_of(c, settings) and c != step]
    if step is None or _is_one_of(step, settings) or not known:
        return
    cells = table[known].astype(str).agg("\x1f".join, axis="columns")
    repeats = table[cells.duplicated(keep=False)]
    if repeats.empty or len(repeats) < len(table) / 2:
        return
    others = [c for c in table if c not in (*known, step)]
    if any(_may_be_set(repeats, c) and _varies_within(repeats, cells, c) for c in others):
        return
    steps = [tuple(sorted(map(str, rows))) for _, rows in repeats.groupby(cells)[step]]
    is_seeded = any(bare_name(str(c)).lower().endswith("seed") for c in known)
    is_stepped = all(len(set(own)) > 1 for own in steps)
    if is_stepped and (is_seeded or len(steps) > 1 == len({frozenset(own) for own in steps})):
        listed = ", ".join(shown(str(c)) for c in known)
        raise DataError(
            f"a row is a run, {len(repeats)} rows with equal {listed} differ in {shown(step)}: "
            f"they look like the steps of a run. Keep the last row of each run, or give every run "
            f"a name of its own in a column run; if they are runs, leave {shown(step)} out."
        )


def history_of(table: pd.DataFrame, where: str, settings: Sequence[str] = ()) -> Found:
    """The runs of such a table, and their curves; of two rows of one step the later counts."""
    step, named = _chart_step(table), _run_and_step(table, settings)
    if step is not None:
        runs = _lines(table, step)
    elif named is not None:
        runs = _long_runs(table, *named)
    else:
        raise ValueError("a history has a run and a step; ask is_history first.")
    n_points = len(table)
    note = f"the table has a row a step: {len(runs)} runs of {n_points} rows"
    return table_of(runs, where=where, notes=[note])


def _run_and_step(table: pd.DataFrame, settings: Sequence[str]) -> tuple[str, str] | None:
    """The columns that say of which run and step a row is, where rows are steps."""
    step = _step_of(table)
    if step is None or _is_one_of(step, settings):
        return None
    found = (run for run in _columns_of(RUNS, table) if not _is_one_of(run, settings))
    return next(((run, step) for run in found if _are_steps(table, run, step, settings)), None)


def _are_steps(table: pd.DataFrame, run: str, step: str, settings: Sequence[str]) -> bool:
    names = table[run]
    repeats = table[names.duplicated(keep=False)]
    if repeats.empty:
        return False
    state = state_column(table)
    fixed = [c for c in table if _is_one_of(c, settings) or c == state or _is_of_runs(c)]
    if any(_varies_within(repeats, names, c) for c in fixed):
        return False
    return bool(repeats.groupby(run, sort=False)[step].nunique().gt(1).all())


def _step_of(table: pd.DataFrame) -> str | None:
    return next(iter(_columns_of(STEPS, table)), None)


def _columns_of(names: Sequence[str], table: pd.DataFrame) -> list[str]:
    """Columns of such names, in the order of the names."""
    found = {c: str(c).lower() for c in table}
    return [c for name in names for c in found if found[c] == name]


def _is_one_of(column: Hashable, settings: Sequence[str]) -> bool:
    return str(column) in settings or bare_name(str(column)) in settings


def _is_of_runs(column: Hashable) -> bool:
    return OF_RUNS.fullmatch(bare_name(str(column)).lower()) is not None


def _varies_within(table: pd.DataFrame, groups: pd.Series, column: Hashable) -> bool:
    """Whether a column takes several values within a group; empty cells are none."""
    texts = table[column].astype(str).mask(is_empty(table[column]) | table[column].isna())
    return bool(texts.groupby(groups.loc[table.index], sort=False).nunique().gt(1).any())


def _may_be_set(table: pd.DataFrame, column: Hashable) -> bool:
    """Whether a column holds words, or is called as a setting is."""
    last = re.split(r"[./:]", bare_name(str(column)).lower())[-1]
    return not _is_measured(table[column]) or any(last in words for words in WORDS.values())


def _is_measured(values: pd.Series) -> bool:
    """Whether any cell is a number."""
    return bool(pd.to_numeric(values.astype(object), errors="coerce").notna().any())


def _chart_step(table: pd.DataFrame) -> str | None:
    """The step of a chart's table: its first column, all others being lines."""
    names = [str(column) for column in table.columns]
    is_chart = len(names) > 1 and names[0].lower() in STEPS and all(map(LINE.fullmatch, names[1:]))
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


def _long_runs(table: pd.DataFrame, run: str, step: str) -> list[TrackedRun]:
    state = state_column(table)
    others = [c for c in table.columns if c not in (run, step, state)]
    varying = [c for c in others if _varies(table, run, c)]
    found = []
    for name, rows in table.groupby(run, sort=False):
        settings: dict[str, Any] = {c: rows[c].iloc[0] for c in others if c not in varying}
        history = {c: _points(rows[step], rows[c]) for c in varying}
        status = "" if state is None else _only_word(rows[state])
        found.append(TrackedRun(name=str(name), settings=settings, history=history, status=status))
    return found


def _varies(table: pd.DataFrame, run: str, column: str) -> bool:
    """Whether a column is measured: it holds numbers that differ within a run."""
    texts = table[column].astype(str)
    if not texts.groupby(table[run], sort=False).nunique().gt(1).any():
        return False
    return _is_measured(table[column])


def _only_word(words: pd.Series) -> str:
    """How a run ended, which one of its rows may say alone."""
    there = words[~is_empty(words) & words.notna()]
    return "" if there.empty else str(there.iloc[-1])


def _points(steps: pd.Series, values: pd.Series) -> Points:
    """The points of a metric, where it was logged; text that is no number is not finite."""
    logged = ~is_empty(values)
    at = pd.to_numeric(steps[logged].astype(object), errors="coerce").astype(float)
    numbers = pd.to_numeric(values[logged].astype(object), errors="coerce").astype(float)
    return [(s, v) for s, v in zip(at, numbers, strict=True) if s == s]
