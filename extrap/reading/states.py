"""How a run ended, in the words of those who track runs, as one of our statuses."""

from __future__ import annotations

import re

import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown
from extrap.reading.cells import is_empty
from extrap.reading.columns import MOST_COMPARED
from extrap.reading.names import bare_name, is_identity, is_recipe, words
from extrap.records import STATUSES

WORDS = {
    **{status: status for status in STATUSES},
    **dict.fromkeys(words("finished completed done success succeeded terminated ok"), "complete"),
    **dict.fromkeys(
        words(
            "fail crash crashed error errored killed cancelled canceled aborted abort timeout "
            "timed_out oom out_of_memory node_fail interrupted preempted preempting pending "
            "queued paused running scheduled waiting"
        ),
        "failed",
    ),
}
"""What trackers, tuners and clusters call a run that ended, or has not ended yet → status."""
UNFINISHED = {word for word, status in WORDS.items() if status == "failed"} - {"failed"}
COLUMN = re.compile(r"(^|[_.])(status|state|outcome)$")
"""Names of columns that hold such words; a column of any name does if it holds nothing else."""


def state_column(table: pd.DataFrame) -> str | None:
    """The column `status`, else one of such a name that holds a word for it, else one of words."""
    if "status" in table:
        return "status"
    shares = {}
    for column in list(table)[:MOST_COMPARED]:
        cells = table[column]
        if pd.api.types.is_numeric_dtype(cells.dtype) or is_recipe(str(column)):
            continue
        found = pd.Series(cells[~is_empty(cells)].astype(str).unique(), dtype=object).map(_word)
        shares[str(column)] = found.isin(WORDS).mean() if len(found) else 0.0
    named = [c for c in shares if COLUMN.search(_word(bare_name(c))) and shares[c] > 0]
    whole = [c for c in shares if shares[c] == 1 and not is_identity(c)]
    return next(iter([*sorted(named, key=lambda c: -shares[c]), *whole]), None)


def _word(value: object) -> str:
    return re.sub(r"[\s\-]+", "_", str(value).strip().lower())


def given_status(table: pd.DataFrame) -> tuple[pd.Series | None, list[str]]:
    """The status that a table gives each run, NaN where it gives none, and notes.

    Raises:
        DataError: A status is a word that nobody uses for one.
    """
    column = state_column(table)
    if column is None:
        return None, []
    codes, found = pd.factorize(table[column].where(~is_empty(table[column])))
    lowered = map(_word, found)
    texts = [None if text in ("nan", "<na>") else text for text in lowered]
    said = pd.Series([*texts, None], dtype=object).iloc[codes].set_axis(table.index)
    unknown = [
        str(word) for word, text in zip(found, texts, strict=True) if text and text not in WORDS
    ]
    if unknown:
        own = "" if column == "status" else f" in the column {shown(column)}"
        raise DataError(
            f"status must be one of {', '.join(STATUSES)}; got {shown(min(unknown))}{own}. Write "
            "the nearest of them, or give the column another name if it says something else."
        )
    unfinished = said[said.isin(UNFINISHED)].value_counts()
    notes = [
        f"{count} run(s) did not finish ({word}): counted as failed"
        for word, count in sorted(unfinished.items())
    ]
    return said.map(WORDS), notes
