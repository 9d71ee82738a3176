"""Rows that are wanted and columns under other names, before anything else is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown
from extrap.reading.columns import find_column, missing_column
from extrap.reading.found import Found, Points
from extrap.reading.replicates import renumbered
from extrap.records import condition_text

MOST_SHOWN = 8
Where = Mapping[str, object]
"""Column → the value its cells must have, or a sequence of such values."""


def with_new_names(found: Found, names: Mapping[str, str]) -> Found:
    """A source with columns renamed, old name → new name.

    Raises:
        DataError: A column is missing, or has the new name already.
    """
    have = [str(column) for column in found.table.columns]
    columns: dict[str, str] = {}
    for old, new in names.items():
        column = find_column(old, have, found.where)
        if column is None:
            raise missing_column(old, have, found.where)
        if new in have or new in columns.values():
            raise DataError(
                f"a column is renamed to a new name, {found.where} has {new!r} already; choose "
                "another name."
            )
        columns[column] = new

    def renamed(known: Sequence[str]) -> tuple[str, ...]:
        return tuple(columns.get(name, name) for name in known)

    return replace(
        found,
        table=found.table.rename(columns=columns),
        points=_renamed_points(found.points, columns),
        sizes=renamed(found.sizes),
        tuned=None if found.tuned is None else renamed(found.tuned),
        losses=renamed(found.losses),
        metrics=renamed(found.metrics),
        maximised=renamed(found.maximised),
        names=None if found.names is None else columns.get(found.names, found.names),
    )


def _renamed_points(points: Points, columns: Mapping[str, str]) -> Points:
    if callable(points):
        back = {new: column for column, new in columns.items()}
        return lambda metric: points(back.get(metric, metric))
    if points is None or "metric" not in points:
        return points
    return points.assign(metric=points["metric"].replace(columns))


def _listed(values: object) -> list[object]:
    return list(values) if isinstance(values, list | tuple | set | frozenset) else [values]


def is_one_value(values: object) -> bool:
    """Whether a column must have one value: its runs have it in common."""
    return len({condition_text(value) for value in _listed(values)}) == 1


def is_selected(found: Found, where: Where) -> tuple[pd.Series, list[str]]:
    """Which rows have the values that are asked for, and a note on each column.

    Raises:
        DataError: A column is missing, or no row has such a value.
    """
    have = [str(column) for column in found.table.columns]
    keep, notes = pd.Series(data=True, index=found.table.index), list[str]()
    for name, values in where.items():
        column = find_column(name, have, found.where)
        if column is None:
            raise missing_column(name, have, found.where)
        wanted = {condition_text(value) for value in _listed(values)}
        texts = found.table[column].map(condition_text)
        here = texts.isin(wanted)
        if not (keep & here).any():
            there = texts[keep].value_counts()
            some = ", ".join(f"{shown(t)} ({n} rows)" for t, n in there.head(MOST_SHOWN).items())
            raise DataError(
                f"no row of {found.where} has {name} = {' or '.join(sorted(wanted))}; it has "
                f"{some}{' and others' if len(there) > MOST_SHOWN else ''}."
            )
        keep &= here
        notes.append(f"only rows with {name} = {' or '.join(sorted(wanted))}")
    return keep, notes


def selected(found: Found, keep: pd.Series) -> Found:
    """A source with some of its rows alone."""
    if keep.all():
        return found
    points = found.points
    return replace(
        found,
        table=found.table[keep].reset_index(drop=True),
        points=(
            (lambda metric: renumbered(points(metric), keep))
            if callable(points)
            else renumbered(points, keep)
        ),
    )
