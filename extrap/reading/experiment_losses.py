"""The losses of a log: which column they are in, which experiments failed, and their unit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pandas as pd

from extrap.errors import Choice, DataError, argument
from extrap.reading.cells import numbers_of, read_numbers
from extrap.reading.contents import Contents
from extrap.reading.decisions import NEITHER
from extrap.reading.endings import read_losses
from extrap.reading.losses import loss_of_metric
from extrap.reading.names import loss_rank
from extrap.reading.roles import ambiguous_part, missing_loss
from extrap.records.numbers import counted

GAP_OF_UNITS = 0.2
"""Log ratio of neighboring losses from which on they may be in two units."""
UNIT_MATCH = 0.04
"""Log ratio within which the medians of two groups of losses differ as two units do."""
RATIOS_OF_UNITS = {"bits and nats": 1 / math.log(2), "a share and percent": 100.0}
"""Two units → how often the larger holds the smaller."""
LEAST_ROWS_OF_UNIT = 2
"""One run alone may have diverged."""
MOST_ROWS_LISTED = 6
"""Rows that a note lists."""


def metric_column(contents: Contents, loss: str) -> str:
    """The column of the metric.

    Raises:
        DataError: There is none, or several could be it.
    """
    if loss:
        return loss
    named = {c: rank for c in contents.have if (rank := loss_rank(c)) is not None}
    has_number = {c: np.isfinite(numbers_of(contents.table[c])) for c in named}
    ranks = {c: rank for c, rank in named.items() if has_number[c].any()}
    if not ranks:
        raise missing_loss(contents.have, contents)
    best = [c for c in ranks if ranks[c][0] == min(rank[0] for rank in ranks.values())]
    _check_two_metrics({c: has_number[c] for c in best}, contents.where)
    if len(best) > 1:
        raise ambiguous_part("loss", sorted(best, key=lambda c: ranks[c]), contents)
    return best[0]


def losses_of(
    table: pd.DataFrame, metric: str, decisions: pd.Series, where: str, *, is_maximised: bool
) -> tuple[pd.Series, list[str]]:
    """The loss of each experiment, NaN where it failed, and notes.

    Raises:
        DataError: A metric is negative or no number, or every experiment failed.
    """
    cells, notes = read_losses(table[metric], metric)
    numbers = read_numbers(cells, metric)
    numbers = numbers.where(np.isfinite(numbers) & ~decisions.isin(["crash", NEITHER]))
    if is_maximised:
        numbers = numbers.where(numbers != 0)
        ceiling, note = loss_of_metric(numbers, metric)
        numbers, notes = ceiling - numbers, [*notes, note]
    elif (numbers < 0).any():
        row = int(np.flatnonzero(numbers < 0)[0])
        raise DataError(
            f"a metric that is minimised is positive, got {metric} {numbers.iloc[row]:g} in row "
            f"{int(table.index[row]) + 1} of {where}; write it as a loss, or maximise it"
            + (":" if (numbers.dropna() < 0).all() else f" ({argument('maximise', ...)})."),
            [Choice({"maximise": metric})] if (numbers.dropna() < 0).all() else [],
        )
    is_zero = numbers.eq(0)
    numbers = numbers.where(~is_zero)
    if numbers.isna().all():
        raise DataError(
            f"a log needs an experiment with a loss, all {len(table)} of {where} failed; check "
            f"{argument('loss', metric)} and the words of the statuses."
        )
    is_crash, is_unfinished = decisions.eq("crash"), decisions.eq(NEITHER)
    is_lost = numbers.isna() & ~is_crash & ~is_zero & ~is_unfinished
    had_loss = is_crash & (pd.Series(numbers_of(cells), index=cells.index) > 0)
    for rows, said in (
        (is_crash & ~had_loss, "crashed: counted as failed"),
        (had_loss, f"called crash with a {metric}, which is not used"),
        (is_zero, f"with a {metric} of 0: counted as failed"),
        (is_lost, f"without a finite {metric}: counted as failed"),
        (is_unfinished, "not ended yet: not counted"),
    ):
        if rows.any():
            notes.append(f"{_listed(rows)} {said}")
    return numbers, notes


def _listed(rows: pd.Series) -> str:
    """How many rows, and which: `2 experiments (rows 3, 7)`."""
    numbers = [str(int(i) + 1) for i in rows.index[rows]]
    more = " …" if len(numbers) > MOST_ROWS_LISTED else ""
    label = "row" if len(numbers) == 1 else "rows"
    return (
        f"{counted(len(numbers), 'experiment')} ({label} "
        f"{', '.join(numbers[:MOST_ROWS_LISTED])}{more})"
    )


def _check_two_metrics(has_number: Mapping[str, np.ndarray], where: str) -> None:
    """Refuse two metrics of which each is filled in where the other is empty."""
    for one, other in combinations(has_number, 2):
        if not (has_number[one] & has_number[other]).any():
            rows = [int(np.flatnonzero(has_number[c])[0]) + 1 for c in (one, other)]
            raise DataError(
                f"a log has one metric in one unit, {where} has {one} (row {rows[0]}) and in "
                f"other rows {other} (row {rows[1]}); convert one and write both in one column, "
                "or read the rows of one:",
                [Choice({"loss": c}) for c in (one, other)],
            )


def check_units(losses: pd.Series, sizes: pd.DataFrame, metric: str, where: str) -> None:
    """Refuse losses of one size that fall in two groups as far apart as two units.

    Raises:
        DataError: They look like bits and nats, a share and percent, or a perplexity and its
            logarithm.
    """
    losses = losses.dropna()
    keys = [sizes.loc[losses.index, c] for c in sizes] or [pd.Series(0, index=losses.index)]
    for _, of_size in losses.groupby(keys):
        ordered = of_size.sort_values()
        group = np.log(ordered).diff().gt(GAP_OF_UNITS).cumsum()
        groups = [g for _, g in ordered.groupby(group) if len(g) >= LEAST_ROWS_OF_UNIT]
        for lower, upper in combinations(groups, 2):
            units = _two_units(float(lower.median()), float(upper.median()))
            if units:
                rows = [
                    ", ".join(str(int(i) + 1) for i in sorted(g.index)[:3]) for g in (lower, upper)
                ]
                raise DataError(
                    f"a log has one metric in one unit, {metric} of {where} is about "
                    f"{lower.median():.4g} in rows {rows[0]} and {upper.median():.4g} in rows "
                    f"{rows[1]}, as {units} differ; convert one of them, or leave it out."
                )


def _two_units(lower: float, upper: float) -> str:
    """The units that two losses are in, if they differ as such; else empty."""
    for units, ratio in RATIOS_OF_UNITS.items():
        if abs(math.log(upper / lower / ratio)) < UNIT_MATCH:
            return units
    is_log = upper > 1 and abs(math.log(math.log(upper) / lower)) < UNIT_MATCH
    return "a perplexity and its logarithm" if is_log else ""
