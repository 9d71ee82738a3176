"""Runs that never began, or ended before their last step, are left out with a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from extrap.reading.cells import is_empty, numbers_of
from extrap.reading.columns import MOST_COMPARED
from extrap.reading.names import short_name
from extrap.reading.states import given_status

REACHED = 0.95
"""Of the steps that runs of a size reach; a run of fewer is not complete."""
MOST_SHORT = 0.3
"""Share of the runs up to which a column of fewer steps is of early ends; beyond it, set."""
PROGRESS = (
    *("_step", "step", "steps", "n_steps", "global_step", "iteration", "iterations", "iters"),
    *("training_iteration", "updates", "epoch", "epochs", "n_tokens", "tokens", "tokens_seen"),
    *("seen_examples", "consumed_tokens", "num_steps", "train_steps"),
)
"""Columns, in lower case, that say how far a run came."""


def set_rows(
    table: pd.DataFrame, status: pd.Series, columns: Sequence[str]
) -> tuple[pd.Series, list[str]]:
    """The rows to keep, and a note: a run that failed before its settings were known is no row.

    Such are runs that crashed as they began, the parents of nested runs, and trials that were
    pruned before they asked for a value. Runs with a loss are kept: what they lack is an error.

    Args:
        table: The runs, cells as they are.
        status: How each ended.
        columns: Sizes and tuned values, which every run needs.
    """
    lacks = pd.Series(data=False, index=table.index)
    for column in columns:
        lacks |= is_empty(table[column]) | table[column].isna()
    left = lacks & status.isin(["failed", "pruned"])
    if not left.any():
        return ~left, []
    listed = " or ".join(columns)
    return ~left, [f"{int(left.sum())} run(s) without {listed} and without a result: left out"]


def ended_early(
    frame: pd.DataFrame,
    table: pd.DataFrame,
    curves: pd.DataFrame | None,
    cell: Sequence[str],
) -> tuple[pd.Series, str]:
    """The runs that stopped before the steps that others of their size reach, and a note.

    Only those count of which nobody says how they ended.

    How far a run came is the last step of its curve, else a column such as `steps` or `n_tokens`
    that is the same for most runs of a size: where many differ in it, it was set.

    Args:
        frame: The runs, their sizes numbers.
        table: The same rows as the source has them.
        curves: `run` (the row), `step` and `loss`.
        cell: Size columns, and tuned ones that set how many steps a run has, such as its batch
            size; only runs that agree in them are compared.
    """
    none = pd.Series(data=False, index=frame.index)
    given, _ = given_status(table)
    is_open = frame["status"].eq("complete") & (~none if given is None else given.isna())
    for reached, is_measured in _progress(frame, table, curves, cell):
        most = reached.groupby([frame[name] for name in cell]).transform("max")
        is_short = is_open & reached.lt(REACHED * most)
        n_short = is_short.sum()
        if n_short and (is_measured or n_short <= MOST_SHORT * len(frame)):
            return is_short, (
                f"{n_short} run(s) stop before {100 * REACHED:.0f} % of the {reached.name} that "
                "others of their size reach"
            )
    return none, ""


def _progress(
    frame: pd.DataFrame, table: pd.DataFrame, curves: pd.DataFrame | None, cell: Sequence[str]
) -> Iterator[tuple[pd.Series, bool]]:
    """How far runs came, and whether a curve says so, which nobody set."""
    if curves is not None and not curves.empty:
        yield curves.groupby("run")["step"].max().reindex(frame.index).rename("steps"), True
    for column in list(table)[:MOST_COMPARED]:
        name = short_name(str(column)).lower()
        if name in PROGRESS and str(column) not in cell:
            numbers = pd.Series(numbers_of(table[column]), index=table.index)
            yield numbers.rename(name.strip("_")), False
