"""Tables in memory: pandas, polars and pyarrow, lists of dictionaries."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from extrap.errors import DataError
from extrap.reading.bounds import (
    check_cells,
    shown,
)

MOST_SETTINGS = 20_000
"""Of a run; aliases of aliases in a file of a few lines can stand for billions."""
MOST_NESTED = 8
MOST_TEXT = 100_000
"""Characters of a cell that may hold a dictionary as text."""
DICTIONARIES = ("config", "summary")
"""Columns of a table of text whose cells may be dictionaries, as W&B's own example writes them."""


def is_table(source: Any) -> bool:
    """Whether something in memory is a table of any kind this room knows."""
    if isinstance(source, pd.DataFrame) or hasattr(source, "__arrow_c_stream__"):
        return type(source).__name__ != "Series"  # a single column, of pandas or polars
    is_rows = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    return is_rows and all(isinstance(row, Mapping) for row in source)


def as_frame(source: Any) -> pd.DataFrame:
    """A copy of a table in memory.

    Whatever speaks Arrow's interface for C (polars, pyarrow, DuckDB) keeps apart what is missing
    and what is no number; pandas does not, so a NaN of its is missing.

    Raises:
        DataError: It is too large, or dictionaries are nested too deep.
    """
    if isinstance(source, pd.DataFrame):
        frame = source.reset_index(drop=True).copy()
        for i in frame.isna().any().to_numpy().nonzero()[0]:
            cells = frame.iloc[:, i].astype(object)
            frame.isetitem(i, cells.where(cells.notna(), None))
        return frame
    if hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(source)
        check_cells(table.num_rows * table.num_columns, "the frame")
        return _without_views(table).to_pandas(types_mapper=pd.ArrowDtype)
    return _of_rows([flat(row) for row in source])


def frame_of_rows(rows: Sequence[Mapping[str, Any]], where: str) -> pd.DataFrame:
    """Rows as a table in which what a row lacks is None: empty, and no NaN that was measured.

    Raises:
        DataError: It is too large.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    check_cells(len(rows) * len(names), where)
    whole = [{name: row.get(name) for name in names} for row in rows]
    return pd.DataFrame(whole, dtype=object)


def _of_rows(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return frame_of_rows(rows, "the list of runs")


def _without_views(table: Any) -> Any:
    """An arrow table without views of text, as polars has them, which pandas cannot take from."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    if not any(field.type in plain for field in table.schema):
        return table
    fields = [field.with_type(plain.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def flat(nested: Mapping[Any, Any], *, above: str = "", depth: int = 0) -> dict[str, Any]:
    """A dictionary of dictionaries as one whose keys have dots.

    Raises:
        DataError: It is nested deeper than eight times, or holds too much.
    """
    if depth > MOST_NESTED:
        raise DataError(
            f"settings are nested at most {MOST_NESTED} times, got more below {shown(above)}; "
            "leave out what is not needed."
        )
    found: dict[str, Any] = {}
    for key, value in nested.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value.keys() == {"value", "desc"}:  # W&B's settings
            found[name] = value["value"]
        elif isinstance(value, Mapping):
            found.update(flat(value, above=f"{name}.", depth=depth + 1))
        else:
            found[name] = value
        if len(found) > MOST_SETTINGS:
            raise DataError(
                f"a run has at most {MOST_SETTINGS:,} settings, got more; leave out what is not "
                "needed."
            )
    return found


def with_flat_cells(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns of dictionaries are columns with dots.

    Text is looked into only in columns named `config`, `summary` and the like.
    """
    for column in [c for c in table.columns if _may_nest(table, c)]:
        cells = [_dictionary(cell) for cell in table[column]]
        if any(cell is None for cell in cells) or not any(cells):
            continue
        inner = _of_rows([flat(cell or {}, above=f"{column}.") for cell in cells])
        inner.index = table.index
        rest = table.drop(columns=column)
        table = pd.concat([rest, inner[[c for c in inner if c not in rest]]], axis="columns")
    return table


def _may_nest(table: pd.DataFrame, column: Any) -> bool:
    cells = table[column]
    if not (cells.dtype == object or isinstance(cells.dtype, pd.StringDtype | pd.ArrowDtype)):
        return False
    first = next((cell for cell in cells if isinstance(cell, Mapping | str) and len(cell)), None)
    if isinstance(first, str):
        return column in DICTIONARIES and first.lstrip().startswith("{")
    return first is not None


def _dictionary(cell: Any) -> Mapping[Any, Any] | None:
    """A cell's dictionary, an empty one where nothing is there; None if it is something else."""
    if isinstance(cell, Mapping):
        return cell
    if cell is None or cell is pd.NA or (isinstance(cell, float) and cell != cell):
        return {}
    if not isinstance(cell, str) or len(cell) > MOST_TEXT:
        return None
    if not cell.strip():
        return {}
    for parse in (json.loads, ast.literal_eval):  # which reads literals, and runs nothing
        try:
            read = parse(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
        return read if isinstance(read, dict) else None
    return None
