"""The horizontal axis: one size column, and where the others stand while it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from extrap.forecasting import Forecast
from extrap.records.numbers import format_quantity

N_AXIS_VALUES = 40
"""Sizes at which curves over size are computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAxis:
    """A path through the sizes along the first size column.

    Attributes:
        column: The column drawn.
        knots: Sizes the path passes through, one dict each, ascending in `column`.
        low: Smallest value drawn.
        tuned_high: Largest tuned value.
        high: Largest value drawn.
        note: What is held fixed, or how other columns follow; empty with a single size column.
    """

    column: str
    knots: tuple[Mapping[str, float], ...]
    low: float
    tuned_high: float
    high: float
    note: str

    def size_at(self, value: float) -> dict[str, float]:
        """The full size where the drawn column has this value."""
        x = np.log([k[self.column] for k in self.knots])
        size = {}
        for column in self.knots[0]:
            if column == self.column:
                size[column] = float(value)
                continue
            y = np.log([k[column] for k in self.knots])
            size[column] = float(np.exp(np.interp(math.log(value), x, y)))
        return size

    def holds(self, size: Mapping[str, float]) -> bool:
        """Whether a size lies on the path."""
        here = self.size_at(size[self.column])
        return all(abs(math.log(size[c] / v)) < 0.01 for c, v in here.items())

    def select(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of a table of runs whose size lies on the path."""
        columns = list(self.knots[0])
        sizes = frame[columns].drop_duplicates()
        path_sizes = [
            row
            for row in sizes.itertuples(index=False)
            if self.holds(dict(zip(columns, map(float, row), strict=True)))
        ]
        on_path = pd.MultiIndex.from_tuples(path_sizes, names=columns) if path_sizes else []
        return frame[pd.MultiIndex.from_frame(frame[columns]).isin(on_path)]

    def values(self) -> list[float]:
        """Values of the drawn column, evenly spaced on a log scale."""
        return [float(v) for v in np.geomspace(self.low, self.high, N_AXIS_VALUES)]


def size_axis(forecast: Forecast, judged: Sequence[Mapping[str, float]] = ()) -> SizeAxis:
    """The path through the tuned and judged sizes of a forecast."""
    return path_axis(forecast.runs.sizes, [dict(o.size) for o in forecast.optima], judged)


def path_axis(
    columns: Sequence[str],
    tuned: Sequence[Mapping[str, float]],
    judged: Sequence[Mapping[str, float]] = (),
) -> SizeAxis:
    """Choose the path: along a slice through a grid of sizes, or along the sizes as they grow.

    With several size columns the others stay at their largest tuned value where at least three
    tuned sizes share it; else the path runs through the tuned and judged sizes one after another.

    Args:
        columns: Size columns; the first is drawn.
        tuned: Sizes of a sweep.
        judged: Larger sizes; without any the axis reaches to eight times the largest tuned one.
    """
    first, *others = columns
    largest = {c: max(size[c] for size in tuned) for c in others}
    on_slice = [size for size in tuned if all(size[c] == largest[c] for c in others)]
    if len(on_slice) >= 3:
        path, note = on_slice, ""
        if others:
            held = ", ".join(f"{c} = {format_quantity(largest[c])}" for c in others)
            note = f"Drawn against {first}, with {held}; other sizes are in the tables."
    else:
        by_value = {size[first]: size for size in [*tuned, *map(dict, judged)]}
        path = [by_value[value] for value in sorted(by_value)]
        note = f"Drawn against {first}; {', '.join(others)} moves with it from run to run."
    tuned_high = max(size[first] for size in tuned)
    reach = [size[first] for size in judged] or [8 * tuned_high]
    return SizeAxis(
        column=first,
        knots=tuple(sorted(path, key=lambda size: size[first])),
        low=min(size[first] for size in tuned),
        tuned_high=tuned_high,
        high=max(tuned_high, *reach),
        note=note,
    )
