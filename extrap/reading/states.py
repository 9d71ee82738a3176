"""How a run ended, in the words of those who track runs, as one of our statuses."""

from __future__ import annotations

import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown
from extrap.reading.cells import is_empty
from extrap.reading.names import bare_name
from extrap.records import STATUSES

WORDS = {
    **{status: status for status in STATUSES},
    "finished": "complete",
    "crashed": "failed",
    "fail": "failed",
    "killed": "failed",
    "pending": "failed",
    "preempted": "failed",
    "preempting": "failed",
    "running": "failed",
    "scheduled": "failed",
    "waiting": "failed",
}
"""What W&B, MLflow and Optuna call a run that ended, or has not ended yet → status."""
COLUMNS = ("status", "state")
"""However written, and behind a tracker's prefix too."""


def state_column(table: pd.DataFrame) -> str | None:
    """The column `status`, or else one of such a name that holds a word for it."""
    if "status" in table:
        return "status"
    bare = {str(column): bare_name(str(column)).lower() for column in table}
    named = [column for name in COLUMNS for column in bare if bare[column] == name]
    for column in sorted(named, key=lambda column: column.lower() not in COLUMNS):
        words = table[column][~is_empty(table[column])].astype(str).str.strip().str.lower()
        if words.isin(WORDS).any():
            return column
    return None


def given_status(table: pd.DataFrame) -> tuple[pd.Series | None, list[str]]:
    """The status that a table gives each run, NaN where it gives none, and notes.

    Raises:
        DataError: A status is a word that nobody uses for one.
    """
    column = state_column(table)
    if column is None:
        return None, []
    codes, found = pd.factorize(table[column].where(~is_empty(table[column])))
    lowered = (str(word).strip().lower() for word in found)
    texts = [None if text in ("nan", "<na>") else text for text in lowered]
    words = pd.Series([*texts, None], dtype=object).iloc[codes].set_axis(table.index)
    unknown = sorted({str(text) for text in texts if text and text not in WORDS})
    if unknown:
        own = "" if column == "status" else f" in the column {shown(column)}"
        raise DataError(
            f"status must be one of {', '.join(STATUSES)}; got {shown(unknown[0])}{own}. Write "
            "the nearest of them, or give the column another name if it says something else."
        )
    unfinished = words[words.isin(set(WORDS) - {*STATUSES, "finished"})].value_counts()
    notes = [
        f"{count} run(s) did not finish ({word}): counted as failed"
        for word, count in sorted(unfinished.items())
    ]
    return words.map(WORDS), notes
