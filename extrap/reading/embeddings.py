"""Embeddings from files: an array, or a table with one column per feature."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from extrap.errors import DataError, first_line
from extrap.files import require_file
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.tables import read_table


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
            raise DataError(f"an array has no column {label!r}, got {path.name}; write a table.")
        require_file(path, "array")
        try:
            return np.asarray(np.load(path, allow_pickle=False)), None
        except (ValueError, OSError, EOFError, MemoryError) as error:
            raise DataError(f"{path} is no readable .npy array: {first_line(error)}.") from error
    table = read_table(path)
    classes = None
    if label is not None:
        if label not in table:
            raise missing_column(label, list(table), str(path), option="label")
        cells = table.pop(label)
        if is_empty(cells).any():
            row = int(np.flatnonzero(is_empty(cells))[0])
            raise DataError(
                f"every example has a class, {label} has none in row {row + 1}; fill it in, or "
                "leave the row out."
            )
        classes = cells.to_numpy(dtype=str)
    return np.array([read_numbers(table[c], c, required=True) for c in table]).T, classes
