"""Counts in other units than one: known by their size, by C = 6 N D, by steps × batch × length.

A law fitted to parameters in millions is right in those units and wrong at the size it is asked
for. Where a size is concerned and a power of a thousand mends it, the runs are refused with the
formula; any other disagreement is a note.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from extrap.errors import Choice, DataError
from extrap.reading.cells import numbers_of, read_numbers
from extrap.reading.names import (
    COMPUTE_NAMES,
    COUNT_NAMES,
    EXAMPLE_BATCH_NAMES,
    LENGTH_NAMES,
    STEP_NAMES,
    TOKEN_BATCH_NAMES,
    TOKEN_NAMES,
    header_unit,
    kinds_of,
)

TOTAL_FLOPS_NAMES, TOTAL_DATA_NAMES = COMPUTE_NAMES[:2], TOKEN_NAMES[:2]
"""Names that say of what a run had in all; `budget` may be money, `train_tokens` a part."""
LEAST_LARGEST_COUNT = {**dict.fromkeys(COUNT_NAMES, 1e3), **dict.fromkeys(TOTAL_DATA_NAMES, 1e5)}
"""Column → what its largest count is at least, if it is one."""
COMPUTE_TOLERANCE, TOKENS_TOLERANCE = 2.0, 1.1
"""Factors by which the sides of an equality may differ unsaid."""
RATIO_TOLERANCE = 3.0
"""Factor within which a ratio is a power of a thousand, in most rows."""
MOST_COUNTED = 1e6
"""Largest number in units of a header; larger ones are counts already."""
UNIT_OF_POWER = {3: "thousands", 6: "millions", 9: "billions", 12: "trillions"}
"""Power of ten → what a unit of so many is called."""


def without_units(table: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str], list[str]]:
    """Counts whose header has a unit as counts of one, under the header without it.

    Returns:
        The table, old → new names, and a note on each.

    Raises:
        DataError: The numbers are too large for the unit of their header.
    """
    renamed, notes = dict[str, str](), list[str]()
    for column in map(str, table.columns):
        name, multiple = header_unit(column) or (column, 1.0)
        if multiple == 1.0 or name in table:
            continue
        numbers = read_numbers(table[column], column)
        if numbers.max() > MOST_COUNTED:
            raise DataError(
                f"{column} is in units of {multiple:.0e} by its header, and holds "
                f"{numbers.max():g}; say whether these are counts of one:",
                [Choice({"rename": f"{column}={name}"}, "counts of one")],
            )
        table = table.assign(**{column: numbers * multiple}).rename(columns={column: name})
        renamed[column] = name
        notes.append(f"{name} is {column} times {multiple:g}")
    return table, renamed, notes


def with_tokens(
    table: pd.DataFrame, split: tuple[str | None, str | None] | None
) -> tuple[pd.DataFrame, list[str]]:
    """A table with tokens, where they follow from tokens per parameter, and a note.

    Where the sizes are parameters and tokens, a split, also from compute by C = 6 N D, and so the
    parameters from compute and tokens.
    """
    first = {kind: column for column, kind in reversed(kinds_of(map(str, table)).items())}
    named = split or (None, None)
    params, tokens = named[0] or first.get("params"), named[1] or first.get("tokens")
    ratio, compute = first.get("ratio"), first.get("compute")

    def numbers(column: str | None) -> pd.Series:
        return read_numbers(table[column], str(column))

    if params in table and ratio and not tokens:
        name, derived, formula = "tokens", numbers(params) * numbers(ratio), f"{params} × {ratio}"
    elif split and compute and (params in table) != (tokens in table):
        name, counted = ("tokens", params) if params in table else ("params", tokens)
        derived = numbers(compute) / (6 * numbers(counted))
        formula = f"{compute} / (6 × {counted})"
    elif ratio and compute and not (params or tokens):
        sizes = np.sqrt(numbers(compute) / (6 * numbers(ratio)))
        table = table.assign(params=sizes, tokens=sizes * numbers(ratio))
        return table, [f"params = sqrt({compute} / (6 × {ratio})), tokens = params × {ratio}"]
    else:
        return table, []
    return table.assign(**{name: derived}), [f"{name} = {formula}"]


def check_units(frame: pd.DataFrame, sizes: Sequence[str] = ()) -> tuple[str, ...]:
    """Compare columns that determine each other.

    Columns are known by their names, in lower or upper case; any may be missing, and cells that
    are not positive numbers are passed over.

    Returns:
        One sentence for each equality that does not hold.

    Raises:
        DataError: A size is no count, or a power of a thousand lies between the sides of an
            equality it stands in; with the formulas that mend it.

    References:
        Kaplan et al. 2020, "Scaling laws for neural language models", arXiv 2001.08361, Sec. 2.1:
        C ≈ 6 N D, parameters without embeddings.
    """
    names = {str(column).strip().lower(): str(column) for column in reversed(frame.columns)}
    logs = {name: _log_of_positive(frame[names[name]]) for name in COMPARED_NAMES if name in names}
    table = pd.DataFrame(logs).dropna(axis="columns", how="all")
    for name in (name for name in LEAST_LARGEST_COUNT if name in table and names[name] in sizes):
        least, most = math.exp(table[name].min()), math.exp(table[name].max())
        if most < LEAST_LARGEST_COUNT[name]:
            raise DataError(
                f"{names[name]} {least:g} to {most:g} are no counts of "
                f"{'tokens' if name in TOKEN_NAMES else 'parameters'}; say their unit:",
                [_mended(names[name], power) for power in (6, 9)],
            )
    notes = []
    for left, factor, right, tolerance in _equalities(table):
        sums = [table[list(side)].sum(axis="columns", skipna=False) for side in (left, right)]
        ratios = (sums[0] - math.log(factor) - sums[1]).dropna()
        middle = float(ratios.median()) if len(ratios) else 0.0
        if abs(middle) <= math.log(tolerance):
            continue
        power = 3 * round(middle / math.log(1000))
        is_power = (ratios - power * math.log(10)).abs().le(math.log(RATIO_TOLERANCE)).mean() > 0.5
        used = {names[name] for name in (*left, *right)}
        sides = [" × ".join(side) for side in (left, right)]
        message = (
            f"{sides[0]} should be {f'{factor:g} × ' if factor > 1 else ''}{sides[1]}, it is "
            f"{math.exp(middle):.3g} times that (median of {len(ratios)} runs)"
        )
        if power and is_power and used & set(sizes):
            signs = {**dict.fromkeys(left, -power), **dict.fromkeys(right, power)}
            choices = [_mended(names[name], by) for name, by in signs.items()]
            raise DataError(f"{message}; say which has another unit:", choices)
        notes.append(f"{message}; nothing was rescaled")
    return tuple(notes)


COMPARED_NAMES = (
    *TOTAL_FLOPS_NAMES,
    *COUNT_NAMES,
    *TOTAL_DATA_NAMES,
    *STEP_NAMES[:2],
    *TOKEN_BATCH_NAMES,
    *EXAMPLE_BATCH_NAMES,
    *LENGTH_NAMES,
)
"""Columns that are compared, by their names."""


def _mended(column: str, power: int) -> Choice:
    unit = UNIT_OF_POWER.get(power)
    return Choice({"let": f"{column} = {column} * 1e{power}"}, f"in {unit}" if unit else "")


def _equalities(
    logs: pd.DataFrame,
) -> Iterator[tuple[tuple[str, ...], float, tuple[str, ...], float]]:
    """Left side, factor and right side whose columns are there, and how far they may be apart.

    One count of the parameters that fits excuses the others.
    """

    def first(group: Sequence[str]) -> str | None:
        return next((name for name in group if name in logs), None)

    flops, tokens, steps = first(TOTAL_FLOPS_NAMES), first(TOTAL_DATA_NAMES), first(STEP_NAMES[:2])
    if flops and tokens:
        counts = [name for name in COUNT_NAMES if name in logs]
        off = {n: np.nanmedian(logs[flops] - math.log(6) - logs[n] - logs[tokens]) for n in counts}
        best = min(off, key=lambda n: abs(off[n]), default=None)
        if best:
            yield (flops,), 6.0, (best, tokens), COMPUTE_TOLERANCE
    if steps and tokens:
        if batch := first(TOKEN_BATCH_NAMES):
            yield (steps, batch), 1.0, (tokens,), TOKENS_TOLERANCE
        elif (batch := first(EXAMPLE_BATCH_NAMES)) and (length := first(LENGTH_NAMES)):
            yield (steps, batch, length), 1.0, (tokens,), TOKENS_TOLERANCE


def _log_of_positive(cells: pd.Series) -> pd.Series:
    is_float = pd.api.types.is_float_dtype(cells.dtype)
    values = cells.to_numpy(dtype=float, na_value=np.nan) if is_float else numbers_of(cells)
    numbers = pd.Series(values, index=cells.index)
    return np.log(numbers.where(np.isfinite(numbers) & (numbers > 0)))
