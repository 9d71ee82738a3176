"""Log axes whose ticks a person can read."""

from __future__ import annotations

import math
from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator, NullLocator

from extrap.records.numbers import format_ticks

MARGIN = 0.05
"""Room beside the values, as a share of their span."""


def _tick_values(low: float, high: float, *, most: int) -> list[float]:
    """So many round numbers between two positive ones: powers of two, 1-2-5, or evenly spaced."""
    ratio = high / low
    if ratio < 4:
        ticks = MaxNLocator(nbins=most - 1, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [float(t) for t in ticks if low <= t <= high]
    if low >= 1 and high <= 65536:
        return _thin(_powers(low, high, base=2.0, mantissas=(1,)), most)
    for mantissas in ((1, 2, 5), (1, 3), (1,)):
        ticks = _powers(low, high, base=10.0, mantissas=mantissas)
        if len(ticks) <= most:
            return ticks
    return _thin(_powers(low, high, base=10.0, mantissas=(1,)), most)


def set_log_axis(ax: Axes, which: str, values: Iterable[float], *, label: str, most: int) -> None:
    """Make an axis logarithmic over these values, with a margin and readable ticks."""
    finite = [v for v in values if math.isfinite(v) and v > 0]
    low, high = min(finite), max(finite)
    margin = (high / low) ** MARGIN if high > 1.05 * low else 1.5
    low, high = low / margin, high * margin
    axis = ax.xaxis if which == "x" else ax.yaxis
    (ax.set_xscale if which == "x" else ax.set_yscale)("log")
    (ax.set_xlim if which == "x" else ax.set_ylim)(low, high)
    ticks = _tick_values(low, high, most=most)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter(format_ticks(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_label_text(label)


def positions(values: Iterable[float]) -> dict[float, float]:
    """Value → its place in [0, 1] on a log scale; a single value stands in the middle."""
    found = sorted(set(values))
    low, high = found[0], found[-1]
    if low == high:
        return {low: 0.5}
    return {v: math.log(v / low) / math.log(high / low) for v in found}


def _powers(low: float, high: float, *, base: float, mantissas: tuple[int, ...]) -> list[float]:
    first, last = math.floor(math.log(low, base)) - 1, math.ceil(math.log(high, base)) + 1
    ticks = [m * base**p for p in range(first, last + 1) for m in mantissas]
    return [t for t in ticks if low <= t <= high]


def _thin(ticks: list[float], most: int) -> list[float]:
    return ticks[:: math.ceil(len(ticks) / most) or 1] if ticks else ticks
