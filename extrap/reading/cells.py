"""Cells of a table: what is empty, which numbers they are, and how columns depend on each other.

Beside what Python reads, `1.3B`, `190M`, `1,300,000`, `2^-7` and `2**-7` are numbers; so are
`**3.21**`, `0.5x`, `3.784 (+0.006)` and `3.78 ± 0.01`, without what stands beside the number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from extrap.errors import DataError, shown
from extrap.reading.names import MULTIPLES, SUPERSCRIPTS
from extrap.records.notes import MARKED, note

SPELLED_NAN = ("nan", "+nan", "-nan")
"""Text, in lower case, that is a float NaN: content, and no number."""
NO_VALUE = ("", "-", "--", "–", "—", "n/a", "N/A", "#N/A", "NA", "n.a.")
"""What stands in an empty cell."""
EMPTY = (*NO_VALUE, "None", "nan", "NaN", "<NA>", "NaT")
"""Cells without a value, as text."""
ERROR_AFTER_NUMBER = re.compile(r"\s*\(?\s*(?:±|\+/?-|\\pm)\s*(?P<error>[\d.eE+-]+).*")
"""A standard error after a number."""
BRACKET = re.compile(r"(?<=[\dkKmMbBtT])[*_]*\s?[(\[][^A-Za-z]*[)\]]$")
"""A difference or an interval after a number."""
WITH_MARKS = re.compile(
    r"(?:[*_`$]*(?:[xX×]\s?)?(?P<number>[^\s()]+?)(?:\s?[xX×])?[*_`$†‡]*)|"
    r"tensor\((?P<tensor>[^,()]+).*\)"
)
"""A number in bold or with a footnote, a multiplier, a tensor as text."""
PLAIN_NUMBER = r"^\s*[+-]?[\d.,]*(?:[eE][+-]?\d+)?\s?[kKmMbBtT]?\s*$"
"""No cell of another form holds more than a number."""
SCALED_NUMBER = re.compile(
    r"(?P<number>[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s?(?P<times>[kKmMbBtT]?)"
)
"""A plain number, with commas between thousands and a letter for its multiple."""
POWER_PATTERN = re.compile(
    r"(?P<base>\d+(?:\.\d+)?)\s?(?:\^|\*\*)\s?\(?(?P<exponent>[-+]?\d+(?:\.\d+)?)\)?"
)
"""A power such as `2^-7` or `2**-7`."""
POWER_OF_TEN = re.compile(r"\s*[×x*·]\s*10\s*(?:\^|\*\*)?\s*\{?([-+]?\d+)\}?$")
"""The end of a number such as `3 × 10^5`."""
Codes = NDArray[np.intp]
"""One number a row: which value of a column, or combination of values, it has; -1 for none."""


def is_empty(values: pd.Series) -> pd.Series:
    """Cells without any content; a float NaN is content (it means not finite)."""
    if isinstance(values.dtype, pd.StringDtype):
        return (values.isna() | values.str.strip().isin(NO_VALUE)).astype(bool)
    if values.dtype == object:
        return values.map(
            lambda v: v is None or v is pd.NA or (isinstance(v, str) and v.strip() in NO_VALUE)
        )
    if pd.api.types.is_extension_array_dtype(values.dtype):
        return values.isna()
    return pd.Series(data=False, index=values.index)


def read_numbers(values: pd.Series, column: str, *, required: bool = False) -> pd.Series:
    """A column as floats; text is an error that names the row, an empty cell is NaN."""
    numbers = pd.Series(_parsed(values), index=values.index)
    missing = numbers.isna()
    odd = values[missing & ~is_empty(values)].astype(object)
    odd = odd[[str(cell).strip().lower() not in SPELLED_NAN for cell in odd]]
    if len(odd):
        raise DataError(
            f"{column} must hold numbers, got {shown(odd.iloc[0])} in row {odd.index[0] + 1}; "
            "write a number, empty the cell, or leave the row out."
        )
    if required and missing.any():
        raise DataError(
            f"{column} must be filled in for every run, row {missing.idxmax() + 1} has none; fill "
            "it in, or leave the row out."
        )
    return numbers


def texts_of(values: pd.Series) -> pd.Series:
    """The cells that are text and no plain number."""
    if values.dtype != object and not isinstance(values.dtype, pd.StringDtype | pd.ArrowDtype):
        return pd.Series(dtype=str)
    is_string = isinstance(values.dtype, pd.StringDtype)
    if is_string and plain_numbers(values) is not None:
        return values[:0]
    values = values[~is_empty(values)]
    if not is_string:
        values = values[[isinstance(cell, str) for cell in values]].astype(str)
    return values[~values.str.contains(PLAIN_NUMBER).astype(bool)] if len(values) else values


def marked_notes(values: pd.Series, column: str) -> list[str]:
    """A note on the cells of a column that hold more than a number."""
    texts = texts_of(values).str.strip()
    texts = [text for text in texts if not ERROR_AFTER_NUMBER.search(text)]  # see `layouts`
    marked = [text for text in texts if math.isnan(_plain(text)) and math.isfinite(_written(text))]
    return [
        note(MARKED, len(marked), column, shown(text), f"{_written(text):g}")
        for text in marked[:1]
    ]


def _parsed(values: pd.Series) -> np.ndarray:
    if isinstance(values.dtype, pd.StringDtype):
        plain = plain_numbers(values)
        if plain is not None:
            return plain
        codes, uniques = pd.factorize(values, use_na_sentinel=False)
        return numbers_of(uniques)[codes]
    cells = values.astype(object)
    return numbers_of(v if isinstance(v, Real | str | Decimal) else None for v in cells)


def plain_numbers(values: pd.Series) -> np.ndarray | None:
    """Text of Arrow as floats; None if any is no plain number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(pa.array(values, type=pa.large_string()))
    with suppress(pa.ArrowInvalid):
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
        return np.asarray(texts.cast(pa.float64()).to_numpy(zero_copy_only=False))
    return None


def numbers_of(values: Iterable[object]) -> np.ndarray:
    """Values as floats, shape (n,); NaN for what is no number.

    Example:
        >>> numbers_of(["1.3B", "1,300", "2^-3", "d512"]).tolist()
        [1300000000.0, 1300.0, 0.125, nan]
    """
    plain = [None if isinstance(value, bool | np.bool_) else value for value in values]
    cells = pd.Series(plain, dtype=object)
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=float, na_value=np.nan).copy()
    for i in np.flatnonzero(np.isnan(numbers)):
        if isinstance(cells.iloc[i], str):
            numbers[i] = _written(cells.iloc[i].strip())
    return numbers


def _written(text: str) -> float:
    number = _plain(text)
    if math.isnan(number):
        text = POWER_OF_TEN.sub(r"e\1", text.translate(SUPERSCRIPTS).replace("−", "-"))
        number = _plain(text)
    if math.isnan(number):
        marked = WITH_MARKS.fullmatch(BRACKET.sub("", ERROR_AFTER_NUMBER.sub("", text)).strip())
        number = _plain((marked["number"] or marked["tensor"]) if marked else "")
    return number


def _plain(text: str) -> float:
    if count := SCALED_NUMBER.fullmatch(text):
        return float(count["number"].replace(",", "")) * MULTIPLES.get(count["times"].lower(), 1.0)
    try:
        if power := POWER_PATTERN.fullmatch(text):
            return float(float(power["base"]) ** float(power["exponent"]))
        return float(text)  # beyond the range of floats, which pandas 2.2 does not read
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


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
        codes, uniques = pd.factorize(values)
    except TypeError:  # lists and the like
        codes, uniques = pd.factorize(values.astype(str))
    labels = pd.Series(uniques, dtype=object)
    texts = labels.astype(str).str.strip()
    is_there = ~texts.isin(EMPTY).to_numpy(dtype=bool)
    numbers = numbers_of(labels)
    has_words = bool((np.isnan(numbers) & is_there).any())
    keys = texts.to_numpy(dtype=object) if has_words else numbers
    first, ranks = np.unique(keys[is_there], return_index=True, return_inverse=True)[1:]
    recoded = np.full(len(labels) + 1, -1, dtype=np.intp)  # its last is for cells without a value
    recoded[:-1][is_there] = ranks
    positions = np.flatnonzero(is_there)[first]
    return Levels(
        codes=recoded[codes],
        labels=tuple(labels.iloc[positions]),
        numbers=None if has_words else numbers[positions],
    )


def joint(*columns: Codes) -> Codes:
    """One code per combination of values; -1 where any is missing."""
    codes, is_missing = columns[0], columns[0] < 0
    for column in columns[1:]:
        is_missing = is_missing | (column < 0)
        codes = pd.factorize(codes * (int(column.max(initial=0)) + 1) + column)[0]
    return np.asarray(np.where(is_missing, -1, codes), dtype=np.intp)
