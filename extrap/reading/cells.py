"""Cells of a table as numbers: what is empty, what is not finite, what is text."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown

PIECE = 100_000
SPELLED_NAN = ("nan", "+nan", "-nan")


def is_empty(values: pd.Series) -> pd.Series:
    """Cells without any content; a float NaN is content (it means not finite)."""
    if isinstance(values.dtype, pd.StringDtype):
        return (values.isna() | values.str.strip().eq("")).astype(bool)
    if values.dtype == object:
        return values.map(
            lambda v: v is None or v is pd.NA or (isinstance(v, str) and not v.strip())
        )
    if pd.api.types.is_extension_array_dtype(values.dtype):
        return values.isna()
    return pd.Series(data=False, index=values.index)


def read_numbers(values: pd.Series, column: str, *, required: bool = False) -> pd.Series:
    """A column as floats; text is an error that names the row, an empty cell is NaN."""
    empty = is_empty(values)
    if isinstance(values.dtype, pd.StringDtype):
        numbers = _numbers_of_text(values)
    else:
        cells = values.astype(object).mask(empty, np.nan)
        readable = [isinstance(v, str | Real | Decimal) and not isinstance(v, bool) for v in cells]
        numbers = pd.to_numeric(cells.where(readable), errors="coerce").astype(float)
    missing = np.flatnonzero(numbers.isna() & ~empty)
    cells = values.iloc[missing].astype(object).tolist()
    for row, cell in zip(missing.tolist(), cells, strict=True):
        if _is_infinite(cell):  # which pandas 2.2 does not read
            numbers.iloc[row] = float(cell)
        elif str(cell).strip().lower() not in SPELLED_NAN:
            raise DataError(f"{column} must hold numbers, got {shown(cell)} in row {row + 1}.")
    if required and numbers.isna().any():
        row = int(np.flatnonzero(numbers.isna())[0])
        raise DataError(
            f"{column} must be filled in for every run, row {row + 1} has none; fill it in, or "
            "leave the row out."
        )
    return numbers


def _is_infinite(cell: object) -> bool:
    """Whether a text is a number beyond the range of floats."""
    try:
        return isinstance(cell, str) and math.isinf(float(cell))
    except ValueError:
        return False


def _numbers_of_text(values: pd.Series) -> pd.Series:
    """Text as floats, piece by piece: as Python's own strings it takes ten times the room."""
    numbers = np.empty(len(values))
    for start in range(0, len(values), PIECE):
        codes, words = pd.factorize(values.iloc[start : start + PIECE], use_na_sentinel=False)
        found = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce")
        numbers[start : start + PIECE] = found.to_numpy(dtype=float)[codes]
    return pd.Series(numbers, index=values.index)
