"""The runs of an allocation: parameters, tokens, loss; one row a run that finished."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.laws.base import Array
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.tables import read_table
from extrap.records import Runs

__all__ = ["Points", "read_points"]

COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """Runs with a final loss.

    Attributes:
        params: N, shape (n,).
        tokens: D, shape (n,).
        loss: Shape (n,).
        notes: What was left out or taken together.
    """

    params: Array
    tokens: Array
    loss: Array
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> Array:
        """`C = 6 N D`, shape (n,)."""
        return 6 * self.params * self.tokens


def read_points(
    source: str | Path | TextIO | pd.DataFrame | Runs, *, params: str, tokens: str, loss: str
) -> Points:
    """Runs of a table that have a loss; rows alike in every column are one run.

    Raises:
        DataError: The source is no table, lacks a column, or holds values that are not positive.
        ValueError: A column was given two parts to play.
    """
    if len({params, tokens, loss}) < 3:
        raise ValueError(
            f"params, tokens and loss are three columns, got {params}, {tokens} and {loss}; name "
            "another column."
        )
    table = source.to_frame() if isinstance(source, Runs) else read_table(source)
    have = list(map(str, table.columns))
    for name in (params, tokens, loss):
        if name not in have:
            raise missing_column(name, have, "the table")
    lost = read_numbers(table[loss], loss)
    keep = np.isfinite(lost)
    if "status" in have:
        keep &= is_empty(table["status"]) | (table["status"].astype(str) == COMPLETE)
    if not keep.any():
        raise DataError(f"no run has a loss; fill in the column {loss}.")
    kept = table[keep]
    is_copy = kept.astype(str).duplicated().to_numpy()
    kept = kept[~is_copy]
    columns = [_positive(kept[name], name) for name in (params, tokens)]
    return Points(
        params=columns[0],
        tokens=columns[1],
        loss=_positive(kept[loss], loss),
        notes=_notes(n_without=int((~keep).sum()), n_copies=int(is_copy.sum())),
    )


def _notes(*, n_without: int, n_copies: int) -> tuple[str, ...]:
    without = f"{n_without} runs without a final loss are left out"
    copies = f"{n_copies} rows are copies of others in every column and count once"
    return (*[without] * bool(n_without), *[copies] * bool(n_copies))


def _positive(values: pd.Series, name: str) -> Array:
    numbers = read_numbers(values, name, required=True).to_numpy(dtype=float)
    bad = ~(np.isfinite(numbers) & (numbers > 0))
    if bad.any():
        raise DataError(
            f"{name} must be positive and finite, got {numbers[bad][0]:g}; mend or drop the run."
        )
    return numbers
