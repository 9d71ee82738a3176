"""Columns as codes of their distinct values, and how one column depends on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from extrap.reading.cells import numbers_of

Codes = NDArray[np.intp]
EMPTY = ("", "None", "nan", "NaN", "<NA>", "NaT")
"""Cells without a value, as text."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """The distinct values of a column.

    Attributes:
        codes: One per row, which value it has; -1 where it has none.
        labels: The values as they are written, sorted where they are numbers.
        numbers: The same as numbers; None if any is no number.
    """

    codes: Codes
    labels: tuple[Any, ...]
    numbers: NDArray[np.float64] | None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_positive(self) -> bool:
        """Whether all values are positive numbers."""
        return self.numbers is not None and bool((self.numbers > 0).all())

    def depends_on(self, cells: Codes) -> bool:
        """Whether rows of one cell agree in it; rows without a value count for nothing."""
        there = (self.codes >= 0) & (cells >= 0)
        pairs = joint(cells[there], self.codes[there])
        return len(pd.unique(pairs)) == len(pd.unique(cells[there]))

    def follows(self, other: Levels, within: Codes) -> bool:
        """Whether it only rises, or only falls, along another column in every cell."""
        there = (self.codes >= 0) & (other.codes >= 0) & (within >= 0)
        cells, along, mine = within[there], other.codes[there], self.codes[there]
        order = np.lexsort((along, cells))
        steps = np.diff(mine[order])[np.diff(cells[order]) == 0]
        return bool((steps >= 0).all() or (steps <= 0).all())


def levels_of(values: pd.Series) -> Levels:
    """The distinct values of a column; `16` and `16.0` are one, empty cells are none."""
    try:
        codes, found = pd.factorize(values)
    except TypeError:  # lists and the like
        codes, found = pd.factorize(values.astype(str))
    labels = pd.Series(found, dtype=object)
    texts = labels.astype(str).str.strip()
    is_there = ~texts.isin(EMPTY).to_numpy(dtype=bool)
    numbers = numbers_of(labels)
    has_words = bool((np.isnan(numbers) & is_there).any())
    keys = texts.to_numpy(dtype=object) if has_words or _has_booleans(labels) else numbers
    first, place = np.unique(keys[is_there], return_index=True, return_inverse=True)[1:]
    recoded = np.full(len(labels) + 1, -1, dtype=np.intp)  # its last is for cells without a value
    recoded[:-1][is_there] = place
    kept = np.flatnonzero(is_there)[first]
    return Levels(
        codes=recoded[codes],
        labels=tuple(labels.iloc[kept]),
        numbers=None if keys.dtype == object else numbers[kept],
    )


def _has_booleans(labels: pd.Series) -> bool:
    return any(isinstance(label, bool | np.bool_) for label in labels.head(3))


def joint(*columns: Codes) -> Codes:
    """One code per combination of values; -1 where any is missing."""
    codes, is_missing = columns[0], columns[0] < 0
    for column in columns[1:]:
        is_missing = is_missing | (column < 0)
        codes = pd.factorize(codes * (int(column.max(initial=0)) + 1) + column)[0]
    return np.asarray(np.where(is_missing, -1, codes), dtype=np.intp)
