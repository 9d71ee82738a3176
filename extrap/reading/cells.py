"""Cells of a table as numbers: what is empty, what is not finite, what is text.

Beside what Python reads, `1.3B`, `190M`, `1,300,000`, `2^-7` and `2**-7` are numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import shown

PIECE = 100_000
SPELLED_NAN = ("nan", "+nan", "-nan")
COUNT = re.compile(
    r"(?P<number>[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s?(?P<times>[kKmMbBtT]?)"
)
POWER = re.compile(
    r"(?P<base>\d+(?:\.\d+)?)\s?(?:\^|\*\*)\s?\(?(?P<exponent>[-+]?\d+(?:\.\d+)?)\)?"
)
MULTIPLES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}


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
        numbers = pd.Series(numbers_of(cells.where(readable)), index=values.index)
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


def numbers_of(words: Iterable[object]) -> np.ndarray:
    """Values as floats, shape (n,); NaN for what is no number.

    Example:
        >>> numbers_of(["1.3B", "1,300", "2^-3", "d512"]).tolist()
        [1300000000.0, 1300.0, 0.125, nan]
    """
    cells = pd.Series(list(words), dtype=object)
    found = pd.to_numeric(cells, errors="coerce")
    numbers = found.to_numpy(dtype=float, na_value=np.nan).copy()
    for i in np.flatnonzero(np.isnan(numbers)):
        if isinstance(cells.iloc[i], str):
            numbers[i] = _written(cells.iloc[i].strip())
    return numbers


def _written(text: str) -> float:
    if count := COUNT.fullmatch(text):
        return float(count["number"].replace(",", "")) * MULTIPLES[count["times"].lower()]
    if power := POWER.fullmatch(text):
        try:
            return float(float(power["base"]) ** float(power["exponent"]))
        except OverflowError:
            return math.inf
    return math.nan


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
        numbers[start : start + PIECE] = numbers_of(words)[codes]
    return pd.Series(numbers, index=values.index)
