"""How a run ended: in the words of those who track runs, or before the last step of the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from extrap.errors import Choice, DataError, shown
from extrap.reading.cells import is_empty, numbers_of, texts_of
from extrap.reading.names import (
    PROGRESS_NAMES,
    bare_name,
    is_identity,
    is_recipe,
    short_name,
    split_words,
)
from extrap.records.runs import STATUSES

COMPLETE = split_words("finished completed done success succeeded terminated ok")
"""Words for a run that came to its end."""
UNFINISHED = split_words(
    "fail crash crashed error errored killed cancelled canceled aborted abort timeout timed_out "
    "oom out_of_memory node_fail interrupted preempted preempting pending queued paused running "
    "scheduled waiting"
)
"""Words for a run that failed, was stopped, or has not ended yet."""
ABSENT = split_words("failed fails failure crashes dnf memory not none null skipped missing")
"""Words that stand in place of the loss of a run that failed."""
DIVERGED = split_words(
    "diverged diverges divergence div nan inf infinity ∞ exploded explodes blew unstable"
)
"""Words that stand in place of the loss of a run that diverged."""
STATUS_OF_WORD = {status: status for status in STATUSES}
STATUS_OF_WORD |= dict.fromkeys(COMPLETE, "complete") | dict.fromkeys(UNFINISHED, "failed")
"""What trackers, tuners and clusters call a run that ended, or has not ended yet → status."""
STATUS_OF_LOSS_WORD = dict.fromkeys((*UNFINISHED, *ABSENT), "failed") | dict.fromkeys(
    DIVERGED, "diverged"
)
"""Words in place of a loss → status."""
COLUMN = re.compile(r"(^|[_.])(status|state|outcome)$")
"""Names of columns that hold such words; a column of any name does if it holds nothing else."""
N_STATUS_CELLS = 1000
"""Cells by which a column is known to hold such words."""
REACHED = 0.95
"""Of the steps that runs of a size reach; a run of fewer is not complete."""
MOST_SHORT = 0.3
"""Share of the runs up to which a column of fewer steps is of early ends; beyond it, set."""
STEP_UNITS = frozenset(split_words("step epoch iteration iter update token sample example"))
"""What a number of steps counts."""
IS_REACHED = frozenset(
    split_words(
        "last final completed complete done reached actual stopped current seen processed ran"
    )
)
"""Words in the name of a number of steps that a run reached."""
IS_PLANNED = frozenset(
    split_words("max total num n planned target budget scheduled requested maximum")
)
"""Words in the name of a number of steps that was planned."""
BESIDE_UNITS = frozenset(split_words("train training trained trainer global of"))
"""Words that stand in the name of a number of steps, reached or planned, and no other word may."""
SHARE_WORDS = frozenset(
    split_words("progress completion fraction percent pct done finished completed complete")
)
"""Words of columns that say which share of its steps a run came, or whether it ended."""


def state_column(table: pd.DataFrame, statuses: Mapping[str, str] = STATUS_OF_WORD) -> str | None:
    """The column `status`, else one of such a name that holds a word for it, else one of words."""
    if "status" in table:
        return "status"
    shares = {}
    for column in table:
        cells = table[column]
        if not pd.api.types.is_numeric_dtype(cells.dtype) and not is_recipe(str(column)):
            cell_words = {
                _word(cell) for cell in cells[~is_empty(cells)].head(N_STATUS_CELLS).astype(str)
            }
            shares[str(column)] = len(cell_words & statuses.keys()) / max(len(cell_words), 1)
    named = [c for c in shares if COLUMN.search(_word(bare_name(c))) and shares[c] > 0]
    whole = [c for c in shares if shares[c] == 1 and not is_identity(c)]
    return next(iter([*sorted(named, key=lambda c: -shares[c]), *whole]), None)


def _word(value: object) -> str:
    return re.sub(r"[\s\-]+", "_", str(value).strip().lower())


def read_losses(cells: pd.Series, column: str) -> tuple[pd.Series, list[str]]:
    """Losses with `nan` in place of words for a run that diverged, empty for failed; and notes."""
    texts = texts_of(cells)
    texts = texts[texts.str.match(r"\W*[A-Za-z∞]").astype(bool)] if len(texts) else texts
    said: dict[str, str] = {}
    for text in texts.unique():
        statuses = {
            STATUS_OF_LOSS_WORD[word]
            for word in re.split(r"[^a-z∞]+", text.lower())
            if word in STATUS_OF_LOSS_WORD
        }
        if statuses:
            said[text] = min(statuses)  # diverged before failed
    status = texts.map(said).reindex(cells.index)
    cells = cells.mask(status.eq("diverged"), "nan").mask(status.eq("failed"), None)
    counts = texts[texts.isin(said) & texts.str.lower().ne("nan")].value_counts()
    return cells, [
        f"{count} cell(s) of {column} say {shown(text)}: {said[text]}"
        for text, count in counts.items()
    ]


def read_status(
    table: pd.DataFrame, loss: pd.Series, is_lost: pd.Series
) -> tuple[pd.Series, pd.Series, list[str]]:
    """The status of each run, whether the table says it, and notes.

    Without a word for it a run with a loss that is not finite diverged, one that has none failed.
    """
    names = np.array(["complete", "diverged", "failed"], dtype=object)
    derived = names[np.where(is_lost, 2, np.where(np.isfinite(loss), 0, 1))]
    table_status, notes = given_status(table)
    is_kept = table_status.notna() & (table_status.ne("complete") | (derived == "complete"))
    return table_status.where(is_kept, derived), table_status.notna(), notes


def given_status(
    table: pd.DataFrame, statuses: Mapping[str, str] = STATUS_OF_WORD
) -> tuple[pd.Series, list[str]]:
    """The status that a table gives each run, NaN where it gives none, and notes.

    Raises:
        DataError: A status is a word that nobody uses for one.
    """
    column = state_column(table, statuses)
    if column is None:
        return pd.Series(np.nan, index=table.index, dtype=object), []
    cells = table[column].where(~is_empty(table[column]))
    said = {cell: _word(cell) for cell in cells.dropna().unique()}
    unknown = [str(cell) for cell, word in said.items() if word not in statuses]
    if unknown:
        location = "" if column == "status" else f" in the column {shown(column)}"
        allowed = ", ".join(dict.fromkeys(statuses.values()))
        raise DataError(
            f"status must be one of {allowed}; got {shown(min(unknown))}{location}. Write "
            "the nearest of them, or give the column another name if it says something else."
        )
    status_words = cells.astype(object).map(said)
    unfinished = status_words[status_words.isin(UNFINISHED)].value_counts()
    return status_words.map(statuses), [
        f"{count} run(s) did not finish ({word}): counted as failed"
        for word, count in sorted(unfinished.items())
    ]


def has_settings(table: pd.DataFrame, status: pd.Series, columns: Sequence[str]) -> pd.Series:
    """Which rows are runs: what failed before its settings were known is none.

    Such are runs that crashed as they began, the parents of nested runs, and trials that were
    pruned before they asked for a value. Runs with a loss are kept: what they lack is an error.
    """
    lacks = (is_empty(table[c]) | table[c].isna() for c in columns)
    return ~(np.logical_or.reduce([*lacks]) & status.isin(["failed", "pruned"]))


def ended_early(
    runs: pd.DataFrame,
    table: pd.DataFrame,
    curves: pd.DataFrame | None,
    cell: Sequence[str],
    *,
    is_asked: bool = True,
) -> tuple[pd.Series, str]:
    """The runs that stopped before their own steps, or those of others of their size, and a note.

    What a run was to reach is a column such as `max_steps` beside `last_step`. Else it is what
    others reach: the last step of a curve, or a column such as `steps` or `n_tokens` that is the
    same for most runs of a size: where many differ in it, it was set. Only runs are compared that
    agree in the columns of a cell: the sizes, and what sets how many steps a run has, such as its
    batch size.

    Raises:
        DataError: Most runs stopped before their own steps, and `is_asked`.
    """
    for share in shares_of_steps(table.loc[runs.index], cell):
        is_short = share.lt(REACHED)
        if n_short := int(is_short.sum()):
            text = f"{n_short} run(s) stop before {100 * REACHED:.0f} % of their own steps"
            if is_asked and n_short > len(runs) / 2:
                raise DataError(
                    f"runs are compared at their ends, {text} ({share.name}). If they were "
                    "stopped on purpose, count them; else leave them out of the table:",
                    [Choice({"partial": True})],
                )
            return is_short, f"{text} ({share.name})"
    for reached, is_measured in _progress(runs, table, curves, cell):
        most = reached.groupby([runs[name] for name in cell]).transform("max")
        is_short = reached.lt(REACHED * most)
        n_short = is_short.sum()
        if n_short and (is_measured or n_short <= MOST_SHORT * len(runs)):
            return is_short, (
                f"{n_short} run(s) stop before {100 * REACHED:.0f} % of the {reached.name} that "
                "others of their size reach"
            )
    return pd.Series(data=False, index=runs.index), ""


def is_progress(column: str) -> bool:
    """Whether a column says how far a run came, by its name."""
    parts = _parts(column)
    return short_name(column).lower() in PROGRESS_NAMES or bool(parts and parts[1] & IS_REACHED)


def _parts(column: str) -> tuple[str, set[str]] | None:
    """The unit in the name of a number of steps, and the words beside it; None of any other."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", short_name(column)).lower()
    parts = set(re.split(r"[^a-z0-9]+", plain)) - {""}
    units = {part for part in parts if part.removesuffix("s") in STEP_UNITS}
    others = parts - units - BESIDE_UNITS
    if len(units) != 1 or others - IS_REACHED - IS_PLANNED:
        return None
    unit = units.pop()
    if not others:  # `steps` are planned where `step` was reached
        others = {"planned" if unit.endswith("s") else "reached"}
    return unit.removesuffix("s"), others


def shares_of_steps(table: pd.DataFrame, cell: Sequence[str] = ()) -> Iterator[pd.Series]:
    """Which share of its own steps each run came, by two columns of them or by one of the share.

    Columns that no run reaches are of different units, and so are those that some exceed.
    """
    named = {str(c): parts for c in table if (parts := _parts(str(c)))}
    for last, (unit, others) in named.items():
        for most in [c for c in named if c != last and named[c][0] == unit]:
            is_pair = others & IS_REACHED and named[most][1] <= IS_PLANNED
            if not is_pair or last in cell:
                continue
            reached, planned = (pd.Series(numbers_of(table[c])) for c in (last, most))
            if unit not in ("token", "sample", "example") and reached.lt(planned).all():
                reached += 1  # they count from 0
            share = (reached / planned).set_axis(table.index)
            if REACHED <= share.max() < 1 / REACHED:
                yield share.rename(f"{last} below {most}")
    for column in map(str, table):
        said = set(re.split(r"[^a-z0-9]+", short_name(column).lower())) - {"is", ""}
        if said & SHARE_WORDS and said <= SHARE_WORDS | BESIDE_UNITS and column not in cell:
            texts = table[column].astype(str).str.strip().str.lower().str.removesuffix("%")
            texts = texts.replace({"true": "1", "yes": "1", "false": "0", "no": "0"})
            numbers = pd.Series(numbers_of(texts), index=table.index)
            share = numbers / (100 if numbers.max() > 1 else 1)
            if REACHED <= share.max() <= 1:
                yield share.rename(column)


def _progress(
    runs: pd.DataFrame, table: pd.DataFrame, curves: pd.DataFrame | None, cell: Sequence[str]
) -> Iterator[tuple[pd.Series, bool]]:
    """How far runs came, and whether a curve says so, which nobody set."""
    if curves is not None and not curves.empty:
        yield curves.groupby("run")["step"].max().reindex(runs.index).rename("steps"), True
    for column in table:
        name = short_name(str(column)).lower()
        if is_progress(str(column)) and str(column) not in cell:
            numbers = pd.Series(numbers_of(table.loc[runs.index, column]), index=runs.index)
            yield numbers.rename(name.strip("_")), False
