"""Whether a sweep can carry a forecast: enough of it, varied widely and separately enough."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.laws.base import Array
from extrap.records import Runs, condition_text
from extrap.records.fields import LARGEST_LOSS, SMALLEST_LOSS

LEAST_SIZES_OF_LAW = 3
"""Fewer sizes than this carry no law and no residual."""
MIN_SPAN = 1.1
"""Largest / smallest size of a column: within less than this an exponent is only noise."""
MOST_SPAN = 1e30
"""Beyond it powers of sizes are no floats; no sweep comes near."""
SEPARABLE_CONDITION = 1e6
"""Condition number of (1, ln x) beyond which size columns move together."""
IN_TIE = 1e-3
"""Share of a column in the direction that does not vary, from which on it belongs to the tie."""


def check_sweep(sweep: Runs) -> None:
    """Refuse a sweep that cannot carry a forecast, and say what it lacks.

    Args:
        sweep: Rows of stage `tune`.

    Raises:
        DataError: No rows or no losses, losses beyond the number line, conditions that vary, too
            few sizes, a tuned column with too few values, tuned columns that move together.
    """
    frame = sweep.to_frame()
    if frame.empty:
        raise DataError(
            "the sweep has no runs of stage 'tune'; check the stage column or the file."
        )
    complete = frame[frame["status"] == "complete"]
    if complete.empty:
        counts = sweep.counts()
        raise DataError(
            f"a forecast needs runs with a loss, got none of {counts['runs']} "
            f"({counts['diverged']} diverged, {counts['failed']} failed, {counts['pruned']} "
            "pruned); lower the learning rates or check the loss column."
        )
    low, high = complete["loss"].min(), complete["loss"].max()
    is_tiny = complete["loss"].lt(SMALLEST_LOSS)
    if is_tiny.all() or high > LARGEST_LOSS:
        raise DataError(
            f"losses must lie between {SMALLEST_LOSS:g} and {LARGEST_LOSS:g}, got {low:g} to "
            f"{high:g}; use another unit."
        )
    if is_tiny.any():
        row = int(is_tiny.idxmax())
        raise DataError(
            f"losses must be at least {SMALLEST_LOSS:g}, got {low:g} for the run "
            f"{sweep.run_words(row)}; look at this run, and leave it out."
        )
    for condition in sweep.conditions:
        values = {condition_text(value) for value in frame[condition].unique()}
        if len(values) > 1:
            raise DataError(
                f"the condition {condition} must not vary within a sweep, got "
                f"{', '.join(sorted(values)[:4])}; keep one, or make it a tuned column."
            )
    n_sizes = len(frame.drop_duplicates(list(sweep.sizes)))
    if n_sizes < LEAST_SIZES_OF_LAW:
        raise DataError(
            f"a law over {', '.join(sweep.sizes)} needs at least {LEAST_SIZES_OF_LAW} distinct "
            f"sizes, got {n_sizes}; add smaller sizes, they are the cheapest."
        )
    for name in sweep.tuned:
        values = frame[name].dropna().unique()
        if len(values) < 3:
            raise DataError(
                f"the tuned column {name} needs at least 3 different values to have an optimum, "
                f"got {len(values)} ({', '.join(f'{v:g}' for v in values)}); sweep it, or leave "
                "it out of the tuned columns."
            )
    _check_tuned(complete, sweep.tuned)


def check_identifiable(
    x: Array,
    columns: Sequence[str],
    *,
    exponents: Sequence[str] | None = None,
    fixed: Collection[str] = (),
    example: tuple[str, float] = ("", 0.34),
) -> bool:
    """Refuse size columns that hardly vary, or that cannot tell free exponents apart.

    Args:
        x: Sizes, positive, shape (n_points, n_columns).
        columns: Their names.
        exponents: Per column the exponent that needs it to vary; None if there is nothing to pin.
        fixed: Pinned parameters. An exponent that several columns share does not help them.
        example: What stands before a pin's name, and a value for it, for the advice.

    Returns:
        Whether columns move together and only the pins keep them apart.

    Raises:
        DataError: A column spans less than a factor 1.1, or columns with free exponents move
            together.
    """
    _check_span(x, columns)
    names = list(exponents or columns)
    shared = {name for name in names if names.count(name) > 1}
    free = [i for i, name in enumerate(names) if name in shared or name not in fixed]
    if tied := _tied(x[:, free], [columns[i] for i in free]):
        tied_names = [names[columns.index(c)] for c in tied]
        pin = next((name for name in tied_names if exponents and name not in shared), None)
        advice = (
            "leave one out"
            if pin is None
            else "pin an exponent, e.g. " + argument("fix", {f"{example[0]}{pin}": example[1]})
        )
        raise DataError(
            f"the size columns {', '.join(tied)} vary together, so their exponents cannot be "
            f"separated; {advice}, or add runs that vary them separately."
        )
    return bool(_tied(x, columns))


def _check_tuned(complete: pd.DataFrame, tuned: Sequence[str]) -> None:
    """Refuse tuned columns that move together in every size: neither optimum is determined."""
    if len(tuned) < 2 or len(complete) <= len(tuned):
        return
    values = complete[list(tuned)].to_numpy(dtype=float)
    if np.any(np.ptp(np.log(values), axis=0) == 0):
        return
    if tied := _tied(values, tuned):
        raise DataError(
            f"the tuned columns {', '.join(tied)} vary together, so their optima cannot be "
            "separated; tune one and leave the others out, or add runs that vary them "
            "separately."
        )


def _check_span(x: Array, columns: Sequence[str]) -> None:
    for column, values in zip(columns, x.T, strict=True):
        low, high = values.min(), values.max()
        if low < high / MOST_SPAN:
            raise DataError(
                f"the sizes {column} must span at most a factor of {MOST_SPAN:g}, got {low:g} "
                f"to {high:g}; look for a row with a wrong size."
            )
        if high < MIN_SPAN * low:
            raise DataError(
                f"the sizes {column} must span at least a factor of {MIN_SPAN:g}, got {low:g} "
                f"to {high:g}; add sizes, or leave the column out."
            )


def _tied(x: Array, columns: Sequence[str]) -> list[str]:
    """Names of columns whose logarithms are linearly dependent; empty if there are none."""
    if x.shape[1] < 2:
        return []
    log_x = np.log(x) - np.log(x).mean(axis=0)
    design = np.column_stack([np.ones(len(x)), log_x / np.linalg.norm(log_x, axis=0)])
    if np.linalg.cond(design) <= SEPARABLE_CONDITION:
        return []
    direction = np.abs(np.linalg.svd(design)[2][-1, 1:])
    return [c for c, share in zip(columns, direction, strict=True) if share > IN_TIE]
