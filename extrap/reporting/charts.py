"""Charts as data: three kinds serve every page.

* `XYChart` — lines, bands and points over two axes: laws, optima, learning curves, scatter.
* `RowsChart` — one value with its interval per row.
* `HeatChart` — values over a grid of cells.

`extrap.reporting.drawing` draws them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from extrap.records import Interval

BAND: dict[str, Any] = {"line": "-", "is_band": True}
"""The style of a law with its band."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        label: What it shows.
        is_log: Whether it is logarithmic.
        is_percent: Whether its values are relative differences, written as signed percentages.
        limits: Values it must show at least.
    """

    label: str
    is_log: bool = True
    is_percent: bool = False
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points, a line or a band.

    Attributes:
        label: Its name in the legend; empty for none.
        x: Places.
        y: Values; NaN draws nothing there.
        lower: Lower ends of intervals; empty for none, NaN for an open side.
        upper: Upper ends.
        ink: Colour: a name of `drawing.COLOURS`, or `RAMP:FRACTION` for a place on a colour ramp.
        line: `-`, `--`, `:`, or empty for points alone.
        marker: Matplotlib's letter of a filled marker, or empty for a line alone.
        is_band: Intervals are a filled band instead of bars.
    """

    label: str = ""
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    ink: str = "law"
    line: str = ""
    marker: str = ""
    is_band: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class XYChart:
    """Series over two axes.

    Attributes:
        title: Heading.
        x: Horizontal axis.
        y: Vertical axis.
        series: Drawn in order, later ones on top; those without a point are left out.
        shaded: Range of x that was measured, drawn on grey; None for none.
        reference: A horizontal line; None for none.
    """

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    shaded: tuple[float, float] | None = None
    reference: float | None = None

    def __post_init__(self) -> None:
        _drop_empty(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A value with its interval; None where it is not known."""

    label: str
    value: float | None
    interval: Interval = Interval()
    ink: str = "law"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChart:
    """One value with its interval per row.

    Attributes:
        title: Heading.
        axis: Of the values.
        rows: From the top.
        reference: Value of an upright line; None for none.
    """

    title: str
    axis: Axis
    rows: tuple[Row, ...]
    reference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatChart:
    """Values over a grid of cells, all alike, as those of values on a logarithmic scale.

    Attributes:
        title: Heading.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        xs: Values of the columns.
        ys: Values of the rows.
        values: One tuple per row; NaN leaves a cell empty.
        label: What the values are.
        series: Drawn on top.
    """

    title: str
    x: str
    y: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    values: tuple[tuple[float, ...], ...]
    label: str
    series: Sequence[Series] = ()

    def __post_init__(self) -> None:
        _drop_empty(self)


def _drop_empty(chart: XYChart | HeatChart) -> None:
    object.__setattr__(chart, "series", tuple(series for series in chart.series if series.x))


Chart = XYChart | RowsChart | HeatChart


def points(rows: Iterable[Iterable[float | None]], **style: Any) -> Series:
    """A series from rows of x, y and, for intervals, their ends; None and NaN are not known.

    Rows without x are left out.
    """
    numbers = ([math.nan if v is None else float(v) for v in row] for row in rows)
    columns = zip(*(row for row in numbers if not math.isnan(row[0])), strict=True)
    style |= dict(zip(("x", "y", "lower", "upper"), columns, strict=False))
    return Series(**style)
