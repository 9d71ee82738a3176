"""What is asked of a table: columns by formula, and the rows that are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from extrap.errors import DataError, argument, shown
from extrap.expressions import parse_definition
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import require_column
from extrap.reading.names import (
    DECAY_NAMES,
    RATE_NAMES,
    STEP_COUNT_NAMES,
    TOKEN_BATCH_NAMES,
    TOKEN_NAMES,
    known_name,
)
from extrap.reading.request import Where
from extrap.records import condition_text
from extrap.records.numbers import counted

MOST_VALUES_LISTED = 8
"""Values of a column that an error lists."""


TAU = "tau"
"""Name, alone in the place of a formula, of AdamW's timescale as a share of the run."""


def formula_text(text: str, have: Sequence[str], where: str) -> str:
    """A formula as it is, that of a timescale in the place of `tau`.

    `tau = batch / (lr * weight_decay * tokens)`, the batch in tokens; or of steps,
    `tau = 1 / (lr * weight_decay * steps)`. It has no unit: 1 is the whole run.

    Raises:
        DataError: A column that it needs is missing.

    References:
        Wang, Aitchison (2024), arXiv 2405.13698, Eq. 4; Bergsma et al. (2025), arXiv 2505.13738.

    Example:
        >>> formula_text("tau", ["lr", "wd", "steps", "loss"], "runs.csv")
        'tau = 1 / (lr * wd * steps)'
    """
    return _timescale(have, where) if text.strip() == TAU else text


def _timescale(have: Sequence[str], where: str) -> str:
    """The formula of `tau` in the columns of a table."""

    def named(names: Sequence[str]) -> str | None:
        columns = (c for name in names for c in have if known_name(c) == name)
        return next((c if c.isidentifier() else f"`{c}`" for c in columns), None)

    rate, decay = named(RATE_NAMES), named(DECAY_NAMES)
    batch, steps = named(TOKEN_BATCH_NAMES), named(STEP_COUNT_NAMES)
    tokens = named([name for name in TOKEN_NAMES if "token" in name])
    above, length = (batch, tokens) if batch and tokens else ("1", steps)
    missing = [
        name
        for name, column in (
            ("lr", rate),
            ("weight_decay", decay),
            ("steps (or batch_size_tokens and tokens)", length),
        )
        if column is None
    ]
    if missing:
        raise DataError(
            f"the timescale tau is batch / (lr * weight_decay * tokens), and {where} has no "
            f"{' and no '.join(missing)}; rename the columns so ({argument('rename', ...)}), or "
            "write the formula."
        )
    return f"{TAU} = {above} / ({rate} * {decay} * {length})"


def with_definitions(table: pd.DataFrame, texts: Iterable[str], where: str) -> pd.DataFrame:
    """A table with further columns by formula, in this order; a later one may use an earlier.

    A column may be defined anew by itself, `params = params * 1e6`. A row that lacks a number has
    none in the new column either. Where the formula has no value (a division by zero, the root of
    a negative number) the new one is not finite.

    Raises:
        ValueError: A definition cannot be read.
        DataError: It replaces a column by another one, or speaks of one that is missing or holds
            no numbers.
    """
    for text in texts:
        have = [str(c) for c in table.columns]
        name, formula = parse_definition(formula_text(text, have, where))
        if name in have and name not in formula.names:
            raise DataError(
                f"a definition makes a new column, {where} has {name!r} already; choose another "
                "name."
            )
        columns = {used: require_column(used, have, where) for used in formula.names}
        numbers = {used: read_numbers(table[c], c) for used, c in columns.items()}
        is_there = pd.Series(data=True, index=table.index)
        for column in columns.values():
            is_there &= ~is_empty(table[column])
        values = pd.Series(formula(numbers), index=table.index, dtype=float)
        table = table.assign(**{name: values.astype(object).where(is_there, None)})
    return table


def _listed(values: object) -> list[object]:
    return list(values) if isinstance(values, list | tuple | set | frozenset) else [values]


def is_one_value(values: object) -> bool:
    """Whether a column must have one value: its runs have it in common."""
    return len({condition_text(value) for value in _listed(values)}) == 1


def selected_rows(
    table: pd.DataFrame, conditions: Where, where: str
) -> tuple[pd.DataFrame, list[str]]:
    """The rows that have the values that are asked for, and a note on each column.

    Raises:
        DataError: A column is missing, or no row has such a value.
    """
    have, notes = [str(column) for column in table.columns], list[str]()
    for name, values in conditions.items():
        texts = table[require_column(name, have, where)].map(condition_text)
        allowed = sorted({condition_text(value) for value in _listed(values)})
        is_selected = texts.isin(allowed)
        if not is_selected.any():
            there = texts.value_counts()
            values = there.head(MOST_VALUES_LISTED).items()
            some = ", ".join(f"{shown(text)} ({counted(n, 'row')})" for text, n in values)
            raise DataError(
                f"no row of {where} has {name} = {' or '.join(allowed)}; it has "
                f"{some}{' and others' if len(there) > MOST_VALUES_LISTED else ''}."
            )
        table = table[is_selected]
        notes.append(f"only rows with {name} = {' or '.join(allowed)}")
    return table, notes
