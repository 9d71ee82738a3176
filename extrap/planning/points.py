"""The runs of an allocation: parameters, tokens, loss; one row per run that finished."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.laws.base import Array
from extrap.planning.splits import SIX_N_D, ComputeRule
from extrap.reading.cells import is_empty, read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.tables import read_table
from extrap.reading.units import check_units
from extrap.records import Runs

COMPLETE = "complete"
COMPUTE = "flops"
"""The column of compute that is taken where none is named and the table has it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """Runs with a final loss.

    Attributes:
        params: N, shape (n,).
        tokens: D, shape (n,).
        loss: Shape (n,).
        counted_flops: C as the table counts it, shape (n,); None where it has no such column.
        rows: The rows of the table.
        notes: What was left out or taken together.
    """

    params: Array
    tokens: Array
    loss: Array
    counted_flops: Array | None = None
    rows: pd.DataFrame | None = None
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
    source: str | Path | TextIO | pd.DataFrame | Runs,
    *,
    params: str,
    tokens: str,
    loss: str,
    compute: str | None = None,
) -> Points:
    """Runs of a table that have a loss; rows alike in every column are one run.

    Args:
        source: As for `allocate`.
        params: Column of N.
        tokens: Column of D.
        loss: Column of the loss.
        compute: Column of C; by default `flops` where there is one, else C is 6 N D.

    Raises:
        DataError: The source is not a table, lacks a column, or holds values that are not
            positive.
        ValueError: A column was given two parts to play.
    """
    named = [name for name in (params, tokens, loss, compute) if name is not None]
    if len(set(named)) < len(named):
        raise ValueError(
            "params, tokens, loss and compute must be different columns, got "
            f"{', '.join(named)}; name another column."
        )
    table = source.to_frame() if isinstance(source, Runs) else read_table(source)
    have = list(map(str, table.columns))
    for name in named:
        if name not in have:
            raise missing_column(name, have, "the table")
    lost = read_numbers(table[loss], loss)
    keep = np.isfinite(lost)
    if "status" in have:
        keep &= is_empty(table["status"]) | (table["status"].astype(str) == COMPLETE)
    if not keep.any():
        raise DataError(f"no run has a loss; fill in the column {loss}.")
    kept = table[keep]
    is_copy = kept.astype(str).duplicated().to_numpy()
    kept = kept[~is_copy]
    unknown = 0
    if compute is None and COMPUTE in have and COMPUTE not in named:
        unknown = int(np.sum(~np.isfinite(read_numbers(kept[COMPUTE], COMPUTE))))
        compute = None if unknown else COMPUTE
    counted = None if compute is None else _positive(kept[compute], compute)
    n, d = (_positive(kept[name], name) for name in (params, tokens))
    return Points(
        params=n,
        tokens=d,
        loss=_positive(kept[loss], loss),
        counted_flops=counted,
        rows=kept,
        notes=(
            *_notes(n_without=int((~keep).sum()), n_copies=int(is_copy.sum())),
            *_unit_notes(n, d, counted),
            *(
                [f"{unknown} run(s) have no {COMPUTE}; C = 6 N D is used for them"]
                if unknown
                else []
            ),
        ),
    )


def _unit_notes(params: Array, tokens: Array, flops: Array | None) -> tuple[str, ...]:
    """Where the compute column is far from 6 N D, as in another unit."""
    if flops is None:
        return ()
    return check_units(pd.DataFrame({"flops": flops, "params": params, "tokens": tokens}))


def _notes(*, n_without: int, n_copies: int) -> tuple[str, ...]:
    without = f"{n_without} runs without a final loss are left out"
    copies = f"{n_copies} rows are exact copies of others and are counted once"
    return (*[without] * bool(n_without), *[copies] * bool(n_copies))


def _positive(values: pd.Series, name: str) -> Array:
    numbers = read_numbers(values, name, required=True).to_numpy(dtype=float)
    bad = ~(np.isfinite(numbers) & (numbers > 0))
    if bad.any():
        raise DataError(
            f"{name} must be positive and finite, got {numbers[bad][0]:g}; correct or drop "
            "the run."
        )
    return numbers
