"""Runs over parameters and tokens: parameters, tokens, loss; one row per run that finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from extrap.analyses.allocation.budget_splits import SIX_N_D, ComputeRule
from extrap.errors import DataError, argument
from extrap.laws.base import Array
from extrap.reading.cells import read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.names import header_unit
from extrap.reading.reader import announced_runs
from extrap.reading.units import check_units
from extrap.records import Runs
from extrap.records.notes import COPIES_LEFT_OUT, of_codes

SPLIT_SIZES = ("params", "tokens")
"""What compute is split between."""
COMPUTE_COLUMN = "flops"
"""The column of compute that is taken where none is named and the table has it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """Runs with a final loss.

    Attributes:
        params: N, shape (n,).
        tokens: D, shape (n,).
        loss: Shape (n,).
        counted_flops: C as the table counts it, shape (n,); None where it has no such column.
        runs: The runs, with those that have no loss.
        notes: What was left out or taken together.
    """

    params: Array
    tokens: Array
    loss: Array
    counted_flops: Array | None = None
    runs: Runs | None = None
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> Array:
        """Training compute C as counted, else 6 N D, shape (n,)."""
        if self.counted_flops is None:
            return np.asarray(SIX_N_D.flops(self.params, self.tokens))
        return self.counted_flops

    @property
    def rule(self) -> ComputeRule:
        """How C follows from N and D."""
        if self.counted_flops is None:
            return SIX_N_D
        rule = ComputeRule.of(self.params, self.tokens, self.counted_flops)
        if rule.p <= 0:
            raise DataError(
                "compute must grow with the parameters, it grows as their power "
                f"{rule.p:.2f} at equal tokens; name the column of training FLOPs."
            )
        return rule


def read_points(
    source: Any,
    *,
    params: str | None = None,
    tokens: str | None = None,
    loss: str | None = None,
    compute: str | None = None,
    rows: Mapping[str, Any] = MappingProxyType({}),
) -> Points:
    """Runs of a table that have a loss; rows alike in every column are one run.

    Args:
        source: As for `allocate`.
        params: Column of N; by its name if left out.
        tokens: Column of D; by its name if left out.
        loss: Column of the loss; by default `loss`, else by its name.
        compute: Column of C; by default `flops` where there is one, else C is 6 N D.
        rows: Which rows are read and how.

    Raises:
        DataError: The source cannot be read, lacks a column, or holds values that are not
            positive.
        ValueError: A column was given two parts to play.
    """
    named = [name for name in (params, tokens, loss, compute) if name is not None]
    if len(set(named)) < len(named):
        raise ValueError(
            "params, tokens, loss and compute must be different columns, got "
            f"{', '.join(named)}; name another column."
        )
    columns = {**rows, "loss": loss}
    runs, announcement = announced_runs(source, columns, tune=(), split=(params, tokens))
    if len(runs.sizes) != len(SPLIT_SIZES):
        raise DataError(
            f"an allocation takes parameters and tokens, {runs.source or 'the table'} has the "
            f"size {' and '.join(runs.sizes)}; name both with {argument('params', ...)} and "
            f"{argument('tokens', ...)}."
        )
    params, tokens = runs.sizes
    named = [header[0] if (header := header_unit(name)) else name for name in named]
    complete = runs.complete()
    finished = complete.with_seedless_once().to_frame()
    have = list(map(str, finished.columns))
    for name in named:
        if name not in have and name != loss:
            option = "compute" if name == compute else None
            raise missing_column(name, have, runs.source or "the table", option=option)
    if finished.empty:
        raise DataError(f"no run has a loss; fill in the column {loss or 'loss'}.")
    n_without, n_copies, unknown = len(runs) - len(complete), len(complete) - len(finished), 0
    if compute is None and COMPUTE_COLUMN in have and COMPUTE_COLUMN not in named:
        unknown = int(np.sum(~np.isfinite(read_numbers(finished[COMPUTE_COLUMN], COMPUTE_COLUMN))))
        compute = None if unknown else COMPUTE_COLUMN
    counted = None if compute is None else _positive(finished[compute], compute)
    n, d = (_positive(finished[name], name) for name in (params, tokens))
    return Points(
        params=n,
        tokens=d,
        loss=finished["loss"].to_numpy(dtype=float),
        counted_flops=counted,
        runs=runs.with_seedless_once(),
        notes=(
            *[announcement] * bool(announcement),
            *of_codes(runs.notes, COPIES_LEFT_OUT),
            *[f"{n_without} runs without a final loss are left out"] * bool(n_without),
            *[f"{n_copies} rows are exact copies of others and are counted once"] * bool(n_copies),
            *check_units(pd.DataFrame({"flops": counted, "params": n, "tokens": d})),
            *[f"{unknown} run(s) have no {COMPUTE_COLUMN}; C = 6 N D is used for them"]
            * bool(unknown),
        ),
    )


def _positive(values: pd.Series, name: str) -> Array:
    numbers = read_numbers(values, name, required=True).to_numpy(dtype=float)
    for number in numbers[~(np.isfinite(numbers) & (numbers > 0))]:
        raise DataError(
            f"{name} must be positive and finite, got {number:g}; correct or drop the run."
        )
    return numbers
