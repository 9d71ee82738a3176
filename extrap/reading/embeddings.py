"""Embeddings from files: an array, or a table with a column a feature."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.reading.bounds import first_line, require_file, shown
from extrap.reading.tables import read_table

UNREADABLE = (
    OSError,
    EOFError,
    MemoryError,  # its header may promise more than there is
    OverflowError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What NumPy raises for a file that is no array."""


def read_embedding(
    path: str | Path, *, label: str | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """The features of examples and, if asked for, their classes.

    Args:
        path: An `.npy` file with an array of shape (n, f), or a table as `read_runs` takes whose
            columns are all numbers, but for `label`.
        label: Column of the classes, of a table.

    Returns:
        Features of shape (n, f), and classes of shape (n,) or None.

    Raises:
        DataError: The file is missing or no such thing, a cell no number, the column absent or a
            class blank.
    """
    path = Path(path)
    if path.suffix.lower() == ".npy":
        if label is not None:
            raise DataError(
                f"an array has no column {label!r}, got {path.name}; write a table, or leave the "
                "label out."
            )
        return _array(path), None
    frame = read_table(path)
    classes = None
    if label is not None:
        if label not in frame:
            raise DataError(f"there is no column {label!r} in {path}; it has {list(frame)}.")
        classes = _classes(frame.pop(label), label)
    numbers = frame.apply(pd.to_numeric, errors="coerce")
    bad = numbers.isna()
    if bad.to_numpy().any():
        row, column = (int(i[0]) for i in np.nonzero(bad.to_numpy()))
        raise DataError(
            f"features are numbers, got {shown(frame.iat[row, column])} in column "
            f"{frame.columns[column]!r}, row {row}; drop the column, or name it with "
            f"{argument('label', ...)}."
        )
    return numbers.to_numpy(dtype=float), classes


def _classes(column: pd.Series, name: str) -> np.ndarray:
    is_blank = (column.isna() | (column.astype(str).str.strip() == "")).to_numpy()
    if is_blank.any():
        raise DataError(
            f"every example has a class, got none in {int(is_blank.sum())} of {len(column)} rows "
            f"of column {name!r}, first in row {int(np.flatnonzero(is_blank)[0])}; name it, or "
            "leave the example out."
        )
    return column.to_numpy(dtype=str)


def _array(path: Path) -> np.ndarray:
    require_file(path, "array")
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)  # its shape may promise too much
        if not isinstance(found, np.ndarray):
            raise ValueError("it is an archive")
        return np.array(found)
    except UNREADABLE as error:
        raise DataError(f"{path} is no readable .npy array: {first_line(error)}.") from error
