"""Files and frames, read as they are: no cell is converted or dropped here; and embeddings."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from extrap.errors import DataError, first_line, shown
from extrap.files import require_file, unguarded
from extrap.reading.cells import is_empty, numbers_of, read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.frames import as_frame, frame_of_rows, is_table, with_flat_cells, without_index
from extrap.reading.wide_tables import TITLE, check_headers

SEPARATORS = (",", ";", "\t")
"""What may stand between cells."""
JSON_LINES = (".jsonl", ".ndjson")
"""Endings of files with one JSON object per line."""
SNIFFED, MOST_TITLE, LONGEST_LINE = 6, 10, 1_000_000
"""Lines by which the separator is told, lines above a header, and characters of one."""
WHAT_TO_GIVE = {
    "Forecast": "give its .runs",
    "LazyFrame": "give what its .collect() returns",
    "Series": "give the DataFrame with all columns",
    "dict": "give pd.DataFrame of it",
}
"""What holds no runs → what to give instead."""
try:
    TEXT = pd.StringDtype("pyarrow", na_value=np.nan)
except TypeError:  # pandas 2.2
    TEXT = pd.StringDtype("pyarrow_numpy")
EXPONENT_PATTERN = r"(?:[eE][-+]?\d+)?"
"""The exponent of a number, if there is one."""
COMMA_NUMBER = rf"\s*[-+]?\d*,\d+{EXPONENT_PATTERN}\s*"
"""A number with a decimal comma."""
POINT_NUMBER = rf"\s*[-+]?\d*\.\d+{EXPONENT_PATTERN}\s*"
"""A number with a decimal point."""
THOUSANDS = r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*"
"""A number whose comma may stand between thousands."""


def read_table(source: Any, *, name: str = "the standard input") -> pd.DataFrame:
    """A table from a CSV, Parquet or JSONL file, from CSV text, or a copy of one in memory.

    Text cells stay text, so that an empty cell and the word `nan` can be told apart. Cells that
    are dictionaries become columns with dots. Open text is called `name` in messages.

    Raises:
        TypeError: The source is of another kind.
        DataError: The file is missing, empty, or not a table.
    """
    if isinstance(source, str | Path):
        frame = _read_file(Path(source))
    elif is_table(source):
        frame = as_frame(source)
    elif hasattr(source, "read"):
        frame = _guarded(partial(_read_csv, name=name), source, name=name)
    else:
        kind = type(source).__name__
        if isinstance(source, list | tuple):
            kind += f" of {', '.join(sorted({type(item).__name__ for item in source}))}"
        raise TypeError(
            "runs are read from a path, a storage URL, a frame, Runs, an Optuna study, a list of "
            f"one kind of these or a list of dictionaries, got {kind}; "
            f"{WHAT_TO_GIVE.get(kind, 'give one of these')}."
        )
    if isinstance(frame.columns, pd.MultiIndex):
        raise DataError(
            "a frame has one line of column names, got several levels; join them with "
            'df.columns = ["_".join(names) for names in df.columns].'
        )
    frame.columns = _plain_names([str(c).strip() for c in frame.columns])
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise DataError(
            f"column names must differ, {shown(repeated[0])} appears twice; rename one."
        )
    return with_flat_cells(frame)


def _read_file(path: Path) -> pd.DataFrame:
    require_file(path)
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; a table needs a header and at least one row.")
    readers: dict[str, Callable[[Any], pd.DataFrame]] = {
        **dict.fromkeys((".csv", ".tsv", ".txt"), _read_csv),
        **dict.fromkeys((".parquet", ".pq"), _read_parquet),
        **dict.fromkeys(JSON_LINES, _read_jsonl),
        ".json": _read_json,
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
    except MemoryError as error:
        raise DataError(f"{name} is too large for the memory here; split it.") from error
    except (ValueError, OSError, KeyError, RecursionError) as error:
        raise DataError(f"{name} is not a readable table: {_fault(error)}") from error


def _fault(error: Exception) -> str:
    """What is wrong with a table and what to do, where pandas says so in words of its own."""
    if isinstance(error, UnicodeError):
        return "it is not text in UTF-8; save it as CSV in UTF-8."
    if isinstance(error, pd.errors.EmptyDataError):
        return "all of its lines are empty; write a header and a row for every run."
    if match := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error)):
        expected, line, saw = match.groups()
        return (
            f"a row has {expected} cells as the header has, line {line} has {saw}; quote cells "
            "that hold the separator."
        )
    if "EOF inside string" in str(error):
        return 'a quotation mark (") is opened and never closed; close it.'
    return first_line(error)


def _read_csv(source: Path | TextIO, name: str = "") -> pd.DataFrame:
    name = name or str(source)
    usual = "\t" if str(source).lower().endswith(".tsv") else ","
    if isinstance(source, Path):
        opened: TextIO = source.open(encoding="utf-8-sig")
    else:
        opened = io.StringIO(source.read().removeprefix("\ufeff"))
    with opened as file:
        lines = [file.readline(LONGEST_LINE) for _ in range(MOST_TITLE + SNIFFED)]
        if lines[0].lstrip().startswith("|"):
            raise DataError(
                f"{name} is a Markdown table; write it as CSV, commas between cells and "
                "no line of dashes."
            )
        separator = _separator(lines, usual)
        n_title = _n_title(lines, separator)
        file.seek(0)
        # without a header pandas neither renames repeated columns nor shifts those of longer rows
        cells = pd.read_csv(
            file,
            sep=separator,
            header=None,
            dtype=TEXT,
            keep_default_na=False,
            skipinitialspace=True,
            skiprows=n_title,
            quoting=csv.QUOTE_NONE if _are_quotes_text(file, separator) else csv.QUOTE_MINIMAL,
        )
    for column in cells:  # an apostrophe stands before formulas
        if cells[column].str.startswith("'").any():
            cells[column] = cells[column].map(unguarded).astype(TEXT)
    frame = cells[1:].reset_index(drop=True)
    header = [str(cell) for cell in cells.iloc[0]]
    if len(frame):
        check_headers(header, [str(cell) for cell in frame.iloc[0]], name)
    frame.columns = header
    if "" in header:
        frame = frame.loc[:, frame.columns != ""]
    frame.attrs[TITLE] = [line.strip(f" \n{separator}") for line in lines[:n_title]]
    return _with_points(frame) if separator != "," and len(frame) else frame


def _are_quotes_text(file: TextIO, separator: str) -> bool:
    """Whether quotation marks are signs like others: tabs alone split every line alike.

    Programs that write tabs between cells quote none of them.
    """
    if separator != "\t":
        return False
    text = file.read()
    file.seek(0)
    lines = [line for line in text.split("\n") if line.strip()] if '"' in text else []
    has_open = any(line.count('"') % 2 for line in lines)
    return has_open and len({line.count(separator) for line in lines}) == 1


def _plain_names(names: list[str]) -> list[str]:
    """`lr.value` as `lr`: W&B's files of settings have a value and a description of each."""
    short = [name.removesuffix(".value") for name in names]
    counts = Counter(short)
    return [new if counts[new] == 1 else old for old, new in zip(names, short, strict=True)]


def _separator(lines: Sequence[str], default: str) -> str:
    """What separates cells: the sign that splits the first lines into the same number of them."""
    lines = [*filter(str.strip, lines)]
    for start in range(len(lines)):  # lines of a title come first
        n_cells_by = {}
        for sign in SEPARATORS:
            with suppress(csv.Error):  # one cell is huge
                rows = csv.reader(lines[start : start + SNIFFED], delimiter=sign)
                n_cells = {len(row) for row in rows}
                if len(n_cells) == 1 and max(n_cells) > 1:
                    n_cells_by[sign] = max(n_cells)
        if n_cells_by:
            return max(n_cells_by, key=lambda sign: n_cells_by[sign])
    return default


def _n_title(lines: Sequence[str], separator: str) -> int:
    """How many lines stand above the header: they have fewer cells, or are comments.

    A header is text without a number, above a line that has one.
    """
    rows = list[list[str]]()
    for line in lines:
        with suppress(csv.Error):
            cells = next(csv.reader([line], delimiter=separator), [])
            rows.append([cell for cell in map(str.strip, cells) if cell])
    n_cells = [0 if row[:1] and row[0].startswith("#") else len(row) for row in rows]
    are_text = [bool(np.isnan(numbers_of(row)).all()) for row in rows]
    for i, row in enumerate(rows[1 : MOST_TITLE + 1], start=1):
        is_header = len(row) > 1 and are_text[i] and not all(are_text[i + 1 : i + 2])
        if is_header and n_cells[i] > max(n_cells[:i]):
            return i
    return 0


def _with_points(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose numbers have decimal commas, with points; one that has points is left alone.

    `1,024` may be a thousand: commas count as decimal if a number of the table has another form.
    """
    is_comma = table.apply(lambda cells: cells.str.fullmatch(COMMA_NUMBER))
    is_sure = is_comma & ~table.apply(lambda cells: cells.str.fullmatch(THOUSANDS))
    has_point = table.apply(lambda cells: cells.str.fullmatch(POINT_NUMBER))
    if has_point.any(axis=None) or not is_sure.any(axis=None):
        return table
    with_points = table.apply(lambda cells: cells.str.replace(",", ".", regex=False))
    return table.mask(is_comma.astype(bool), with_points)


def _read_parquet(path: Path) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        table = pa.Table.from_batches(file.iter_batches(), schema=file.schema_arrow)
    return without_index(table.to_pandas(types_mapper=pd.ArrowDtype))


def _read_json(path: Path) -> pd.DataFrame:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if isinstance(content, dict) and len(content) == 1:  # {"runs": […]}
        content = next(iter(content.values()))
    if isinstance(content, list) and content and all(isinstance(row, dict) for row in content):
        return frame_of_rows(content)
    if (
        isinstance(content, dict)
        and content
        and all(isinstance(c, list) for c in content.values())
    ):
        return pd.DataFrame(content, dtype=object)
    raise DataError(
        f"a table in JSON is a list of objects, one per run, or an object of columns, got "
        f"{type(content).__name__} in {path}; write it so."
    )


def _read_jsonl(path: Path) -> pd.DataFrame:
    return frame_of_rows(json_rows(path.read_text(encoding="utf-8-sig"), str(path)))


def json_rows(text: str, where: str) -> list[dict[str, Any]]:
    """Objects of JSON, one per line.

    Raises:
        DataError: A line holds something else.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            row = json.loads(line) if line.strip() else None
            if "\\ud" in line.lower():  # half a character, whose other half may be beside it
                json.dumps(row, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} line {number} is not JSON: {first_line(error)}.") from error
        if not isinstance(row, dict | None):
            raise DataError(
                f"{where} line {number} must be a JSON object, got {type(row).__name__}."
            )
        rows += [] if row is None else [row]
    return rows


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
                f"an array has no column {label!r}, got {path.name}; write the features and the "
                "column to a CSV or Parquet file."
            )
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
