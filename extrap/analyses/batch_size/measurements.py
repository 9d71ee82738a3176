"""From a table of steps to a target to the measurements of each group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from extrap.analyses.batch_size.batch_results import BatchPoint
from extrap.errors import Choice, DataError, argument
from extrap.reading.cells import Codes, Levels, is_empty, joint, levels_of, read_numbers
from extrap.reading.columns import find_column, missing_column, require_column
from extrap.reading.endings import STATUS_OF_WORD, given_status, state_column
from extrap.reading.mixtures import COST_COLUMNS, is_free_text, may_set, mixture
from extrap.reading.names import (
    BATCH_NAMES,
    COMPUTE_NAMES,
    PLAYED,
    PROGRESS_NAMES,
    RATE_NAMES,
    TOKEN_NAMES,
    known_name,
)
from extrap.reading.names import NAMES_OF_PART as NAMES
from extrap.records import condition_text
from extrap.records.fields import ROUNDING
from extrap.records.notes import USING, note

INFEASIBLE_STATUSES = frozenset({"diverged", "infeasible", "failed"})
"""Statuses of runs that are counted and left out."""
YES = frozenset({"true", "1", "1.0", "yes"})
"""What a cell of a column of yes and no holds where it says yes."""
TARGETS = ("target", "target_loss")
"""Columns that hold the target, a loss to reach."""
CENSORED_STATUSES = frozenset({"censored", "pruned"})
"""Statuses of runs whose steps are a lower bound."""
OUTCOME_OF_WORD = {
    "reached": "reached",
    **STATUS_OF_WORD,
    "censored": "censored",
    "infeasible": "infeasible",
}
"""How a run ended, in words → in one."""
SETS_NOTHING = frozenset(
    {*PLAYED, *COST_COLUMNS, *PROGRESS_NAMES, *TOKEN_NAMES, *COMPUTE_NAMES}
    | {"budget", "at_edge", "edge", "is_censored"}
)
"""Columns, as `known_name` writes them, that are no setting, or have a rule of their own."""
PROPORTIONAL = 0.25
"""Spread of the ratio of two columns over the spread of one below which they go together."""
MOST_RATES = 5
"""Learning rates of one batch size that an error lists."""


class Measurements(NamedTuple):
    """What sets a group apart, column → value, and what was measured, batches ascending."""

    by: Mapping[str, float | str]
    points: tuple[BatchPoint, ...]


def read_measurements(
    table: pd.DataFrame,
    *,
    batch: str,
    steps: str,
    by: Sequence[str],
    seed: str,
    ignored: Sequence[str] = (),
) -> tuple[tuple[Measurements, ...], tuple[str, ...]]:
    """Groups in ascending order of their `by` columns, and what reading had to decide.

    Columns go by the names that `extrap.read_runs` knows them by: `steps` is `summary/steps`.

    Raises:
        DataError: The table lacks a column, or holds impossible values; or a group mixes values
            of a setting that is neither its learning rate nor among the `ignored`.
        ValueError: A column was given two parts to play.
    """
    parts = [batch, steps, *by]
    if twice := [name for name in parts if parts.count(name) > 1]:
        raise ValueError(
            f"each column has one role, {twice[0]!r} was given two; name another column."
        )
    options = {batch: "batch", steps: "steps", **dict.fromkeys(by, "by"), seed: "seed"}
    table = _named(table, options)
    frame = pd.DataFrame({"batch": _positive(table[batch], batch, required=True)})
    status_notes = _judge(frame, table, steps)
    for name in by:
        frame[f"by.{name}"] = _keys(table[name], name)
    have = list(map(str, table.columns))
    ignored = [require_column(name, have, "the table", option="ignore") for name in ignored]
    pooled = _refuse_mixtures(frame, table, played=(*parts, seed), by=by, ignored=ignored)
    rates = _rates(frame, table, seed=seed, ignored=ignored)
    notes = [*status_notes, *pooled, *rates, *_doubts(frame, table, seed)]
    frame = frame[frame["fate"] != "lost"]
    if frame.empty:
        raise DataError(
            f"no row has steps or a budget; fill in {steps}, or the column budget where the "
            "target was not reached."
        )
    keys = [f"by.{name}" for name in by]
    groups = frame.groupby(keys, sort=True) if keys else [((), frame)]
    measured = []
    for key, rows in groups:
        values = [value if isinstance(value, str) else float(value) for value in key]
        measured.append(Measurements(by=dict(zip(by, values, strict=True)), points=_points(rows)))
    return tuple(measured), tuple(notes)


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


def columns_used(table: pd.DataFrame, roles: Mapping[str, Sequence[str]]) -> str:
    """Which columns are taken for what, as a note: `Using batch = bs, steps = steps`."""
    have = list(map(str, table.columns))
    parts = [
        f"{part} = {' and '.join(find_column(name, have, 'the table') or name for name in names)}"
        for part, names in roles.items()
        if names
    ]
    return note(USING, ", ".join(parts))


def _named(table: pd.DataFrame, options: Mapping[str, str]) -> pd.DataFrame:
    """The table with columns under the names that were asked for, each by an argument."""
    have = list(map(str, table.columns))
    for name, option in options.items():
        column = find_column(name, have, "the table", is_metric=option == "steps")
        if column is not None:
            table = table.rename(columns={column: name})
        elif name != "seed":
            raise missing_column(name, have, "the table", option=option)
    return table


def _judge(frame: pd.DataFrame, table: pd.DataFrame, steps: str) -> list[str]:
    """Add `fate`, and `steps`: those to the target, or the budget where it was not reached."""
    n_steps = _positive(table[steps], steps)
    budget = _positive(table["budget"], "budget") if "budget" in table else n_steps * np.nan
    status, notes = given_status(table, OUTCOME_OF_WORD)
    late = status.isin(CENSORED_STATUSES) | ~np.isfinite(n_steps) | _claims(table, "is_censored")
    over = ~late & (n_steps > budget * (1 + ROUNDING))
    if over.any():
        row = int(np.flatnonzero(over)[0])
        raise DataError(
            f"steps to a target must not exceed the budget, got {n_steps.iloc[row]:g} of "
            f"{budget.iloc[row]:g} in row {row + 1}; leave {steps} empty where the target "
            "was not reached."
        )
    bound = budget.where(np.isfinite(budget), n_steps.where(np.isfinite(n_steps)))
    frame["fate"] = np.select(
        [status.isin(INFEASIBLE_STATUSES), ~late, np.isfinite(bound)],
        ["infeasible", "reached", "censored"],
        "lost",
    )
    frame["steps"] = n_steps.where(~late, bound)
    return notes


def _claims(table: pd.DataFrame, column: str) -> pd.Series:
    """Where a column of yes and no, if there is one, says yes."""
    if column not in table:
        return pd.Series(data=False, index=table.index)
    return table[column].astype(str).str.strip().str.lower().isin(YES)


def _positive(values: pd.Series, column: str, *, required: bool = False) -> pd.Series:
    """A column as positive numbers; one that is not finite, or empty, is NaN unless required."""
    numbers = read_numbers(values, column, required=required)
    bad = (numbers <= 0) | (required & ~np.isfinite(numbers))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{column} must be positive and finite, got {numbers.iloc[row]:g} in row {row + 1}; "
            "leave the cell empty where the target was not reached."
        )
    return numbers.where(np.isfinite(numbers))


def _keys(values: pd.Series, column: str) -> pd.Series:
    """A column that sets groups apart: numbers where all cells are, else text."""
    if is_empty(values).any() or values.isna().any():
        row = int(np.flatnonzero(is_empty(values) | values.isna())[0])
        raise DataError(f"{column} must be given in every row, row {row + 1} has none.")
    try:
        numbers = read_numbers(values, column)
    except DataError:
        return values.astype(str).str.strip()
    if not np.isfinite(numbers).all():
        row = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise DataError(
            f"{column} defines groups and must be finite, row {row + 1} has "
            f"{values.iloc[row]!r}; fill it in, or leave the row out."
        )
    return numbers


def _refuse_mixtures(
    frame: pd.DataFrame,
    table: pd.DataFrame,
    *,
    played: Sequence[str],
    by: Sequence[str],
    ignored: Sequence[str],
) -> list[str]:
    """Raise where a setting varies within a group; notes on those that may.

    Steps to several targets are several groups. A number that only rises, or only falls, from each
    batch size to the next follows from it, as tokens and a scaled warmup do.
    """
    is_used = frame["fate"].isin(["reached", "censored"])
    frame, table = frame[is_used], table[is_used]
    batch = levels_of(frame["batch"])
    apart = [levels_of(frame[name]).codes for name in frame if name.startswith("by.")]
    groups = joint(np.zeros(len(frame), dtype=np.intp), *apart)
    skipped = {*played, state_column(table, OUTCOME_OF_WORD)}
    varying: dict[str, Levels] = {}
    notes = []
    for column in map(str, table.columns):
        common_name, is_target = known_name(column), column in TARGETS
        sets_nothing = common_name in (*SETS_NOTHING, *RATE_NAMES) or not may_set(column)
        if column in skipped or (sets_nothing and not is_target):
            continue
        levels = levels_of(table[column])
        if levels.depends_on(groups) or is_free_text(levels) or _counts_steps(levels, frame):
            continue
        if is_target:
            raise DataError(
                f"each group must have one target, the column {column!r} has several values in "
                f"one group; add it with {argument('by', column)}."
            )
        if column in ignored:
            notes.append(f"rows of one group differ in {column}, which was to be ignored")
        elif not _follows(levels, batch, groups):
            varying[column] = levels
        elif common_name in NAMES["tune"] and common_name not in BATCH_NAMES:
            notes.append(f"{column} changes with the batch size, and counts as tuned with it")
    if varying:
        parts = [Choice({"by": [*by, name]}, "as groups") for name in varying]
        raise mixture(varying, parts, "a critical batch size is of one recipe, a group")
    return notes


def _follows(levels: Levels, batch: Levels, groups: Codes) -> bool:
    """Whether each batch size of a group has a number of its own, in their order or against it."""
    return (
        levels.numbers is not None
        and levels.depends_on(joint(groups, batch.codes))
        and batch.depends_on(joint(groups, levels.codes))
        and levels.follows(batch, groups)
    )


def _counts_steps(levels: Levels, frame: pd.DataFrame) -> bool:
    """Whether it is nearly proportional to the steps, or to the examples seen in them."""
    numbers = levels.numbers
    if numbers is None or not levels.is_positive:
        return False
    values = pd.Series(numbers[levels.codes], index=frame.index).where(levels.codes >= 0)
    for counted in (frame["steps"], frame["steps"] * frame["batch"]):
        if np.log(values / counted).std() < PROPORTIONAL * np.log(counted).std():
            return True
    return False


def _rates(
    frame: pd.DataFrame, table: pd.DataFrame, *, seed: str, ignored: Sequence[str]
) -> Iterable[str]:
    """Notes on learning rates that are ignored; raises where a batch size has several others.

    Where there are seeds, several of one seed.
    """
    is_used = frame["fate"].isin(["reached", "censored"])
    cell, table = frame.loc[is_used].drop(columns=["fate", "steps"]), table[is_used]
    if seed in table:
        cell = cell.assign(seed=table[seed].astype(str))
    for name in map(str, table.columns):
        if known_name(name) not in RATE_NAMES:
            continue
        levels = levels_of(table[name])
        codes = pd.Series(levels.codes, index=table.index)
        counts = codes[codes >= 0].groupby([cell[key] for key in cell]).nunique()
        n = int((counts > 1).sum())
        if n and name in ignored:
            yield (
                f"{n} batch size(s) have several values of {name}, which count as "
                "replicates; steps must be those of the best one "
                "(extrap.analyses.batch_size.tuned_steps)"
            )
        elif n:
            some = [condition_text(v) for v in levels.labels]
            listed = f"{', '.join(some[:MOST_RATES])}{' …' if len(some) > MOST_RATES else ''}"
            raise DataError(
                f"steps at a batch size are those of its best learning rate, {n} batch size(s) "
                f"have several values of {name} ({listed}); keep the best row of each "
                "(extrap.analyses.batch_size.tuned_steps), or count all as replicates:",
                [Choice({"ignore": [name]})],
            )


def _doubts(frame: pd.DataFrame, table: pd.DataFrame, seed: str) -> Iterable[str]:
    """Notes on rows that are left out, or count for more than they say."""
    if n := int(frame["fate"].eq("lost").sum()):
        yield (
            f"{n} row(s) without steps and without a budget are left out; with a column "
            "budget they would count as lower bounds"
        )
    if n := int(_claims(table, "at_edge").sum()):
        yield (
            f"{n} row(s) have their best learning rate at the edge of its grid: their "
            "steps are upper bounds, but count as tuned; widen the grid"
        )
    if seed in table:
        cell = frame.drop(columns=["fate", "steps"]).assign(seed=table[seed].astype(str))
        if n := int(cell.duplicated().sum()):
            yield (
                f"{n} row(s) repeat a batch size and {seed}, and count as replicates; if a "
                "learning rate was swept, keep the tuned one "
                "(extrap.analyses.batch_size.tuned_steps)"
            )
    elif n := int(table.duplicated().sum()):
        yield (
            f"{n} row(s) are exact copies of others and count as replicates, which narrows "
            "intervals; remove copies"
        )
