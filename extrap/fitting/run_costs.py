"""What a run costs at a size: as the table says, or by a formula; its unit is stated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.expressions import Expression
from extrap.laws.base import Array
from extrap.records import Runs

SECONDS_PER_HOUR = 3600.0
SIX_N_D = "6 * n_params * n_tokens"
FLOPS, HOURS, SECONDS, UNITS = "FLOPs", "hours", "seconds", "units"
MOST_BEND = 0.1
"""Change of the exponent between the last three sizes that needs no warning: 18 % at five times
the largest size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """The cost of a run over the sizes.

    Attributes:
        columns: Size columns.
        known: Sizes in the order of the columns → median cost of the runs there.
        formula: Arithmetic over the size columns alone, which says the cost at any size; or None.
        unit: `"FLOPs"`, `"hours"`, `"seconds"` or `"units"`.
        source: Where it is from, in words.
    """

    columns: tuple[str, ...]
    known: Mapping[tuple[float, ...], float]
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
        if key in self.known:
            return self.known[key]
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
        x, y = np.log(list(self.known)), np.log(list(self.known.values()))
        if len(self.columns) > 1 or len(x) == 1:
            slopes = np.linalg.lstsq(x - x.mean(axis=0), y - y.mean(), rcond=None)[0]
            return float(y.mean() + (log_size - x.mean(axis=0)) @ slopes)
        at = int(np.clip(np.searchsorted(x[:, 0], log_size[0]), 1, len(x) - 1))
        return float(y[at] + self._exponents()[at - 1] * (log_size[0] - x[at, 0]))

    def _exponents(self) -> Array:
        """Of the cost over the only size column, between neighbouring sizes."""
        x, y = np.log(list(self.known))[:, 0], np.log(list(self.known.values()))
        return np.asarray(np.diff(y) / np.diff(x))

    @property
    def flags(self) -> tuple[str, ...]:
        """Reasons to doubt costs beyond the swept sizes."""
        if self.formula is not None or len(self.columns) > 1 or len(self.known) < 3:
            return ()
        before, last = self._exponents()[-2:]
        if abs(last - before) <= MOST_BEND:
            return ()
        return (
            f"cost-extrapolated: beyond the swept sizes the cost grows by {self.columns[0]}"
            f"^{last:.2f}, as between the two largest; between the two before by ^{before:.2f}",
        )


def read_run_cost(
    runs: Runs, *, formula: str | None = None, hours: bool = False, seconds: bool = False
) -> RunCost:
    """The cost of a run: by a formula, else hours, else as the table has it.

    Hours are those of the column `wall_s`. FLOPs are those of the column `flops`, else
    `6 * n_params * n_tokens`. Without either the column `cost` counts, in its own unit. Between
    and beyond the swept sizes `RunCost.of` says how the cost continues.

    Args:
        runs: The sweep.
        formula: Arithmetic over columns of the table, such as `6 * n_params * n_tokens`.
        hours: Count hours instead of FLOPs.
        seconds: Count the seconds of the column `wall_s` where nothing else is known.

    Raises:
        ValueError: The formula is none, or speaks of a column that the table lacks.
        DataError: The table does not say what its runs cost, or the costs are not positive.
    """
    frame = runs.to_frame()
    if formula is not None:
        flops = "flops" in formula or "6" in formula.replace(" ", "").split("*")
        values = _by_formula(frame, formula)
        return _over_sizes(
            runs,
            frame,
            values,
            HOURS if hours else FLOPS if flops else UNITS,
            source=f"the formula {formula}",
            formula=formula,
        )
    if hours:
        found = hours_of_runs(runs)
        if found is None:
            raise DataError(
                "a budget in hours needs a column wall_s, the seconds of each run; add it, "
                "or give the budget in FLOPs."
            )
        return found
    if "flops" in frame and _positive(frame["flops"]).any():
        return _over_sizes(runs, frame, frame["flops"], FLOPS, source="the column flops")
    if {"n_params", "n_tokens"} <= set(frame):
        values = _by_formula(frame, SIX_N_D)
        return _over_sizes(runs, frame, values, FLOPS, source=SIX_N_D, formula=SIX_N_D)
    if "cost" in frame and _positive(frame["cost"]).any():
        return _over_sizes(runs, frame, frame["cost"], UNITS, source="the column cost")
    if seconds and (found := _wall_cost(runs, SECONDS)) is not None:
        return found
    example = " * ".join(runs.sizes) if len(runs.sizes) > 1 else f"{runs.sizes[0]}**2"
    in_hours = ", or a budget in hours" if "wall_s" in frame else ""
    raise DataError(
        "the cost of the runs is unknown: there is no column flops, n_params and n_tokens, or "
        "cost; give a formula over their columns, such as "
        f"{argument('cost', example)}{in_hours}."
    )


def hours_of_runs(runs: Runs) -> RunCost | None:
    """Hours of a run from the column `wall_s`; None without it."""
    return _wall_cost(runs, HOURS)


def _wall_cost(runs: Runs, unit: str) -> RunCost | None:
    """Hours or seconds of a run from the column `wall_s`; None without it."""
    frame = runs.to_frame()
    if "wall_s" not in frame or not _positive(frame["wall_s"]).any():
        return None
    seconds = pd.to_numeric(frame["wall_s"], errors="coerce")
    values = seconds if unit == SECONDS else seconds / SECONDS_PER_HOUR
    return _over_sizes(runs, frame, values, unit, source="the column wall_s")


def _by_formula(frame: pd.DataFrame, text: str) -> pd.Series:
    expression = Expression(text)
    columns = {
        name: pd.to_numeric(frame[name], errors="coerce").astype(float)
        for name in expression.names
        if name in frame
    }
    named = {**dict.fromkeys(map(str, frame.columns), 0.0), **columns}
    return pd.Series(np.broadcast_to(expression(named), len(frame)), index=frame.index)


def _positive(values: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(values, errors="coerce").astype(float)
    return np.isfinite(numbers) & (numbers > 0)


def _over_sizes(
    runs: Runs,
    frame: pd.DataFrame,
    values: pd.Series,
    unit: str,
    *,
    source: str,
    formula: str | None = None,
) -> RunCost:
    """Medians by size."""
    known = _positive(values)
    if not known.any():
        raise DataError(
            f"the cost of a run by {source} must be positive, it is positive nowhere; give "
            "another formula."
        )
    numbers = pd.to_numeric(values[known], errors="coerce").astype(float)
    by = [frame.loc[known, column].astype(float) for column in runs.sizes]
    medians = numbers.groupby(by).median().sort_index()
    keys = [key if isinstance(key, tuple) else (key,) for key in medians.index]
    expression = None if formula is None else Expression(formula)
    of_sizes = expression is not None and set(expression.names) <= set(runs.sizes)
    return RunCost(
        columns=runs.sizes,
        known={tuple(map(float, key)): float(v) for key, v in zip(keys, medians, strict=True)},
        formula=expression if of_sizes else None,
        unit=unit,
        source=source,
    )
