"""The sizes of a table of best values: which of their columns vary, and which move with others.

A law has an exponent for each column that varies by itself. A column that never varied, or always
moved with the others, has none: the law holds where that column is as it was in the table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from extrap.errors import Choice, DataError, argument
from extrap.fitting.surface.optimum_law import SIZE_DIGITS
from extrap.laws.base import Array
from extrap.reading.names import COMPUTE_NAMES, kinds_of, known_name
from extrap.records.numbers import format_exact, format_quantity, name_size, rounded

LEAST_SIZE_RATIO = 1.1
"""Largest over smallest size that a law over one column needs."""
SAME_RATIO = 1.25
"""Factor within which columns move together: runs of a fixed number of tokens per parameter differ
by less, as they have whole steps."""
RATIO_SLACK = 4.0
"""Factor by which the ratio of two size columns may lie beyond those of the table. Where simulated
laws bend with that ratio, 90 % intervals hold to here and begin to fail at 16
(`python -m benchmarks.best_value_tables`)."""
TREND_CORRELATION = 0.8
"""Correlation of the logarithms of two columns above which they grow along a trend."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeDesign:
    """What varies in the sizes of a table.

    Attributes:
        columns: The size columns, m of them.
        logs: log2 of the sizes, (n, m).
        varied: Positions of the k columns that vary by themselves.
        loadings: Of every column on these, `x = loadings z + offsets` in log2, (m, k).
        offsets: Shape (m,).
    """

    columns: tuple[str, ...]
    logs: Array
    varied: tuple[int, ...]
    loadings: Array
    offsets: Array

    @property
    def coordinates(self) -> Array:
        """log2 of the sizes in the columns that vary, (n, k)."""
        return self.logs[:, self.varied]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that vary."""
        return tuple(self.columns[j] for j in self.varied)

    def is_constant(self, j: int) -> bool:
        """Whether a column has one value in the table."""
        return not self.loadings[j].any()

    def size_of(self, coordinates: Array) -> dict[str, float]:
        """Every size column at coordinates, (k,)."""
        logs = self.loadings @ coordinates + self.offsets
        sizes = (rounded(float(2.0**log), SIZE_DIGITS) for log in logs)
        return dict(zip(self.columns, sizes, strict=True))

    def completed(self, size: Mapping[str, float]) -> dict[str, float]:
        """A size with the columns that were left out."""
        usual = self.size_of(self.locate(size))
        return {name: size.get(name, usual[name]) for name in self.columns}

    def held(self) -> list[str]:
        """What never varied: columns, and ratios to the first column that did."""
        others = [j for j in range(len(self.columns)) if j not in self.varied]
        return [
            self.columns[j] if self.is_constant(j) else _ratio_name(self.names[0], self.columns[j])
            for j in others
        ]

    def largest(self) -> dict[str, float]:
        """The largest value of each size column that is not constant."""
        values = {name: float(2.0 ** column.max()) for name, column in self._varying()}
        return {name: rounded(value, SIZE_DIGITS) for name, value in values.items()}

    def _varying(self) -> list[tuple[str, Array]]:
        columns = enumerate(zip(self.columns, self.logs.T, strict=True))
        return [pair for j, pair in columns if not self.is_constant(j)]

    def times(self, factor: float) -> dict[str, float]:
        """The size at a factor times the largest value of each column that varies."""
        return self.size_of(self.coordinates.max(axis=0) + math.log2(factor))

    def locate(self, size: Mapping[str, float]) -> Array:
        """Coordinates of a size that is given by some of its columns, (k,).

        Raises:
            ValueError: A column is unknown or lacking, or a value is not positive.
            DataError: The table says nothing of this size.
        """
        for name, value in size.items():
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive and finite, got {value:g}.")
        rows = [self.columns.index(name) for name in size if name in self.columns]
        loadings = self.loadings[rows]
        if len(rows) < len(size) or np.linalg.matrix_rank(loadings) < len(self.varied):
            raise ValueError(
                f"a size of this table has {', '.join(self.names)}, got "
                f"{', '.join(size) or 'none'}; ask for {_how_to_ask(self.times(2))}."
            )
        logs = np.log2(list(size.values()))
        target = logs - self.offsets[rows]
        coordinates: Array = np.linalg.lstsq(loadings, target, rcond=None)[0].astype(float)
        if np.abs(target - loadings @ coordinates).sum() > math.log2(SAME_RATIO):
            raise self._never_varied(size, coordinates)
        self._check_ratios(coordinates)
        return coordinates

    def _never_varied(self, size: Mapping[str, float], coordinates: Array) -> DataError:
        """Of a size that has another value in a column that moved with the others."""
        if set(self.names) <= set(size):
            coordinates = np.log2([size[name] for name in self.names])
        usual = self.size_of(coordinates)
        name = max(size, key=lambda column: abs(math.log(size[column] / usual[column])))
        value, other = format_quantity(usual[name]), format_quantity(size[name])
        if self.is_constant(self.columns.index(name)):
            reason = f"{name} never varied in the table: it is {value} at every size, got {other}"
        else:
            there = name_size({column: usual[column] for column in self.names})
            ratio = _ratio_name(self.names[0], name)
            reason = (
                f"{ratio} never varied in the table: {name} is {value} at {there}, got {other}"
            )
        return _refusal(reason, {column: usual[column] for column in size})

    def _check_ratios(self, coordinates: Array) -> None:
        """Raise where a ratio of two columns lies far from those of the table.

        Where the columns grew together, such as tokens as the square of a width, the ratio to
        that trend may be near instead.
        """
        for i, j in itertools.combinations(range(len(self.varied)), 2):
            columns = self.coordinates[:, [i, j]].T
            off = columns - columns.mean(axis=1, keepdims=True)
            is_trend = off[0] @ off[1] > TREND_CORRELATION * math.sqrt(
                np.prod((off**2).sum(axis=1))
            )
            powers = [1.0, *([columns[1].std() / columns[0].std()] * int(is_trend))]
            excess = [self._beyond(coordinates, i, j, power) for power in powers]
            if min(map(abs, excess)) <= math.log2(RATIO_SLACK):
                continue
            ratios = 2.0 ** (self.coordinates[:, j] - self.coordinates[:, i])
            nearest = coordinates.copy()
            nearest[j] -= excess[0]
            ratio = 2.0 ** (coordinates[j] - coordinates[i])
            raise _refusal(
                f"{_ratio_name(self.names[i], self.names[j])} lies between "
                f"{format_quantity(float(ratios.min()))} and "
                f"{format_quantity(float(ratios.max()))} in the table, got "
                f"{format_quantity(float(ratio))}, more than {RATIO_SLACK:g} times beyond",
                self.size_of(nearest),
            )

    def _beyond(self, coordinates: Array, i: int, j: int, power: float) -> float:
        """By how many octaves `x_j / x_i^power` is above those of the table, or below."""
        ratios = self.coordinates[:, j] - power * self.coordinates[:, i]
        ratio = coordinates[j] - power * coordinates[i]
        return float(ratio - np.clip(ratio, ratios.min(), ratios.max()))


def design_of(columns: Sequence[str], sizes: Array) -> SizeDesign:
    """What varies in sizes, (n, m).

    Raises:
        DataError: The sizes are all alike.
    """
    logs = np.log2(sizes)
    least = math.log2(LEAST_SIZE_RATIO if len(columns) == 1 else SAME_RATIO)
    # compute follows from parameters and tokens, and not these from it
    by_rank = sorted(range(len(columns)), key=lambda j: known_name(columns[j]) in COMPUTE_NAMES)
    varied: list[int] = []
    for j in by_rank:
        if np.ptp(logs[:, j] - _fitted(logs[:, varied], logs[:, j])) >= least:
            varied.append(j)
    if not varied:
        j = int(np.ptp(logs, axis=0).argmax())
        raise DataError(
            f"sizes must span a factor of {2**least:.3g}, {columns[j]} spans "
            f"{2.0 ** np.ptp(logs[:, j]):.3g}; add a size."
        )
    coefficients = [
        _coefficients(logs[:, varied] if np.ptp(column) >= least else logs[:, []], column)
        for column in logs.T
    ]
    return SizeDesign(
        columns=tuple(columns),
        logs=logs,
        varied=tuple(varied),
        loadings=np.array([np.pad(c[1:], (0, len(varied) - len(c) + 1)) for c in coefficients]),
        offsets=np.array([c[0] for c in coefficients]),
    )


def _coefficients(logs: Array, column: Array) -> Array:
    """Intercept and slopes of a column over others, (n, k)."""
    parts = np.column_stack([np.ones(len(logs)), logs])
    return np.asarray(np.linalg.lstsq(parts, column, rcond=None)[0])


def _fitted(logs: Array, column: Array) -> Array:
    intercept, *slopes = _coefficients(logs, column)
    return np.asarray(intercept + logs @ np.array(slopes))


def _ratio_name(first: str, second: str) -> str:
    """What the ratio of two size columns is called."""
    kinds = kinds_of((first, second))
    if (kinds.get(first), kinds.get(second)) == ("params", "tokens"):
        return "the number of tokens per parameter"
    return f"{second} per {first}"


def _refusal(reason: str, size: Mapping[str, float]) -> DataError:
    """With the nearest size of which the table says something."""
    if argument("at").startswith("-"):
        return DataError(f"{reason}; ask for a size that the law covers:", [_choice(size)])
    return DataError(f"{reason}; ask for {_how_to_ask(size)}.")


def _choice(size: Mapping[str, float]) -> Choice:
    return Choice({"at": ",".join(f"{name}={format_exact(v)}" for name, v in size.items())})


def _how_to_ask(size: Mapping[str, float]) -> str:
    """How a size is asked for: `at(width=64)` in Python, `--at width=64` in a command."""
    if argument("at").startswith("-"):
        return str(_choice(size))
    return f"at({', '.join(f'{name}={format_exact(v)}' for name, v in size.items())})"
