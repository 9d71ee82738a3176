"""Cells of a table as numbers: what is empty, what is not finite, what is text."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown

__all__ = ["is_empty", "read_numbers"]


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
    cells = values.astype(object).mask(empty, np.nan).tolist()
    readable = [isinstance(v, str | Real | Decimal) and not isinstance(v, bool) for v in cells]
    text = pd.Series(cells, index=values.index, dtype=object).where(readable)
    numbers = pd.to_numeric(text, errors="coerce").astype(float)
    spelled_nan = [str(v).strip().lower() in ("nan", "+nan", "-nan") for v in cells]
    bad = numbers.isna() & ~empty & ~np.array(spelled_nan)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(f"{column} must hold numbers, got {shown(cells[row])} in row {row + 1}.")
    if required and numbers.isna().any():
        row = int(np.flatnonzero(numbers.isna())[0])
        raise DataError(f"{column} must be filled in for every run, row {row + 1} has none.")
    return numbers
