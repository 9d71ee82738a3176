"""The rows of a log: in order, without copies, and measured on the same data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from extrap.errors import Choice, DataError
from extrap.reading.cells import is_empty, numbers_of
from extrap.reading.decisions import column_name
from extrap.reading.losses import BITS
from extrap.reading.names import EVALUATION_COLUMN, RUN_TIMES, split_words
from extrap.reading.repeated_recipes import FIRST_RECIPE, plain_text
from extrap.records import condition_text
from extrap.records.numbers import counted

TIME_NAMES = (*RUN_TIMES, *split_words("timestamp date datetime time created_on ended finished"))
"""Columns of when an experiment was made."""
NUMBER_NAMES = split_words("# no number index iteration iter trial record round attempt id")
"""Columns that number the experiments."""
FIRST_EPOCH = 1e9
"""Smaller numbers are no times in seconds since 1970."""


def oldest_first(
    table: pd.DataFrame, descriptions: pd.Series, is_kept: pd.Series
) -> tuple[pd.DataFrame, list[str]]:
    """A log with its oldest row first, and a note where it began with the newest.

    Its times or its numbers fall, or its last row alone is called baseline and is kept.
    """
    for column in map(str, table):
        name = column_name(column) or column.strip()
        if name in (*TIME_NAMES, *NUMBER_NAMES) and len(table) > 1:
            order = _order(table[column], is_number=name in NUMBER_NAMES)
            steps = np.diff(order)
            if np.isfinite(steps).all() and (steps != 0).any():
                if (steps <= 0).all():
                    return table[::-1], [f"{column} falls: the log is read from its last row"]
                if (steps >= 0).all():
                    return table, []
    is_first = descriptions.map(lambda text: bool(FIRST_RECIPE.fullmatch(plain_text(text))))
    if len(table) > 2 and is_first.iloc[-1] and is_first.sum() == 1 and is_kept.iloc[-1]:
        return table[::-1], ["the last row is the baseline: the log is read from its last row"]
    return table, []


def _order(cells: pd.Series, *, is_number: bool) -> np.ndarray:
    """Numbers that rise with time; NaN where a cell is no time."""
    numbers = numbers_of(cells)
    if is_number:
        steps = np.abs(np.diff(numbers))
        return numbers if (steps == 1).all() else np.full(len(cells), np.nan)
    if np.isfinite(numbers).all():
        return numbers if (numbers > FIRST_EPOCH).all() else np.full(len(cells), np.nan)
    texts = cells.astype(str)
    if not texts.str.contains(r"\d[-/]\d").all():  # a duration, such as 05:01
        return np.full(len(cells), np.nan)
    times = pd.to_datetime(texts, errors="coerce", utc=True, format="mixed")
    return np.where(times.isna(), np.nan, times.astype("int64").to_numpy(float))


def without_copied_rows(
    table: pd.DataFrame, identities: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """A log without rows that repeat an earlier one in every cell, if they name a commit or time.

    Other rows may be alike because the metric is rounded.
    """
    texts = table.astype(str)
    is_copy = texts.duplicated() & ~table[[*identities]].apply(is_empty).all(axis="columns")
    if not is_copy.any():
        return table, []
    rows = ", ".join(str(int(i) + 1) for i in table.index[is_copy][:3])
    return table[~is_copy], [f"row(s) {rows} repeat an earlier row in every cell: left out"]


def check_data(table: pd.DataFrame, metric: str, where: str) -> None:
    """Refuse a log whose losses are of several data, or of several tokenizers.

    A loss per byte is the same for all tokenizers.
    """
    for column in map(str, table):
        name = column_name(column)
        is_of_tokens = "tokenizer" in name or "vocab" in name
        is_data = EVALUATION_COLUMN.search(name) or name in ("data", "dataset", "corpus")
        if not is_data or (is_of_tokens and BITS.search(metric.lower())):
            continue
        cells = table.loc[~is_empty(table[column]) & table[column].notna(), column]
        counts = cells.map(condition_text).value_counts()
        if len(counts) > 1:
            several = [(value, n) for value, n in counts.items() if n > 1]
            listed = ", ".join(map(str, counts.index[:4]))
            raise DataError(
                f"losses of a log are of one set of data, {column} of {where} has {listed}; "
                "choose one:",
                [Choice({"where": {column: v}}, counted(n, "row")) for v, n in several[:4]],
            )
