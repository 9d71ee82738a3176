"""`best_values`: the laws of best values over size, from a table of them without losses.

Many people have such a table: the weight decay or learning rate that won at each size. A power law
through the values says what to use at a larger size; of the loss, and of what a wrong value costs,
it says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd

from extrap.analyses.best_values.size_design import SizeDesign, design_of
from extrap.errors import DataError, OnlyBestValues
from extrap.fitting.distributions import NormalMixture
from extrap.fitting.surface.known_optima import KnownOptima
from extrap.laws.base import Array
from extrap.reading.cells import read_numbers
from extrap.reading.reader import ReadingKeywords, as_runs
from extrap.reading.wide_tables import SPACING_COLUMN
from extrap.records import Estimate, Interval, Measure, Shown
from extrap.records.codec import document, encode, shape
from extrap.records.fields import require_level
from extrap.records.numbers import rounded

FEWEST_SIZES = 3
"""Sizes that a law needs."""
VALUE_DIGITS = 12
"""Significant digits of a value that are left after a logarithm and its inverse."""
LARGEST_LOG_VALUE = 300.0
"""Largest log value that is given."""
VALUE_SLOPE_SD = 1.5
"""Prior standard deviation of an exponent. That of rates is narrower: a weight decay goes as depth
to the power of about −2. Simulated rates are forecast as well with this one
(`python -m benchmarks.best_value_tables --draws development`)."""
VALUE_SHARED = ((0.0, 0.6), (0.1, 0.3), (0.3, 0.1))
"""Of the process of optima, chosen on the same draws: with the probabilities of sweeps 90 %
intervals held 96 %, with none 85 % where sizes share effects of .2 octaves. The optima of Step Law
score better with these too (`benchmarks.optimum_laws`)."""
LEAST_SPACING, OFF_GRID = 1.05, 0.05
"""Factor from which on values are taken for those of a grid, and the part of a step by which they
may lie beside it."""
SPACING_DIGITS = 4
"""Significant digits of a spacing that is read off the values."""
WITHOUT_GAPS = 2.0
"""Factor that is taken where all values are one."""
THEORY = (-0.5, -1.0, -2.0)
"""Exponents that theories give, for one value or another: the rate over depth (Yang et al. 2023,
Tensor programs VI, depth-muP); Adam's rate over width (Yang et al. 2022, Tensor programs V, Table
3), or a value that falls with the parameters; the same over width, whose square these follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLaw:
    """A power law `v = v_0 Π (x_i / x_0i)^b_i` of a best value, x_0 the mean of the log sizes.

    Attributes:
        values: The best value of each size, of repeats their geometric mean, shape (n,).
        exponents: Size column that varies → b, the mean slope over the sizes.
        log_value: ln v_0.
        scatter: Standard deviation of a log value about the law, in nats.
        spacing: Factor between neighbouring values of the grid that they were read off: the
            largest one of a column `spacing`, or what all of their own ratios are powers of; None
            where that is not known.
    """

    values: tuple[float, ...]
    exponents: Mapping[str, Measure]
    log_value: float
    scatter: float
    spacing: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BestValues(Shown):
    """Laws of best values over one or several size columns.

    Attributes:
        columns: The size columns.
        sizes: Size column → value, of each of n sizes, ascending.
        n_rows: Rows of the table; more than n where sizes are repeated.
        level: Level of the intervals.
        laws: Tuned column → its law.
    """

    columns: tuple[str, ...]
    sizes: tuple[Mapping[str, float], ...]
    n_rows: int
    level: float
    laws: Mapping[str, ValueLaw]

    @property
    def design(self) -> SizeDesign:
        """What varies in the sizes."""
        return design_of(self.columns, self._array())

    def _array(self) -> Array:
        return np.array([[size[column] for column in self.columns] for size in self.sizes])

    def at(self, value: float | None = None, /, **size: float) -> dict[str, Estimate]:
        """The best values at a size: `ci` of the law, `pi` of the best value of one more sweep.

        Args:
            value: The size, where there is one size column.
            size: Size column → size. A column that never varied may be left out.

        Raises:
            ValueError: The size is not positive, or so far that a value is no number.
            DataError: The table says nothing of such a size, as the ratio of its columns was never
                varied so far.
        """
        if value is not None:
            size = {**dict.fromkeys(self.columns[:1], value), **size}
        return self.at_each([size])[0]

    def at_each(self, sizes: Sequence[Mapping[str, float]]) -> list[dict[str, Estimate]]:
        """As `at`, of several sizes.

        Args:
            sizes: Size column → size, each.

        Raises:
            ValueError: As `at`.
            DataError: As `at`.
        """
        targets = [self.design.locate(size) for size in sizes]
        columns = {name: self._estimates(name, targets) for name in self.laws}
        return [{name: columns[name][i] for name in self.laws} for i in range(len(targets))]

    def _estimates(self, tuned: str, targets: Sequence[Array]) -> list[Estimate]:
        law = self.laws[tuned]
        error = reading_variance(law.spacing)
        optima, estimates = optima_of(self.design, np.log2(law.values), error), []
        for target in targets:
            octaves, optimum = optima.beyond(target, error)
            log_value = math.log(2) * octaves.quantile(0.5)
            if abs(log_value) > LARGEST_LOG_VALUE:
                raise ValueError(
                    f"the law of {tuned} leaves the range of numbers; ask for a nearer size."
                )
            value = math.exp(log_value)
            ci, pi = self._interval(octaves), self._interval(optimum)
            se = value * math.log(2) * octaves.sd
            estimates.append(Estimate(value=value, se=se, ci=ci, pi=pi))
        return estimates

    def _interval(self, octaves: NormalMixture) -> Interval:
        low, high = (
            math.log(2) * octaves.quantile(0.5 + sign * self.level / 2) for sign in (-1, 1)
        )
        return Interval.around_log((low + high) / 2, (high - low) / 2)

    def to_dict(self, sizes: Sequence[Mapping[str, float]] = ()) -> dict[str, Any]:
        """What `extrap forecast --json` prints of it, in plain JSON types.

        Args:
            sizes: As `--at`; by default `targets()`.
        """
        from extrap.analyses.best_values.page import best_values_answer

        targets = [self.design.completed(size) for size in sizes] or self.targets()
        pairs = zip(targets, self.at_each(targets), strict=True)
        points = [{**size, **estimates} for size, estimates in pairs]
        answer = best_values_answer(self, targets).plain
        return document(self, **self._of_one_column(), answer=answer, points=points)

    def _of_one_column(self) -> dict[str, Any]:
        """Of one law over one column the parts of the law, and numbers for its sizes."""
        if len(self.columns) > 1:
            return {}
        (size,) = self.columns
        numbers = {"size": size, "sizes": [values[size] for values in self.sizes]}
        if len(self.laws) > 1:
            return numbers
        ((tuned, law),) = self.laws.items()
        parts = encode(law)
        return {**numbers, "tuned": tuned, "exponent": parts.pop("exponents")[size], **parts}

    def targets(self) -> list[dict[str, float]]:
        """Twice, four and eight times the largest size, all columns that vary together."""
        return [self.design.times(factor) for factor in (2, 4, 8)]


shape(BestValues, kind="extrap-best-values")


def best_values(
    source: object, *, level: float = 0.95, **columns: Unpack[ReadingKeywords]
) -> BestValues:
    """Fit power laws to a table that has the best values of each size and no loss.

    The law of a value, over all size columns together, is a Gaussian process: a line on log-log
    axes, which may bend a little, about which values scatter. Values that were read off a grid
    err by a part of its step however well they lie on a line.

    Args:
        source: A path or a DataFrame: size columns, tuned columns, one row per size or several
            that repeat it; perhaps `spacing`, the factor between the values that were tried.
        level: Level of the intervals, in (0, 1).
        columns: How the table is read, as keywords of `extrap.read_runs`; `size` and `tune` choose
            among several columns.

    Raises:
        DataError: The table has losses, fewer than three sizes, or values that are not positive.
        ValueError: `level` is not in (0, 1).

    Example:
        >>> import pandas as pd
        >>> import extrap
        >>> values = {"depth": [8, 12, 16, 20], "weight_decay": [0.2, 0.09, 0.05, 0.03]}
        >>> law = extrap.best_values(pd.DataFrame(values)).laws["weight_decay"]
        >>> round(law.exponents["depth"].value, 1)
        -2.1
    """
    try:
        as_runs(source, columns)
    except OnlyBestValues as only:
        return laws_of_values(only, level=level)
    raise DataError(
        "the table has losses; forecast them and the best values with extrap.forecast."
    )


def laws_of_values(only: OnlyBestValues, *, level: float) -> BestValues:
    """The laws of what a table holds that was refused as a sweep.

    Raises:
        DataError: Fewer than three sizes, or values that are not positive.
    """
    require_level(level)
    sizes, tuned = list(only.sizes), list(only.tuned)
    table = only.table[[*sizes, *tuned]].apply(
        lambda c: read_numbers(c, str(c.name), required=True)
    )
    for name in table:
        if odd := [value for value in table[name] if not (value > 0 and math.isfinite(value))]:
            raise DataError(f"{name} must be positive and finite, got {odd[0]:g}.")
    logs = np.log2(table[tuned]).groupby([table[name] for name in sizes]).mean().reset_index()
    if len(logs) < FEWEST_SIZES:
        raise DataError(
            f"a law of the best {' or '.join(tuned)} needs {FEWEST_SIZES} sizes, got {len(logs)}; "
            "add a row for each further size."
        )
    design, spacing = design_of(sizes, logs[sizes].to_numpy()), _stated_spacing(only)
    return BestValues(
        columns=tuple(sizes),
        sizes=tuple(logs[sizes].to_dict("records")),
        n_rows=len(table),
        level=level,
        laws={
            name: _law(design, logs[name], spacing or _spacing_of(np.log(table[name])), level)
            for name in tuned
        },
    )


def _law(design: SizeDesign, logs: pd.Series, spacing: float | None, level: float) -> ValueLaw:
    """The law of the values, log2 (n,)."""
    optima = optima_of(design, logs.to_numpy(), reading_variance(spacing))
    middle, *slopes = optima.line()
    scatter = math.sqrt(float(optima.weights @ optima.scatter_variances))
    return ValueLaw(
        values=tuple(rounded(2.0**log, VALUE_DIGITS) for log in logs),
        exponents={
            name: Measure(value=slope.quantile(0.5), ci=slope.interval(level))
            for name, slope in zip(design.names, slopes, strict=True)
        },
        log_value=math.log(2) * middle.quantile(0.5),
        scatter=math.log(2) * scatter,
        spacing=spacing,
    )


def reading_variance(spacing: float | None) -> float:
    """Variance of log2 of a value that is read off a grid: spread evenly over a step."""
    return math.log2(spacing or 1.0) ** 2 / 12


def optima_of(design: SizeDesign, logs: Array, variance: float) -> KnownOptima:
    """What values say of the law, log2 (n,), each read with an error of the same variance."""
    covariance = variance * np.eye(len(logs))
    return KnownOptima(
        design.coordinates, logs, covariance, slope_sd=VALUE_SLOPE_SD, shared=VALUE_SHARED
    )


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
    """The factor that all ratios of values, from their logarithms, are powers of.

    Values of which one comes twice were read off a grid whatever their ratios are: the smallest.
    """
    distinct = np.unique(np.round(logs, 9))
    gaps = np.diff(distinct)
    if not len(gaps):
        return WITHOUT_GAPS
    steps = gaps / gaps.min()
    is_even = len(gaps) > 1 and np.abs(steps - np.round(steps)).max() <= OFF_GRID
    is_grid = is_even or len(distinct) < len(logs)
    factor = rounded(math.exp(gaps.min()), SPACING_DIGITS)
    return factor if is_grid and factor >= LEAST_SPACING else None
