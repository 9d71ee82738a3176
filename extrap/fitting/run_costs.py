"""What a run costs at a size: as the table says, or by a formula; its unit is stated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError, argument
from extrap.expressions import Expression
from extrap.fitting.cost_curves import CostCurve, FormulaCurve, fit_cost_curve
from extrap.laws.base import Array
from extrap.records import Runs

SECONDS_PER_HOUR = 3600.0
SIX_N_D = "6 * n_params * n_tokens"
FLOPS, HOURS, SECONDS, UNITS = "FLOPs", "hours", "seconds", "units"
MOST_MISFIT = 0.05
"""Share by which a cost may miss its curve without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """The cost of a run as a curve over the sizes, and what was measured at the swept ones.

    Attributes:
        columns: Size columns.
        curve: The cost at a size.
        known: Sizes in the order of the columns → median cost of the runs there.
        misfit: Largest relative distance of the curve from these.
        unit: `"FLOPs"`, `"hours"`, `"seconds"` or `"units"`.
        source: Where it is from, in words.
    """

    columns: tuple[str, ...]
    curve: CostCurve
    known: Mapping[tuple[float, ...], float]
    misfit: float
    unit: str
    source: str

    def of(self, size: Mapping[str, float]) -> float:
        """The cost of one run at a size.

        Raises:
            DataError: A formula over the sizes is not positive there.
        """
        key = tuple(float(size[column]) for column in self.columns)
        cost = self.known[key] if key in self.known else self.curve.at(key)
        if not (math.isfinite(cost) and cost > 0):
            where = ", ".join(f"{c}={size[c]:g}" for c in self.columns)
            raise DataError(
                f"the cost of a run by {self.source} must be positive, got {cost:g} at {where}; "
                "give another formula."
            )
        return cost

    def along(self, size: Mapping[str, float], logs: Array) -> Array:
        """The log cost at multiples `exp(logs)` of a size less that at the size, (n,)."""
        key = np.array([float(size[column]) for column in self.columns])
        costs = np.array([self.curve.at(tuple(key * math.exp(log))) for log in (*logs, 0.0)])
        if not (np.isfinite(costs) & (costs > 0)).all():
            return np.full(len(logs), math.nan)
        return np.asarray(np.log(costs[:-1] / costs[-1]))

    @property
    def flags(self) -> tuple[str, ...]:
        """Reasons to doubt costs beyond the swept sizes."""
        if self.misfit <= MOST_MISFIT:
            return ()
        return (
            "cost-extrapolated: the cost curve over the swept sizes misses one by "
            f"{100 * self.misfit:.0f} %; beyond them it follows the largest sizes",
        )


def read_run_cost(
    runs: Runs, *, formula: str | None = None, hours: bool = False, seconds: bool = False
) -> RunCost:
    """The cost of a run: by a formula, else hours, else as the table has it.

    Hours are those of the column `wall_s`. FLOPs are those of the column `flops`, else
    `6 * n_params * n_tokens`. Without either the column `cost` counts, in its own unit. Between
    and beyond the swept sizes the cost is that of the formula if it uses sizes alone, else of a
    curve through the costs (`fit_cost_curve`).

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
    """Medians by size, and the curve through them."""
    known = _positive(values)
    if not known.any():
        raise DataError(
            f"the cost of a run by {source} must be positive, it is positive nowhere; give "
            "another formula."
        )
    numbers = pd.to_numeric(values[known], errors="coerce").astype(float)
    by = [frame.loc[known, column].astype(float) for column in runs.sizes]
    medians = numbers.groupby(by).median()
    keys = [key if isinstance(key, tuple) else (key,) for key in medians.index]
    sizes, costs = np.array(keys, dtype=float), medians.to_numpy(dtype=float)
    expression = None if formula is None else Expression(formula)
    if expression is not None and set(expression.names) <= set(runs.sizes):
        curve: CostCurve = FormulaCurve(expression=expression, columns=runs.sizes)
    else:
        curve = fit_cost_curve(sizes, costs)
    fitted = np.array([curve.at(tuple(size)) for size in sizes])
    return RunCost(
        columns=runs.sizes,
        curve=curve,
        known={tuple(map(float, key)): float(v) for key, v in zip(keys, costs, strict=True)},
        misfit=float(np.max(np.abs(fitted / costs - 1))),
        unit=unit,
        source=source,
    )
