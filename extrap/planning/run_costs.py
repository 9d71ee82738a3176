"""What a run costs at a size: as the table says, or by a formula; in FLOPs, hours, or units."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.errors import DataError
from extrap.expressions import Expression
from extrap.records import Runs

__all__ = ["RunCost", "hours_of_runs", "read_run_cost"]

SECONDS = 3600.0
FLOPS, HOURS, UNITS = "FLOPs", "hours", "units"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """The cost of a run as a power of the sizes, and what was measured at the swept ones.

    Attributes:
        columns: Size columns.
        log_scale: ln of the cost where all sizes are 1.
        powers: Its exponents, one a size column.
        known: Sizes in the order of the columns → median cost of the runs there.
        unit: `"FLOPs"`, `"hours"` or `"units"`.
        source: Where it is from, in words.
    """

    columns: tuple[str, ...]
    log_scale: float
    powers: tuple[float, ...]
    known: Mapping[tuple[float, ...], float]
    unit: str
    source: str

    def of(self, size: Mapping[str, float]) -> float:
        """The cost of one run at a size."""
        key = tuple(float(size[column]) for column in self.columns)
        if key in self.known:
            return self.known[key]
        return math.exp(self.log_scale + float(np.dot(self.powers, np.log(key))))

    @property
    def exponent(self) -> float:
        """Exponent of the cost in a common factor of all sizes."""
        return float(sum(self.powers))


def read_run_cost(runs: Runs, *, formula: str | None = None, hours: bool = False) -> RunCost:
    """The cost of a run: by a formula, else hours, else the FLOPs of the table.

    Hours are those of the column `wall_s`. FLOPs are those of the column `flops`, else
    `6 * n_params * n_tokens`. Between and beyond the swept sizes the cost is a power of the sizes.

    Args:
        runs: The sweep.
        formula: Arithmetic over columns of the table, such as `6 * n_params * n_tokens`.
        hours: Count hours instead of FLOPs.

    Raises:
        ValueError: The formula is none, or speaks of a column that the table lacks.
        DataError: The table does not say what its runs cost, or the costs are not positive.
    """
    frame = runs.to_frame()
    if formula is not None:
        flops = "flops" in formula or "6" in formula.replace(" ", "").split("*")
        values = _by_formula(frame, formula)
        return _power_of_size(
            runs,
            frame,
            values,
            HOURS if hours else FLOPS if flops else UNITS,
            source=f"the formula {formula}",
        )
    if hours:
        found = hours_of_runs(runs)
        if found is None:
            raise DataError(
                "a budget in hours needs a column wall_s, the seconds of each run; add it or give "
                "the budget in FLOPs."
            )
        return found
    if "flops" in frame and _positive(frame["flops"]).any():
        return _power_of_size(runs, frame, frame["flops"], FLOPS, source="the column flops")
    if {"n_params", "n_tokens"} <= set(frame):
        values = _by_formula(frame, "6 * n_params * n_tokens")
        return _power_of_size(runs, frame, values, FLOPS, source="6 * n_params * n_tokens")
    raise DataError(
        "the runs do not say what they cost: there is no column flops, nor n_params and n_tokens; "
        "give a formula over their columns, such as --cost '6 * params * tokens'."
    )


def hours_of_runs(runs: Runs) -> RunCost | None:
    """Hours of a run from the column `wall_s`; None without it."""
    frame = runs.to_frame()
    if "wall_s" not in frame or not _positive(frame["wall_s"]).any():
        return None
    seconds = pd.to_numeric(frame["wall_s"], errors="coerce")
    return _power_of_size(runs, frame, seconds / SECONDS, HOURS, source="the column wall_s")


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


def _power_of_size(
    runs: Runs, frame: pd.DataFrame, values: pd.Series, unit: str, *, source: str
) -> RunCost:
    """A plane through the logarithms of the medians by size."""
    known = _positive(values)
    if not known.any():
        raise DataError(
            f"the cost of a run by {source} must be positive, it is nowhere; give another formula."
        )
    columns = list(runs.sizes)
    numbers = pd.to_numeric(values[known], errors="coerce").astype(float)
    medians = numbers.groupby([frame.loc[known, c].astype(float) for c in columns]).median()
    keys = [key if isinstance(key, tuple) else (key,) for key in medians.index]
    x = np.log(np.array(keys, dtype=float))
    design = np.column_stack([np.ones(len(x)), x])
    # the least steep plane where the sizes do not tell
    found = np.linalg.lstsq(design, np.log(medians.to_numpy()), rcond=None)[0]
    return RunCost(
        columns=runs.sizes,
        log_scale=float(found[0]),
        powers=tuple(map(float, found[1:])),
        known={tuple(map(float, key)): float(v) for key, v in zip(keys, medians, strict=True)},
        unit=unit,
        source=source,
    )
