"""Files and DataFrames, read as they are: no cell is converted or dropped here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from extrap.errors import DataError

__all__ = ["read_table"]


def read_table(source: str | Path | TextIO | pd.DataFrame) -> pd.DataFrame:
    """A table from a CSV, Parquet or JSONL file, from CSV text, or a copy of a DataFrame.

    Text cells stay text, so that an empty cell and the word `nan` can be told apart.

    Raises:
        DataError: The file is missing, empty, or not a table.
    """
    if isinstance(source, pd.DataFrame):
        frame = source.reset_index(drop=True).copy()
    elif isinstance(source, str | Path):
        frame = _read_file(Path(source))
    elif hasattr(source, "read"):
        frame = _guarded(_read_csv, source, name="the standard input")
    else:
        raise DataError(
            "runs are read from a file, a storage URL or a DataFrame, got "
            f"{type(source).__name__}; convert it to a pandas DataFrame first."
        )
    frame.columns = [str(c).strip() for c in frame.columns]
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise DataError(f"column names must differ, {repeated[0]!r} appears twice; rename one.")
    return frame


def _read_file(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise DataError(f"there is no file {path}; check the path.")
    if path.is_dir():
        raise DataError(f"{path} is a folder; name the table inside it.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; a table needs a header and at least one row.")
    readers = {
        ".csv": _read_csv,
        ".tsv": _read_csv,
        ".txt": _read_csv,
        ".parquet": _read_parquet,
        ".pq": _read_parquet,
        ".jsonl": _read_jsonl,
        ".ndjson": _read_jsonl,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"a table ends in {', '.join(sorted(readers))}, got {path.name}; rename or convert it."
        )
    return _guarded(reader, path, name=str(path))


def _guarded(
    reader: Callable[[Any], pd.DataFrame], source: Path | TextIO, *, name: str
) -> pd.DataFrame:
    """What a reader reads; whatever it stumbles over is one line about the source."""
    try:
        return reader(source)
    except DataError:
        raise
    except (ValueError, OSError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name} is not a readable table: {reason}") from error


def _read_csv(source: Path | TextIO) -> pd.DataFrame:
    is_tabbed = isinstance(source, Path) and source.suffix.lower() == ".tsv"
    separator = "\t" if is_tabbed else ","
    # without a header pandas neither renames repeated columns nor shifts those of longer rows
    cells = pd.read_csv(
        source,
        sep=separator,
        header=None,
        dtype=str,
        keep_default_na=False,
        na_filter=False,
        skipinitialspace=True,
        encoding="utf-8-sig" if isinstance(source, Path) else None,
    )
    cells = cells.astype(object)
    frame = cells[1:].reset_index(drop=True)
    frame.columns = cells.iloc[0].tolist()
    return frame.loc[:, frame.columns != ""]


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return table.to_pandas(types_mapper=pd.ArrowDtype)


def _read_jsonl(path: Path) -> pd.DataFrame:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path} line {number} is not JSON: {error.msg}.") from error
        if not isinstance(row, dict):
            raise DataError(
                f"{path} line {number} must be a JSON object, got {type(row).__name__}."
            )
        rows.append(row)
    return pd.DataFrame(rows, dtype=object)
