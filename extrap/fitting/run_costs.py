"""What a run costs at a size: as the table says, or by a formula; its unit is stated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.expressions import Expression
from extrap.laws.base import Array
from extrap.reading.names import COUNT_NAMES, TOKEN_NAMES, kinds_of, known_name
from extrap.records import Runs
from extrap.records.flags import Flag

SECONDS_PER_HOUR = 3600.0
IN_FLOPS, IN_HOURS, IN_SECONDS, IN_UNITS = "FLOPs", "hours", "seconds", "units"
MOST_BEND = 0.1
"""Change of the exponent between the last three sizes that needs no warning: 18 % at five times
the largest size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """The cost of a run over the sizes.

    Attributes:
        columns: Size columns.
        measured: Sizes in the order of the columns → median cost of the runs there.
        formula: Arithmetic over the size columns alone, which says the cost at any size; or None.
        unit: `"FLOPs"`, `"hours"`, `"seconds"` or `"units"`.
        source: Where it is from, in words.
    """

    columns: tuple[str, ...]
    measured: Mapping[tuple[float, ...], float]
    formula: Expression | None
    unit: str
    source: str

    def of(self, size: Mapping[str, float]) -> float:
        """The cost of one run at a size.

        At a swept size the median cost of its runs. Elsewhere by the formula, else by linear
        interpolation of logarithms; beyond the swept sizes the last slope continues. Over several
        columns a power of each, by least squares.

        Raises:
            DataError: A formula over the sizes is not positive there.
        """
        key = tuple(float(size[column]) for column in self.columns)
        if key in self.measured:
            return self.measured[key]
        if self.formula is None:
            return math.exp(self._log_cost(np.log(key)))
        cost = float(self.formula({column: size[column] for column in self.columns}))
        if not (math.isfinite(cost) and cost > 0):
            where = ", ".join(f"{c}={size[c]:g}" for c in self.columns)
            raise DataError(
                f"the cost of a run by {self.source} must be positive, got {cost:g} at {where}; "
                "give another formula."
            )
        return cost

    def _log_cost(self, log_size: Array) -> float:
        x, y = np.log(list(self.measured)), np.log(list(self.measured.values()))
        if len(self.columns) > 1 or len(x) == 1:
            slopes = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=None)[0]
            return float(y.mean() + (log_size - x.mean(axis=0)) @ slopes)
        i = int(np.clip(np.searchsorted(x[:, 0], log_size[0]), 1, len(x) - 1))
        return float(y[i] + self._exponents()[i - 1] * (log_size[0] - x[i, 0]))

    def _exponents(self) -> Array:
        """Exponents of the cost in the only size column, between neighboring sizes."""
        x, y = np.log(list(self.measured))[:, 0], np.log(list(self.measured.values()))
        return np.asarray(np.diff(y) / np.diff(x))

    @property
    def flags(self) -> tuple[str, ...]:
        """Reasons to doubt costs beyond the swept sizes."""
        if self.formula is not None or len(self.columns) > 1 or len(self.measured) < 3:
            return ()
        before, last = self._exponents()[-2:]
        if abs(last - before) <= MOST_BEND:
            return ()
        growth = (
            f"beyond the swept sizes the cost grows by {self.columns[0]}^{last:.2f}, as between "
            f"the two largest; between the two before by ^{before:.2f}"
        )
        return (Flag("cost-extrapolated", growth),)


def read_run_cost(
    runs: Runs, *, formula: str | None = None, hours: bool = False, seconds: bool = False
) -> RunCost:
    """The cost of a run: by a formula, else hours, else as the table has it.

    Hours are those of the column `wall_s`. FLOPs are those of the column `flops`, else 6 times
    parameters times tokens, columns that are known by their names, see `kinds_of`. Without either
    the column `cost` counts, in its own unit. Between and beyond the swept sizes `RunCost.of`
    says how the cost continues.

    Args:
        runs: The sweep.
        formula: Arithmetic over columns of the table, such as `6 * n_params * n_tokens`.
        hours: Count hours instead of FLOPs.
        seconds: Count the seconds of the column `wall_s` where nothing else is known.

    Raises:
        ValueError: The formula is none, or speaks of a column that the table lacks.
        DataError: The table does not say what its runs cost, or the costs are not positive.
    """
    if formula is not None:
        flops = "flops" in formula or "6" in formula.replace(" ", "").split("*")
        unit = IN_HOURS if hours else IN_FLOPS if flops else IN_UNITS
        return _over_sizes(runs, formula, unit, source=f"the formula {formula}")
    if hours:
        if (cost := hours_of_runs(runs)) is None:
            raise DataError(
                "a budget in hours needs a column wall_s, the seconds of each run; add it, "
                "or give the budget in FLOPs."
            )
        return cost
    for text, unit in (*_sources(runs), *[("wall_s", IN_SECONDS)] * seconds):
        if (cost := _of_table(runs, text, unit)) is not None:
            return cost
    example = " * ".join(runs.sizes) if len(runs.sizes) > 1 else f"{runs.sizes[0]}**2"
    in_hours = ", or a budget in hours" if "wall_s" in runs.to_frame() else ""
    raise DataError(
        "the cost of the runs is unknown: there is no column flops, of parameters and tokens, or "
        "cost; give a formula over their columns, such as "
        f"{argument('cost', example)}{in_hours}."
    )


def hours_of_runs(runs: Runs) -> RunCost | None:
    """Hours of a run from the column `wall_s`; None without it."""
    return _of_table(runs, f"wall_s / {SECONDS_PER_HOUR}", IN_HOURS)


def _sources(runs: Runs) -> list[tuple[str, str]]:
    """What says the cost of a run, and in which unit: the first whose columns the table has."""
    kinds = kinds_of(map(str, runs.to_frame()))

    def first(kind: str, names: Sequence[str]) -> str:
        columns = [c for c, column_kind in kinds.items() if column_kind == kind]
        column = min(
            columns, key=lambda c: [*names, known_name(c)].index(known_name(c)), default=""
        )
        column = column or names[0]
        return column if column.isidentifier() else f"`{column}`"

    six_n_d = f"6 * {first('params', COUNT_NAMES)} * {first('tokens', TOKEN_NAMES)}"
    return [("flops", IN_FLOPS), (six_n_d, IN_FLOPS), ("cost", IN_UNITS)]


def _of_table(runs: Runs, text: str, unit: str) -> RunCost | None:
    """By arithmetic over columns; None where one is missing, or the only one nowhere positive."""
    column, *others = Expression(text).names
    if not {column, *others} <= set(runs.to_frame()):
        return None
    if others:
        return _over_sizes(runs, text, unit, source=text)
    try:
        return replace(_over_sizes(runs, text, unit, source=f"the column {column}"), formula=None)
    except DataError:
        return None


def _over_sizes(runs: Runs, text: str, unit: str, *, source: str) -> RunCost:
    """Medians by size of arithmetic over columns, where it is positive."""
    frame, expression = runs.to_frame(), Expression(text)
    numbers: dict[str, Any] = dict.fromkeys(map(str, frame.columns), 0.0)
    for name in set(expression.names) & set(frame):
        numbers[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    values = pd.Series(np.broadcast_to(expression(numbers), len(frame)), index=frame.index)
    values = values[np.isfinite(values) & (values > 0)]
    if values.empty:
        raise DataError(
            f"the cost of a run by {source} must be positive, it is positive nowhere; give "
            "another formula."
        )
    by = [frame.loc[values.index, column].astype(float) for column in runs.sizes]
    medians = values.groupby(by).median().sort_index()
    keys = [key if isinstance(key, tuple) else (key,) for key in medians.index]
    return RunCost(
        columns=runs.sizes,
        measured={tuple(map(float, key)): float(v) for key, v in zip(keys, medians, strict=True)},
        formula=expression if set(expression.names) <= set(runs.sizes) else None,
        unit=unit,
        source=source,
    )
