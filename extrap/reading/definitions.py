"""Columns by formula: `lr_mult = lr * width / 256`, over those a table has."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from extrap.expressions import parse_definition
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import find_column, missing_column, taken_column


def with_definitions(table: pd.DataFrame, texts: Iterable[str], where: str) -> pd.DataFrame:
    """A table with further columns, in the order they are defined; a later one may use an earlier.

    A column may be defined anew by itself, `params = params * 1e6`. A row that lacks a number has
    none in the new column either. Where the formula has no value (a division by zero, the root of
    a negative number) the new one is not finite.

    Args:
        table: The table.
        texts: Definitions `name = formula`; a name may stand behind a tracker's prefix.
        where: What to call the table.

    Raises:
        ValueError: A definition cannot be read.
        DataError: It replaces a column by another one, or speaks of one that is missing or holds
            no numbers.
    """
    for text in texts:
        name, formula = parse_definition(text)
        have = [str(c) for c in table.columns]
        if name in have and name not in formula.names:
            raise taken_column(name, where)
        numbers, is_there = {}, pd.Series(data=True, index=table.index)
        for used in formula.names:
            column = find_column(used, have, where)
            if column is None:
                raise missing_column(used, have, where)
            numbers[used] = read_numbers(table[column], column)
            is_there &= ~is_empty(table[column])
        values = pd.Series(formula(numbers), index=table.index, dtype=float)
        table = table.assign(**{name: values.astype(object).where(is_there, None)})
    return table
