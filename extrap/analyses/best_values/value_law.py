"""`best_values`: the law of a best value over size, from one row per size and no losses.

Many people have such a table: the weight decay or learning rate that won at each size. A power law
through the values says what to use at a larger size; of the loss, and of what a wrong value costs,
it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from scipy import special

from extrap.errors import Choice, DataError, OnlyBestValues, argument
from extrap.fitting.distributions import t_quantile
from extrap.laws.base import Array
from extrap.reading.cells import read_numbers
from extrap.reading.reader import ReadingKeywords, as_runs
from extrap.reading.wide_tables import SPACING_COLUMN
from extrap.records import Estimate, Interval, Measure, Shown
from extrap.records.codec import document, shape
from extrap.records.fields import require_level

FEWEST_VALUES, LEAST_SIZE_RATIO = 3, 1.1
"""Sizes with which a law has a scatter, and largest over smallest that they need."""
LARGEST_LOG_VALUE = 300.0
"""Largest log value that is given."""
LEAST_SPACING, OFF_GRID = 1.05, 0.05
"""Factor from which on values are taken for those of a grid, and the part of a step by which they
may lie beside it."""
WITHOUT_GAPS = 2.0
"""Factor that is taken where all values are one."""
THEORY = (-0.5, -1.0, -2.0)
"""Exponents that theories give, for one value or another: the rate over depth (Yang et al. 2023,
Tensor programs VI, depth-muP); Adam's rate over width (Yang et al. 2022, Tensor programs V, Table
3), or a value that falls with the parameters; the same over width, whose square these follow."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BestValues(Shown):
    """A power law `value = v (x / x_0)^b` of a best value, x_0 the geometric mean of n sizes.

    Attributes:
        size: The size column.
        tuned: The column of the best value.
        sizes: Ascending, shape (n,).
        values: The best value of each, shape (n,).
        level: Level of the intervals.
        exponent: b.
        log_value: ln v.
        scatter: Standard deviation of a log value about the law, in nats.
        spacing: Factor between neighbouring values of the grid that they were read off: the
            largest one of a column `spacing`, or what all of their own ratios are powers of; None
            where that is not known.
    """

    size: str
    tuned: str
    sizes: tuple[float, ...]
    values: tuple[float, ...]
    level: float
    exponent: Measure
    log_value: float
    scatter: float
    spacing: float | None = None

    def half_width(self, errors: float) -> float:
        """Half the width of the interval of what errs by so many times a value's error.

        By Student's t of the scatter, and at least what rounding to the grid alone makes: an
        error spread evenly over a step.

        Args:
            errors: Standard error over that of a value.
        """
        end, n = 0.5 + self.level / 2, len(self.sizes)
        by_scatter = float(t_quantile(end, n - 2)) * self.scatter
        rounding = math.log(self.spacing or 1.0) / math.sqrt(12)
        return errors * max(by_scatter, float(special.ndtri(end)) * rounding)

    def at(self, size: float) -> Estimate:
        """The value at a size: `ci` of the law, `pi` of the best value of one more sweep.

        Raises:
            ValueError: The size is not positive, or so far that the value is no number.
        """
        if not (math.isfinite(size) and size > 0):
            raise ValueError(f"{self.size} must be positive and finite, got {size:g}.")
        x = np.log(self.sizes)
        off, spread, n = math.log(size) - x.mean(), float(((x - x.mean()) ** 2).sum()), len(x)
        errors = math.sqrt(1 / n + off**2 / spread)
        mean = self.log_value + (self.exponent.value or 0.0) * off
        if abs(mean) > LARGEST_LOG_VALUE:
            raise ValueError(
                f"the law leaves the range of numbers at {self.size} {size:g}; ask for a nearer "
                "one."
            )
        return Estimate(
            value=math.exp(mean),
            se=math.exp(mean) * self.scatter * errors,
            ci=Interval.around_log(mean, self.half_width(errors)),
            pi=Interval.around_log(mean, self.half_width(math.hypot(errors, 1.0))),
        )

    def to_dict(self, sizes: Sequence[float] = ()) -> dict[str, Any]:
        """What `extrap forecast --json` prints of it, in plain JSON types.

        Args:
            sizes: As `--at`; by default `targets()`.
        """
        from extrap.analyses.best_values.page import best_values_answer

        targets = list(sizes) or self.targets()
        points = [{self.size: size, self.tuned: self.at(size)} for size in targets]
        return document(self, answer=best_values_answer(self, targets).plain, points=points)

    def targets(self) -> list[float]:
        """Twice, four and eight times the largest size."""
        return [factor * self.sizes[-1] for factor in (2, 4, 8)]


shape(BestValues, kind="extrap-best-values")


def best_values(
    source: object, *, level: float = 0.95, **columns: Unpack[ReadingKeywords]
) -> BestValues:
    """Fit a power law to a table that has the best value of each size and no loss.

    Least squares on logarithms; the noise of the values is what they scatter about the law, and
    intervals are Student's t with as many degrees of freedom as sizes less two. Values that were
    read off a grid err by a part of its step however well they lie on a line.

    Args:
        source: A path or a DataFrame: a size column, a tuned column, one row per size; perhaps
            `spacing`, the factor between the values that were tried.
        level: Level of the intervals, in (0, 1).
        columns: How the table is read, as keywords of `extrap.read_runs`; `size` and `tune` choose
            among several columns.

    Raises:
        DataError: The table has losses, fewer than three sizes, values that are not positive, or
            several columns that could be meant.
        ValueError: `level` is not in (0, 1).

    Example:
        >>> import pandas as pd
        >>> import extrap
        >>> values = {"depth": [8, 12, 16, 20], "weight_decay": [0.2, 0.09, 0.05, 0.03]}
        >>> round(extrap.best_values(pd.DataFrame(values)).exponent.value, 2)
        -2.06
    """
    try:
        as_runs(source, columns)
    except OnlyBestValues as only:
        return law_of_values(only, level=level)
    raise DataError(
        "the table has losses; forecast them and the best values with extrap.forecast."
    )


def law_of_values(only: OnlyBestValues, *, level: float) -> BestValues:
    """The law of what a table holds that was refused as a sweep.

    Raises:
        DataError: Fewer than three sizes, values that are not positive, or several columns that
            could be meant.
    """
    require_level(level)
    size, tuned = _one(only.sizes, "size"), _one(only.tuned, "tune")
    table = only.table[[size, tuned]].apply(lambda c: read_numbers(c, str(c.name), required=True))
    for name in (size, tuned):
        if odd := [value for value in table[name] if not (value > 0 and math.isfinite(value))]:
            raise DataError(f"{name} must be positive and finite, got {odd[0]:g}.")
    table = table.sort_values(size)
    if len(table) < FEWEST_VALUES:
        raise DataError(
            f"a law of the best {tuned} needs {FEWEST_VALUES} sizes, got {len(table)}."
        )
    span = float(table[size].max() / table[size].min())
    if span < LEAST_SIZE_RATIO:
        raise DataError(
            f"sizes must span a factor of {LEAST_SIZE_RATIO:g}, {size} spans {span:.3g}; add a "
            "size."
        )
    x, y = np.log(table[size].to_numpy()), np.log(table[tuned].to_numpy())
    off = x - x.mean()
    slope = float(off @ y / (off @ off))
    residuals = y - y.mean() - slope * off
    scatter = math.sqrt(float(residuals @ residuals) / (len(x) - 2))
    law = BestValues(
        size=size,
        tuned=tuned,
        sizes=tuple(table[size].tolist()),
        values=tuple(table[tuned].tolist()),
        level=level,
        exponent=Measure(value=slope),
        log_value=float(y.mean()),
        scatter=scatter,
        spacing=_stated_spacing(only) or _spacing_of(y),
    )
    half = law.half_width(1 / math.sqrt(off @ off))
    return replace(law, exponent=Measure(value=slope, ci=Interval(slope - half, slope + half)))


def _stated_spacing(only: OnlyBestValues) -> float | None:
    """The largest factor of a column `spacing`."""
    if SPACING_COLUMN not in only.table:
        return None
    factors = read_numbers(only.table[SPACING_COLUMN], SPACING_COLUMN, required=True)
    if odd := [factor for factor in factors if not 1 < factor < math.inf]:
        raise DataError(
            f"{SPACING_COLUMN} is the factor between the values that were tried, such as 2; got "
            f"{odd[0]:g}."
        )
    return float(factors.max())


def _spacing_of(logs: Array) -> float | None:
    """The factor that all ratios of values, from their logarithms, are powers of."""
    gaps = np.diff(np.unique(np.round(logs, 9)))
    if not len(gaps):
        return WITHOUT_GAPS
    steps = gaps / gaps.min()
    is_grid = np.abs(steps - np.round(steps)).max() <= OFF_GRID
    factor = float(f"{math.exp(gaps.min()):.4g}")
    return factor if is_grid and len(gaps) > 1 and factor >= LEAST_SPACING else None


def _one(names: Sequence[str], option: str) -> str:
    """The column that is meant."""
    if len(names) > 1:
        raise DataError(
            f"a law of a best value has one {argument(option)}, the table has several; choose:",
            [Choice({option: name}) for name in names],
        )
    return names[0]
