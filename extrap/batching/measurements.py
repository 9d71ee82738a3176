"""From a table of steps to a target to the measurements of each group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.batching.results import BatchPoint
from extrap.errors import DataError, argument
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import missing_column

INFEASIBLE = frozenset({"diverged", "infeasible", "failed"})
YES = frozenset({"true", "1", "1.0", "yes"})
TARGETS = ("target", "target_loss")
RATES = ("lr", "learning_rate")
ROUNDING = 1e-9
CENSORED = frozenset({"censored", "pruned"})
KNOWN = frozenset({*INFEASIBLE, *CENSORED, "reached", "complete", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """What was measured in one group.

    Attributes:
        by: What sets the group apart: column → value.
        points: One record a batch size, ascending.
    """

    by: Mapping[str, float | str]
    points: tuple[BatchPoint, ...]


def read_measurements(
    table: pd.DataFrame,
    *,
    batch: str,
    steps: str,
    by: Sequence[str],
    seed: str,
) -> tuple[tuple[Measurements, ...], tuple[str, ...]]:
    """Groups in ascending order of their `by` columns, and what reading had to decide.

    Raises:
        DataError: The table lacks a column, or holds impossible values.
        ValueError: A column was given two parts to play.
    """
    parts = [batch, steps, *by]
    if twice := [name for name in parts if parts.count(name) > 1]:
        raise ValueError(
            f"each column has one role, {twice[0]!r} was given two; name another column."
        )
    have = list(map(str, table.columns))
    for name in (*parts, *([seed] if seed != "seed" else [])):
        if name not in have:
            raise missing_column(name, have, "the table")
    frame = pd.DataFrame({"batch": _positive(table[batch], batch, required=True)})
    _judge(frame, table, steps)
    for name in by:
        frame[f"by.{name}"] = _keys(table[name], name)
    _require_one_target(frame, table)
    notes = [*_lost(frame), *_at_edge(table), *_repeated(frame, table, seed)]
    frame = frame[frame["fate"] != "lost"]
    if frame.empty:
        raise DataError(
            f"no row has steps or a budget; fill in {steps}, or the column budget where the "
            "target was not reached."
        )
    keys = [f"by.{name}" for name in by]
    groups = frame.groupby(keys, sort=True) if keys else [((), frame)]
    found = []
    for key, rows in groups:
        values = [value if isinstance(value, str) else float(value) for value in key]
        found.append(Measurements(by=dict(zip(by, values, strict=True)), points=_points(rows)))
    return tuple(found), tuple(notes)


def _points(rows: pd.DataFrame) -> tuple[BatchPoint, ...]:
    return tuple(
        BatchPoint(
            batch=float(batch),
            values=tuple(here.loc[here["fate"] == "reached", "steps"]),
            bounds=tuple(here.loc[here["fate"] == "censored", "steps"]),
            n_infeasible=int(here["fate"].eq("infeasible").sum()),
        )
        for batch, here in rows.groupby("batch", sort=True)
    )


def _judge(frame: pd.DataFrame, table: pd.DataFrame, steps: str) -> None:
    """Add `fate`, and `steps`: those to the target, or the budget where it was not reached."""
    given = _positive(table[steps], steps)
    budget = _positive(table["budget"], "budget") if "budget" in table else given * np.nan
    status = _status(table)
    late = status.isin(CENSORED) | ~np.isfinite(given) | _claims(table, "is_censored")
    over = ~late & (given > budget * (1 + ROUNDING))
    if over.any():
        row = int(np.flatnonzero(over)[0])
        raise DataError(
            f"steps to a target must not exceed the budget, got {given.iloc[row]:g} of "
            f"{budget.iloc[row]:g} in row {row + 1}; leave {steps} empty where the target "
            "was not reached."
        )
    bound = budget.where(np.isfinite(budget), given.where(np.isfinite(given)))
    frame["fate"] = np.select(
        [status.isin(INFEASIBLE), ~late, np.isfinite(bound)],
        ["infeasible", "reached", "censored"],
        "lost",
    )
    frame["steps"] = given.where(~late, bound)


def _claims(table: pd.DataFrame, column: str) -> pd.Series:
    """Where a column of yes and no, if there is one, says yes."""
    if column not in table:
        return pd.Series(data=False, index=table.index)
    return table[column].astype(str).str.strip().str.lower().isin(YES)


def _status(table: pd.DataFrame) -> pd.Series:
    if "status" not in table:
        return pd.Series("", index=table.index)
    given = table["status"].astype(object)
    status = given.mask(is_empty(given) | given.isna(), "").astype(str)
    status = status.str.strip().str.lower()
    if unknown := sorted(set(status) - KNOWN):
        raise DataError(
            f"status must be one of {', '.join(sorted(KNOWN - {''}))}; got {unknown[0]!r}."
        )
    return status


def _positive(values: pd.Series, column: str, *, required: bool = False) -> pd.Series:
    """A column as positive numbers; one that is not finite, or empty, is NaN unless required."""
    found = read_numbers(values, column, required=required)
    bad = (found <= 0) | (required & ~np.isfinite(found))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{column} must be positive and finite, got {found.iloc[row]:g} in row {row + 1}; "
            "leave the cell empty where the target was not reached."
        )
    return found.where(np.isfinite(found))


def _keys(values: pd.Series, column: str) -> pd.Series:
    """A column that sets groups apart: numbers where all cells are, else text."""
    if is_empty(values).any() or values.isna().any():
        row = int(np.flatnonzero(is_empty(values) | values.isna())[0])
        raise DataError(f"{column} must be given in every row, row {row + 1} has none.")
    try:
        found = read_numbers(values, column)
    except DataError:
        return values.astype(str).str.strip()
    if not np.isfinite(found).all():
        row = int(np.flatnonzero(~np.isfinite(found))[0])
        raise DataError(
            f"{column} defines groups and must be finite, row {row + 1} has "
            f"{values.iloc[row]!r}; fill it in, or leave the row out."
        )
    return found


def _lost(frame: pd.DataFrame) -> Iterable[str]:
    n = int(frame["fate"].eq("lost").sum())
    if n:
        yield (
            f"{n} row(s) without steps and without a budget are left out; with a column "
            "budget they would count as lower bounds"
        )


def _require_one_target(frame: pd.DataFrame, table: pd.DataFrame) -> None:
    """Steps to several targets are several groups."""
    keys = [name for name in frame if name.startswith("by.")]
    for name in TARGETS:
        if name not in table or f"by.{name}" in keys:
            continue
        groups = table[name].groupby([frame[k] for k in keys]) if keys else [((), table[name])]
        for _, values in groups:
            if values.nunique() > 1:
                raise DataError(
                    f"each group must have one target, the column {name!r} has "
                    f"{values.nunique()} values in one group; add it with "
                    f"{argument('by', name)}."
                )


def _at_edge(table: pd.DataFrame) -> Iterable[str]:
    n = int(_claims(table, "at_edge").sum())
    if n:
        yield (
            f"{n} row(s) have their best learning rate at the edge of its grid: their "
            "steps are upper bounds, but count as tuned; widen the grid"
        )


def _repeated(frame: pd.DataFrame, table: pd.DataFrame, seed: str) -> Iterable[str]:
    cell = frame.drop(columns=["fate", "steps"])
    for name in RATES:
        if name in table and (n := int(_varies_within(cell, table[name], table.get(seed)))):
            yield (
                f"{n} batch size(s) have several values of {name}, which count as "
                "replicates; steps must be those of the best one "
                "(extrap.batching.tuned_steps)"
            )
    if seed in table:
        n = int(cell.assign(seed=table[seed].astype(str)).duplicated().sum())
        if n:
            yield (
                f"{n} row(s) repeat a batch size and {seed}, and count as replicates; if a "
                "learning rate was swept, keep the tuned one "
                "(extrap.batching.tuned_steps)"
            )
    elif n := int(table.duplicated().sum()):
        yield (
            f"{n} row(s) are exact copies of others and count as replicates, which narrows "
            "intervals; remove copies"
        )


def _varies_within(cell: pd.DataFrame, values: pd.Series, seed: pd.Series | None) -> int:
    """Cells, of one seed where there are seeds, with more than one value."""
    key = cell if seed is None else cell.assign(seed=seed.astype(str))
    counts = values.astype(str).groupby([key[name] for name in key]).nunique()
    return int((counts > 1).sum())
