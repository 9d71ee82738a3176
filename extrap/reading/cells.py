"""Cells of a table as numbers: what is empty, what is not finite, what is text."""

from __future__ import annotations

from decimal import Decimal
from numbers import Real

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown

__all__ = ["is_empty", "read_numbers"]

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
        codes, words = pd.factorize(values)  # each word of a table of text is read once
        of_words, bad_words = _numbers(pd.Series(words, dtype=object))
        numbers = pd.Series([*of_words, np.nan], dtype=float).iloc[codes].set_axis(values.index)
        bad = np.append(bad_words, False)[codes] & ~empty.to_numpy()
    else:
        numbers, bad = _numbers(values.astype(object).mask(empty, np.nan))
        bad &= ~empty.to_numpy()
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise DataError(
            f"{column} must hold numbers, got {shown(values.iloc[row])} in row {row + 1}."
        )
    if required and numbers.isna().any():
        row = int(np.flatnonzero(numbers.isna())[0])
        raise DataError(f"{column} must be filled in for every run, row {row + 1} has none.")
    return numbers


def _numbers(cells: pd.Series) -> tuple[pd.Series, np.ndarray]:
    """Cells as floats, and which are neither a number nor spelled as none."""
    listed = cells.tolist()
    readable = [isinstance(v, str | Real | Decimal) and not isinstance(v, bool) for v in listed]
    numbers = pd.to_numeric(cells.where(readable), errors="coerce").astype(float)
    missing = np.flatnonzero(numbers.isna())
    bad = np.zeros(len(listed), dtype=bool)
    bad[missing] = [str(listed[i]).strip().lower() not in SPELLED_NAN for i in missing]
    return numbers, bad
