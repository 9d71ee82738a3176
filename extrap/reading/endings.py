"""Runs that never began are left out, and runs that ended early are reported."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from extrap.reading.cells import is_empty

MOST_SHARE = 0.9
"""Of the steps that the middle run of a size has; a run of fewer ended early."""


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


def early_notes(
    frame: pd.DataFrame,
    curves: pd.DataFrame | None,
    sizes: Sequence[str],
    *,
    is_significant: pd.Series,
) -> list[str]:
    """A note on complete runs of which nobody says that they ended, and which ended early.

    Args:
        frame: The runs, their sizes numbers.
        curves: `run` (the row), `step` and `loss`.
        sizes: Size columns; only runs of one size are compared.
        is_significant: Whether the source says how a run ended.
    """
    if curves is None or curves.empty:
        return []
    last = curves.groupby("run")["step"].max().reindex(frame.index)
    usual = last.groupby([frame[size] for size in sizes]).transform("median")
    is_early = frame["status"].eq("complete") & ~is_significant & last.lt(MOST_SHARE * usual)
    if not is_early.any():
        return []
    return [
        f"{int(is_early.sum())} run(s) of which no status is known end before "
        f"{100 * MOST_SHARE:.0f} % of the steps that others of their size have: "
        "counted as complete; leave out those that crashed"
    ]
