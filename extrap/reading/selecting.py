"""What is asked of a source: the request, columns by formula, and the rows that are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from extrap.errors import DataError, shown
from extrap.expressions import parse_definition
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import require_column
from extrap.records import condition_text
from extrap.records.numbers import counted

MOST_SHOWN = 8
Where = Mapping[str, object]
"""Column → the value its cells must have, or a sequence of such values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How runs are read: the arguments of `read_runs`, which says what they mean."""

    size: tuple[str, ...] = ()
    tune: tuple[str, ...] | None = None
    loss: str | None = None
    seed: str = "seed"
    conditions: tuple[str, ...] = ()
    study: str | None = None
    stage: str = "tune"
    curves: str | Path | pd.DataFrame | None = None
    final: str = "last"
    let: tuple[str, ...] = ()
    maximise: tuple[str, ...] = ()
    where: Where = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()
    partial: bool = False
    loss_kind: str | None = None
    losses: tuple[str, ...] = ()
    """Columns to take the loss from, the first there is, where none is given; known of a sweep."""
    split: tuple[str | None, str | None] | None = None
    """Columns of parameters and of tokens, None by their names, where these are the sizes."""
    like: str | None = None
    """Kind of the sweep's losses where the columns are to be those of a sweep that was read."""
    elsewhere: tuple[str, ...] = ()
    """Formulas, renamings `old=new` and columns of `where` and `ignore` that only tables which
    have the columns need."""

    def __post_init__(self) -> None:
        """Take one name for a tuple of one, and None for nothing, but of what is tuned."""
        object.__setattr__(self, "size", self.size or ())
        for name in ("where", "rename"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, {})
        for name in ("size", "tune", "conditions", "let", "maximise", "ignore"):
            given = getattr(self, name)
            if given is not None:
                names = (given,) if isinstance(given, str) else tuple(given)
                object.__setattr__(self, name, names)

    @property
    def is_sweep(self) -> bool:
        """Whether it is of a sweep, and not of larger runs to judge."""
        return self.stage == "tune"

    @property
    def asked_loss(self) -> str | None:
        """The loss that was asked for, if only as the one metric that is maximised."""
        return self.loss or (self.maximise[0] if len(self.maximise) == 1 else None)


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
        name, formula = parse_definition(text)
        have = [str(c) for c in table.columns]
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
    table: pd.DataFrame, wanted: Where, where: str
) -> tuple[pd.DataFrame, list[str]]:
    """The rows that have the values that are asked for, and a note on each column.

    Raises:
        DataError: A column is missing, or no row has such a value.
    """
    have, notes = [str(column) for column in table.columns], list[str]()
    for name, values in wanted.items():
        texts = table[require_column(name, have, where)].map(condition_text)
        asked = sorted({condition_text(value) for value in _listed(values)})
        kept = texts.isin(asked)
        if not kept.any():
            there = texts.value_counts()
            values = there.head(MOST_SHOWN).items()
            some = ", ".join(f"{shown(text)} ({counted(n, 'row')})" for text, n in values)
            raise DataError(
                f"no row of {where} has {name} = {' or '.join(asked)}; it has "
                f"{some}{' and others' if len(there) > MOST_SHOWN else ''}."
            )
        table = table[kept]
        notes.append(f"only rows with {name} = {' or '.join(asked)}")
    return table, notes
