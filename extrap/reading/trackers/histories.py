"""Tables with one row per step: histories of many runs, and the charts that W&B exports.

| table | columns |
|---|---|
| history | the run's name or ID, a step, settings that stay, metrics that change |
| chart | `Step`, and of each line `NAME - METRIC` with `…__MIN` and `…__MAX` |

The name of a line, or of a group of runs (`lr: 0.01, width: 64`), says its settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from extrap.errors import DataError, shown
from extrap.reading.cells import is_empty
from extrap.reading.contents import Contents, points_of, tracked
from extrap.reading.endings import state_column
from extrap.reading.names import (
    KNOWN,
    LOGGED_STEP_NAMES,
    RUN_IDS,
    RUN_TIMES,
    SEED_NAMES,
    bare_name,
    known_name,
)
from extrap.reading.settings import settings_in
from extrap.reading.wide_tables import EDGES

LINE_SEPARATOR = " - "
"""Between the name and the metric of a line in a chart."""


def read_history(table: pd.DataFrame, where: str, settings: Sequence[str] = ()) -> Contents | None:
    """The runs and points of a table with a row per step; None of any other table.

    A step differs within a run. Where a setting does too (a size such as its tokens, a tuned
    value, the seed, how it ended), runs share a name and every row is a run of its own; `settings`
    are columns that are known to be set, not measured.
    """
    first, *lines = [*table] or [""]
    if (
        lines
        and first.lower() in LOGGED_STEP_NAMES
        and all(LINE_SEPARATOR in column for column in lines)
    ):
        return _read_chart(table, where)
    step = next(iter(_called(LOGGED_STEP_NAMES, table)), None)
    if step is None or _are_set([step], settings):
        return None
    state = state_column(table)
    fixed = {*_are_set(table, settings), *_called(RUN_TIMES, table), *([state] if state else [])}
    for run in _called(RUN_IDS, table):
        repeats = table[table[run].duplicated(keep=False)]
        is_stepped = len(repeats) and repeats.groupby(run)[step].nunique().gt(1).all()
        if is_stepped and run not in fixed and not _varying(repeats, fixed, repeats[run]):
            return _read_long(table, run, step, state, where)
    return None


def _read_chart(table: pd.DataFrame, where: str) -> Contents:
    step, *lines = table
    points = points_of(0, table[step], table[[c for c in lines if not c.endswith(EDGES)]])
    names = points["metric"].str.rpartition(LINE_SEPARATOR)
    points["run"], runs = pd.factorize(names[0])
    points["metric"] = names[2]
    settings = [(name, settings_in(name), "") for name in runs]
    return tracked(settings, points, where=where, notes=[_note(runs, table)])


def _read_long(
    table: pd.DataFrame, run: str, step: str, state: str | None, where: str
) -> Contents:
    codes, names = pd.factorize(table[run], use_na_sentinel=False)
    others = [c for c in table if c not in (run, step, state)]
    counts = {c: table[c].astype(str).groupby(codes).nunique() for c in others}
    metrics = [c for c in others if counts[c].gt(1).any() and _has_numbers(table[c])]
    settings = table.loc[~table[run].duplicated(), [c for c in others if c not in metrics]]
    statuses = [""] * len(names)
    if state is not None:
        statuses = _filled(table[state]).groupby(codes).last().fillna("").tolist()
    return tracked(
        list(zip(map(str, names), settings.to_dict("records"), statuses, strict=True)),
        points_of(codes, table[step], table[metrics]),
        where=where,
        notes=[_note(names, table)],
    )


def _note(runs: Sequence[str], table: pd.DataFrame) -> str:
    return f"the table has a row a step: {len(runs)} runs of {len(table)} rows"


def check_rows_are_runs(table: pd.DataFrame, settings: Sequence[str]) -> None:
    """Raise where rows of a table are steps, and nothing says of which run.

    Such rows have equal settings, the seed among them if there is one, and differ in a step. Each
    would pass for a replicate of the others.
    """
    step = next(iter(_called(LOGGED_STEP_NAMES, table)), None)
    set_columns = [c for c in _are_set(table, settings) if c != step]
    if step is None or _are_set([step], settings) or not set_columns:
        return
    texts = table[set_columns].astype(str)
    repeats = table[texts.duplicated(keep=False)]
    runs = [texts[c] for c in set_columns]
    others = [c for c in repeats if c not in (step, *set_columns)]
    others = [c for c in others if known_name(c) in KNOWN or not _has_numbers(repeats[c])]
    if len(repeats) < max(1, len(table) / 2) or _varying(repeats, others, runs):
        return
    steps = repeats[step].astype(str).groupby(runs).agg(frozenset)
    is_seeded = any(known_name(c) in SEED_NAMES for c in set_columns)
    if steps.map(len).gt(1).all() and (is_seeded or len(steps) > 1 == steps.nunique()):
        listed = ", ".join(shown(c) for c in set_columns)
        raise DataError(
            f"a row is a run, {len(repeats)} rows with equal {listed} differ in {shown(step)}: "
            f"they look like the steps of a run. Keep the last row of each run, or give every run "
            f"a name of its own in a column run; if they are runs, leave {shown(step)} out."
        )


def _called(names: Sequence[str], table: pd.DataFrame) -> list[str]:
    """Columns of such names, in the order of the names."""
    return [c for name in names for c in table if c.lower() == name]


def _are_set(columns: Iterable[str], settings: Sequence[str]) -> list[str]:
    return [c for c in columns if c in settings or bare_name(c) in settings]


def _varying(table: pd.DataFrame, columns: Iterable[str], by: Any) -> list[str]:
    """The columns that take several values within a group, empty cells being none."""
    counts = {c: _filled(table[c]).groupby(by, sort=False).nunique() for c in columns}
    return [column for column, count in counts.items() if count.gt(1).any()]


def _filled(cells: pd.Series) -> pd.Series:
    """Cells as text, empty ones as none."""
    return cells.astype(str).mask(is_empty(cells) | cells.isna())


def _has_numbers(cells: pd.Series) -> bool:
    return bool(pd.to_numeric(cells.astype(object), errors="coerce").notna().any())
