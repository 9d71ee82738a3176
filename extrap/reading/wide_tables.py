"""Errors for tables that do not have one row per run: what they are and how to convert them.

| layout | known by |
|---|---|
| a column for every value of a setting | three headers that are numbers, or `lr=0.1`, `d512` |
| groups of a chart of W&B's | lines whose `__MIN` is below their `__MAX` |
| two lines of headers | headers that repeat, text in the first row below them |
| the header again further down | a row that equals the header: left out |
| the best value of each size | settings, one row a size or a size and seed, no loss |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from extrap.errors import Choice, DataError, OnlyBestValues, shown
from extrap.reading.cells import numbers_of
from extrap.reading.names import (
    COMPUTE_NAMES,
    LETTERS,
    NAMES_OF_PART,
    RATE_NAMES,
    SEED_NAMES,
    known_name,
    loss_rank,
)

EDGES = ("__MIN", "__MAX")
"""Endings of the columns of a minimum and a maximum of a group in W&B's charts."""
UNSIGNED_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
"""A number as text, without a sign."""
NUMBER_HEADER = re.compile(UNSIGNED_NUMBER)
"""A header that is a number."""
HEADER = re.compile(rf"(?P<setting>.*?(?<![\d.])){UNSIGNED_NUMBER}[kKmMbB]?\W*")
"""A header that is a setting and its value."""
SPACING_COLUMN = "spacing"
"""Column of a table of best values: the factor between the values that a sweep tried."""
TITLE = "title"
"""Attribute of a frame: the lines that stand above the header of its file."""
LEAST_VALUE_COLUMNS = 3
"""Headers that are numbers from which on a table has a column for each value."""


def check_headers(header: list[str], first: list[str], where: str) -> None:
    """Raise where a file has two lines of headers, by the first row below the first."""
    counts = Counter(header)
    repeated = [name for name in header if name and counts[name] > 1]
    is_text = np.isnan(numbers_of(first)) & [cell.strip() != "" for cell in first]
    if repeated and is_text.mean() > 0.5:
        raise DataError(
            f"a table has one line of headers, {where} has two, {shown(repeated[0])} above "
            f"{shown(first[header.index(repeated[0])])}; join them, in pandas with "
            'df.columns = ["_".join(names) for names in df.columns].'
        )


def without_repeated_header(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """A table without rows that repeat its header, and notes on them and on lines above it."""
    title = table.attrs.pop(TITLE, [])
    notes = [f"lines above the header are left out: {shown(title[0])}"] if title else []
    if table.empty or not table.shape[1]:
        return table, notes
    is_header = pd.Series(data=True, index=table.index)
    for column in table:
        if not is_header.any():
            return table, notes
        is_header &= table[column].astype(str).str.strip().eq(str(column))
    rows = ", ".join(str(row + 1) for row in table.index[is_header][:3])
    notes += [f"row {rows} repeats the header: left out"] if is_header.any() else []
    return table[~is_header].reset_index(drop=True), notes


def check_layout(table: pd.DataFrame, where: str) -> None:
    """Raise where rows are not runs: where a table is wide, or has the means of groups."""
    names = [str(column) for column in table]
    check_wide([name for name in names if NUMBER_HEADER.fullmatch(name.strip())], names, where)
    if sum(name.startswith("Unnamed: ") for name in names) > len(names) / 2:
        is_text = table.map(lambda cell: isinstance(cell, str) and np.isnan(numbers_of([cell])[0]))
        n_lines = int(is_text.all(axis=1).argmax()) + 1
        raise DataError(
            f"a table has one line of column names, {where} has {shown(names[0])} and nothing "
            f"beside it; it is a title: read the file with skiprows={n_lines}."
        )
    for line in (name.removesuffix("__MIN") for name in names if name.endswith("__MIN")):
        if f"{line}__MAX" in names:
            low, high = (pd.Series(numbers_of(table[f"{line}{end}"])) for end in EDGES)
            if (low < high).any():
                raise DataError(
                    f"a line is a run, in {where} lines are means over groups of runs "
                    f"({shown(line)} has a minimum and a maximum); export the chart ungrouped, or "
                    "the table of runs."
                )


def check_wide(wide: Sequence[str], names: Sequence[str], where: str) -> None:
    """Raise where a setting has a column for each of its values, `lr=0.001`, among the `wide`."""
    values: dict[str, list[str]] = {}
    for name in wide:
        header = None if name.endswith("%") else HEADER.fullmatch(name.strip())
        if header and not re.search(r"(?i)step|iter|epoch|layer", header["setting"]):
            values.setdefault(header["setting"], []).append(name)
    before, columns = max(values.items(), key=lambda item: len(item[1]), default=("", []))
    if len(columns) < LEAST_VALUE_COLUMNS:
        return
    last = next(iter(re.findall(r"[A-Za-z]+", before)[-1:]), "")
    setting = LETTERS.get(last, last)
    values_of = [name.removeprefix(before) for name in columns]
    is_count = values_of in ([str(i + first) for i in range(len(columns))] for first in (0, 1))
    others = [name for name in names if name not in columns]
    if not setting or loss_rank(setting):
        is_rate = not any(known_name(name) in RATE_NAMES for name in others)
        of_size = "params" if values_of[0][-1:].isalpha() else "width"
        setting = "seed" if is_count else "lr" if is_rate and of_size == "width" else of_size
    id_vars = f"id_vars={others}, " if others else ""
    cut = f'.replace({{"{setting}": r"^{re.escape(before)}"}}, "", regex=True)' if before else ""
    meant = "" if setting == LETTERS.get(last, last) else f", {setting} being what the headers are"
    raise DataError(
        f"a row is a run, {where} has one column per value ({columns[0]}, {columns[1]}, …): "
        f'melt it to one row per run, in pandas with df.melt({id_vars}var_name="{setting}", '
        f'value_name="loss"){cut}{meant}.'
    )


def check_has_losses(
    table: pd.DataFrame, where: str, *, sizes: Sequence[str], tuned: Sequence[str], seed: str
) -> None:
    """Raise where a table has the best values of each size and no loss."""
    names = [str(column) for column in table]
    if any(loss_rank(name) is not None for name in names):
        return
    counted = (*NAMES_OF_PART["size"], *NAMES_OF_PART["data"], *COMPUTE_NAMES)
    are_sizes = [n for n in names if n in sizes or known_name(n) in counted]
    are_tuned = [n for n in names if known_name(n) in NAMES_OF_PART["tune"] or n in tuned]
    seeds = [n for n in names if n == seed or known_name(n) in SEED_NAMES]
    is_all = set(names) - {SPACING_COLUMN, *seeds} == {*are_sizes, *are_tuned}
    of = [n for n in are_sizes if n not in tuned and (not sizes or n in sizes)]
    best = [n for n in are_tuned if n not in of and (not tuned or n in tuned)]
    if not (is_all and of and best):
        return
    if left_out := [n for n in are_sizes if n not in (*of, *best)]:
        _check_constant(table, of, left_out)
    _check_repeats(table, where, of=of, best=best, seeds=seeds)
    raise OnlyBestValues(
        f"a sweep has a loss for every run, {where} has the best {' and '.join(best)} of each "
        f"{' and '.join(of)} and no loss; give all runs with their losses, or fit the law of the "
        "best values alone with extrap forecast, in Python extrap.best_values.",
        table=table,
        sizes=of,
        tuned=best,
    )


def _check_constant(table: pd.DataFrame, of: Sequence[str], others: Sequence[str]) -> None:
    """Raise where a size column that was not chosen varies within a size."""
    counts = table.groupby([*of])[[*others]].nunique().max()
    if varying := [str(name) for name in counts.index[counts > 1]]:
        raise DataError(
            f"rows of one {' and '.join(of)} differ in {varying[0]}, which moves best values too; "
            "take it as a size:",
            [Choice({"size": [*of, *varying]})],
        )


def _check_repeats(
    table: pd.DataFrame,
    where: str,
    *,
    of: Sequence[str],
    best: Sequence[str],
    seeds: Sequence[str],
) -> None:
    """Raise where rows of one size are not repeats of a best value, but runs of a sweep."""
    if seeds:
        is_sweep = table.duplicated([*of, *seeds]).any()
    else:
        is_sweep = (table.groupby([*of])[[*best]].nunique() > 1).any(axis=1).mean() > 0.5
    if is_sweep:
        raise DataError(
            f"a table of best values has one row per size, or one per size and seed, {where} has "
            f"several values of one {' and '.join(of)} and no loss; add the losses, or keep the "
            "best row of each."
        )
