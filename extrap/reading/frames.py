"""Tables in memory: pandas, polars and pyarrow, lists of dictionaries."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd

from extrap.errors import DataError

DICTIONARIES = ("config", "summary")
"""Columns of a table of text whose cells may be dictionaries, as W&B's own example writes them."""


def is_table(source: Any) -> bool:
    """Whether something in memory is a table: a frame, or a list of dictionaries."""
    if isinstance(source, pd.DataFrame) or hasattr(source, "__arrow_c_stream__"):
        return type(source).__name__ != "Series"  # a single column, of pandas or polars
    is_rows = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    return is_rows and all(isinstance(row, Mapping) for row in source)


def as_frame(source: Any) -> pd.DataFrame:
    """A copy of a table in memory.

    Whatever speaks Arrow's interface for C (polars, pyarrow, DuckDB) keeps apart what is missing
    and what is no number; pandas does not, so a NaN of its is missing.

    Raises:
        DataError: A level of its index has no name.
    """
    if isinstance(source, pd.DataFrame):
        frame = without_index(source).copy()
        for i in frame.isna().any().to_numpy().nonzero()[0]:
            cells = frame.iloc[:, i].astype(object)
            frame.isetitem(i, cells.where(cells.notna(), None))
        return _without_tensors(frame)
    if hasattr(source, "__arrow_c_stream__"):
        import pyarrow as pa

        table = pa.table(source)
        return _without_views(table).to_pandas(types_mapper=pd.ArrowDtype)
    return frame_of_rows([flat(row) for row in source])


def without_index(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with the levels of its index as columns, those that have a name of their own."""
    if isinstance(frame.index, pd.MultiIndex) and None in frame.index.names:
        raise DataError(
            "the levels of an index become columns by their names, a level has none; name them "
            'with df.index.names = ["width", "lr"].'
        )
    levels = [n for n in frame.index.names if n is not None and n not in frame.columns]
    return (frame.reset_index(level=levels) if levels else frame).reset_index(drop=True)


def frame_of_rows(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table in which what a row lacks is None: empty, and no NaN that was measured."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    whole = [{name: row.get(name) for name in names} for row in rows]
    return _without_tensors(pd.DataFrame(whole, dtype=object))


def _without_tensors(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame in which arrays and tensors of one number are numbers."""
    for i in frame.dtypes.eq("object").to_numpy().nonzero()[0]:
        cells = frame.iloc[:, i]
        if any(hasattr(kind, "item") and hasattr(kind, "ndim") for kind in set(map(type, cells))):
            numbers = [c.item() if math.prod(getattr(c, "shape", (0,))) == 1 else c for c in cells]
            frame.isetitem(i, pd.Series(numbers, index=frame.index, dtype=object))
    return frame


def _without_views(table: Any) -> Any:
    """An arrow table without views of text, as polars has them, which pandas cannot take from."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    if not any(field.type in plain for field in table.schema):
        return table
    fields = [field.with_type(plain.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def flat(nested: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """A dictionary of dictionaries as one whose keys have dots."""
    flattened: dict[str, Any] = {}
    for key, value in nested.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping) and value.keys() == {"value", "desc"}:  # W&B's settings
            flattened[name] = value["value"]
        elif isinstance(value, Mapping):
            flattened.update(flat(value, f"{name}."))
        else:
            flattened[name] = value
    return flattened


def single_values(nested: Mapping[Any, Any]) -> dict[str, Any]:
    """As `flat`, without lists and objects."""
    single = (bool, int, float, str, type(None))
    return {name: value for name, value in flat(nested).items() if isinstance(value, single)}


def with_flat_cells(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose columns of dictionaries are columns with dots.

    Text is looked into only in columns named `config`, `summary` and the like.
    """
    kinds = table.dtypes.items()
    for column in [name for name, kind in kinds if kind == "object" or name in DICTIONARIES]:
        cells = table[column].map(_parsed) if column in DICTIONARIES else table[column]
        first = cells.first_valid_index()
        if first is None or not isinstance(cells[first], Mapping):
            continue
        if all(isinstance(cell, Mapping) for cell in cells.dropna()):
            rows = [flat(c, f"{column}.") if isinstance(c, Mapping) else {} for c in cells]
            inner = frame_of_rows(rows).set_axis(table.index)
            others = table.drop(columns=column)
            table = pd.concat(
                [others, inner[[c for c in inner if c not in others]]], axis="columns"
            )
    return table


def _parsed(cell: Any) -> Any:
    """What a text says as JSON or as a literal of Python; None where it is neither."""
    for parse in (json.loads, ast.literal_eval):  # which reads literals, and runs nothing
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            return parse(cell)
    return cell if isinstance(cell, Mapping) else None
