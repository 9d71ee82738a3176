"""From a table of saved predictions to arrays, in two parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from extrap.errors import DataError
from extrap.reading.cells import read_numbers
from extrap.reading.columns import missing_column
from extrap.reading.sources import read_rows

FEWEST = 20
"""Inputs that the filter leaves in each part: with fewer an interval covers half of [0, 1]."""
FEWEST_GROUPS = 8
"""Groups of inputs in each part: with fewer, draws of groups say little."""
LARGEST = 1e100
"""Size of a loss; sums of larger ones overflow."""
DIGITS = 4
"""Significant digits of a confidence above which rows that are alike are copies, not chance."""
GROUP = "group"
KINDS = ("correct", "loss")
CLAIMS = {"true": 1, "false": 0}
"""Outcomes spelled as words, as CSV files have them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Arrays of one number per input; of filtered inputs `small` is the rule's outcome.

    Inputs of one `group` belong together; `n_copies` rows repeat others.
    """

    kind: str
    confidence: Floats
    small: Floats
    large: Floats
    filtered: NDArray[np.bool_]
    group: NDArray[np.int64]
    n_copies: int = 0

    def part(self, rows: NDArray[np.int64]) -> Predictions:
        """The inputs in these rows, in their order."""
        return Predictions(
            self.kind,
            self.confidence[rows],
            self.small[rows],
            self.large[rows],
            self.filtered[rows],
            np.unique(self.group[rows], return_inverse=True)[1],
        )

    @property
    def n(self) -> int:
        """How many inputs there are."""
        return len(self.large)

    @property
    def n_groups(self) -> int:
        """How many groups of inputs there are; as many as inputs where none belong together."""
        return int(self.group.max()) + 1


def read_predictions(source: Any, group: str | None = None) -> Predictions:
    """The inputs of a table, in its order."""
    table, _ = read_rows(source)
    have = list(map(str, table.columns))
    kind = _kind(have)
    for name in ("confidence_small", f"{kind}_small", f"{kind}_large"):
        if name not in have:
            raise missing_column(name, have, "the table")
    filtered = np.zeros(len(table), dtype=bool)
    if "filtered" in have:
        filtered = _numbers(table, "filtered", where=~filtered, is_claim=True) > 0
        if filtered.any() and f"{kind}_filter" not in have:
            raise missing_column(f"{kind}_filter", have, "a table with filtered inputs")
    is_claim, every = kind == "correct", np.ones(len(table), dtype=bool)
    confidence = _numbers(table, "confidence_small", where=~filtered)
    small = _numbers(table, f"{kind}_small", where=~filtered, is_claim=is_claim)
    large = _numbers(table, f"{kind}_large", where=every, is_claim=is_claim)
    left = small[~filtered]
    if filtered.any():
        rule = _numbers(table, f"{kind}_filter", where=filtered, is_claim=is_claim)
        small = np.where(filtered, rule, small)
    if len(left) < 2 * FEWEST:
        raise DataError(
            f"a cascade needs {FEWEST} inputs to choose a threshold and {FEWEST} others to "
            f"test it, the table has {len(left)} without a rule; add inputs."
        )
    if (left == left[0]).all():
        raise DataError(
            f"{kind}_small must vary, all {len(left)} inputs have {left[0]:g}, so no "
            "confidence can separate them; add inputs with another outcome."
        )
    if kind == "loss" and (top := float(np.abs([small, large]).max())) > LARGEST:
        raise DataError(
            f"losses must be at most {LARGEST:g} in magnitude, got {top:g}: their sums "
            "would overflow; leave those inputs out."
        )
    groups, n_copies = _groups(table, group, confidence)
    return Predictions(kind, confidence, small, large, filtered, groups, n_copies)


def _groups(
    table: pd.DataFrame, group: str | None, confidence: Floats
) -> tuple[NDArray[np.int64], int]:
    """Number of every input's group, and how many rows are copies where no column says groups."""
    have = list(map(str, table.columns))
    if group is not None and group not in have:
        raise missing_column(group, have, "the table")
    if group is not None or GROUP in have:
        named = table[GROUP if group is None else group]
        if named.isna().any():
            row = int(np.flatnonzero(named.isna())[0])
            raise DataError(f"{named.name} must be given for every input, row {row + 1} has none.")
        return pd.factorize(named.astype(str))[0].astype(np.int64), 0
    is_fine = np.array([value != float(f"{value:.{DIGITS}g}") for value in confidence.tolist()])
    whole = pd.util.hash_pandas_object(table.astype(str), index=False).to_numpy()
    keys = np.where(
        is_fine & np.isfinite(confidence), whole, np.arange(len(table), dtype=whole.dtype)
    )
    numbers = pd.factorize(keys)[0].astype(np.int64)
    return numbers, len(numbers) - int(numbers.max()) - 1


def _kind(have: list[str]) -> str:
    """Whether the outcomes of a table are correct answers or losses."""
    found = [kind for kind in KINDS if f"{kind}_small" in have or f"{kind}_large" in have]
    if len(found) == 2:
        raise DataError(
            "outcomes are correct_small and correct_large, or loss_small and loss_large; the "
            "table has columns of both: drop one pair."
        )
    return found[0] if found else "correct"


def _numbers(
    table: pd.DataFrame, column: str, *, where: NDArray[np.bool_], is_claim: bool = False
) -> Floats:
    """A column as finite numbers, or 0 and 1; cells outside `where` are not looked at."""
    cells = table[column].astype(object)
    if is_claim:
        cells = cells.map(_claim)
    values = np.full(len(table), math.nan)
    if where.any():
        values[where] = _cells(cells, column, where)
    bad = where & (~np.isin(values, (0, 1)) if is_claim else ~np.isfinite(values))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        rule = "0 or 1" if is_claim else "finite"
        raise DataError(
            f"{column} must be {rule}, got {table[column].iloc[row]!r} in row {row + 1}; correct "
            "the cell or leave the row out."
        )
    return values


def _claim(cell: object) -> float:
    """0 or 1 where a cell says so; NaN of other words."""
    text = str(cell).strip().lower()
    try:
        return float(CLAIMS.get(text, text))
    except ValueError:
        return math.nan


def _cells(cells: pd.Series, column: str, where: NDArray[np.bool_]) -> Floats:
    """The cells looked at as numbers; the others are blank, so that errors name the right row."""
    return read_numbers(cells.where(where, None), column).to_numpy(float)[where]


def split_predictions(
    inputs: Predictions, validation: float, seed: int
) -> tuple[Predictions, Predictions]:
    """A random part to choose the threshold on, and the rest; a group lies in one of them."""
    order = np.random.default_rng(seed).permutation(inputs.n_groups)
    ends = np.cumsum(np.bincount(inputs.group)[order])
    n_first = int(ends[np.argmin(np.abs(ends - round(validation * inputs.n)))])
    order = np.argsort(np.argsort(order)[inputs.group], kind="stable")
    first, rest = inputs.part(order[:n_first]), inputs.part(order[n_first:])
    for part, name in ((first, "validation part"), (rest, "test part")):
        if (n := int((~part.filtered).sum())) < FEWEST:
            raise DataError(
                f"the {name} needs {FEWEST} inputs that no rule answers, got {n}; add "
                f"inputs, or change validation, {validation:g}."
            )
        if part.n_groups < FEWEST_GROUPS:
            raise DataError(
                f"the {name} needs {FEWEST_GROUPS} groups of inputs, got {part.n_groups}; "
                "add inputs of other groups."
            )
    return first, rest
