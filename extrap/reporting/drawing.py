"""Charts drawn with matplotlib: as SVG for a page, or on axes of your own.

A figure is drawn in the colours of a light page. Within a page each of them becomes a CSS
variable, so that one drawing serves light mode, dark mode and print. Text stays text in the
reader's own font.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from extrap.records.numbers import NBSP, format_percent_tick, format_ticks
from extrap.reporting.charts import (
    Axis,
    Chart,
    HeatChart,
    RowsChart,
    Series,
    XYChart,
)
from extrap.reporting.palette import VARIABLES, colour

WIDTH, HEIGHT = 460, 330
ROW_HEIGHT = 26
LINE_GAP = 15.0
"""Pixels between two labels at the right edge."""
REACH = 0.6
"""Share of the values' span by which intervals may widen an axis; what is beyond is cut off."""
EDGE = 0.9
"""Share of the axis beyond which a series ends at the right edge and is named there."""
AXIS_LABEL, SIDE_LABEL = 50, 30
"""Characters of the label of an axis, and of one beside the picture; longer ones leave no room."""
MOST_TICKS = 6
MARGIN = 0.05
"""Room beside the values of a logarithmic axis, as a share of their span."""
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "extrap",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 11.5,
    "text.color": colour("ink"),
    "axes.edgecolor": colour("muted"),
    "axes.labelcolor": colour("ink"),
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": colour("grid"),
    "grid.linewidth": 0.8,
    "xtick.color": colour("muted"),
    "ytick.color": colour("muted"),
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "lines.solid_capstyle": "round",
}
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML may hold."""
_HEAD = re.compile(
    r"^.*?<svg[^>]*>|<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", re.DOTALL
)
_UNUSED = re.compile(
    r' id="[A-Za-z.0-9]+_\d+"|font-family: [^;]*; |xlink:|(?<=base64,)\s|\s(?=[\s"/]|$)'
)
"""Of a tag: ids that nothing refers to, fonts, spaces."""


def chart_svg(chart: Chart, *, key: str) -> str:
    """A chart as an inline `<svg>` element.

    Args:
        chart: The chart.
        key: Prefix of all ids, unique within the page; letters and digits.
    """
    height = HEIGHT
    if isinstance(chart, RowsChart):
        height = min(max(96 + ROW_HEIGHT * len(chart.rows), 150), 900)

    def inline(tag: re.Match[str]) -> str:
        text = _UNUSED.sub("", tag[0])
        text = re.sub(r'( id="| href="#|url\(#)', rf"\g<1>{key}-", text)
        text = re.sub(r"\d+\.\d{3,}", lambda found: str(round(float(found[0]), 2)), text)
        return re.sub("#[0-9a-f]{6}", lambda found: VARIABLES.get(found[0], found[0]), text)

    svg = _HEAD.sub("", _drawn(lambda ax: draw_chart(ax, chart), WIDTH, height))
    svg = re.sub(r"<[^>]*>\s*", inline, _NO_XML.sub("\ufffd", svg))
    label = escape(_NO_XML.sub("\ufffd", chart.title))
    view = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}" id="{key}"'
    return f"<svg {view}>{svg}"


def _drawn(draw: Callable[[Axes], object], width: int, height: int) -> str:
    """A figure of so many pixels in our settings, as an SVG document."""
    buffer = io.StringIO()
    with mpl.rc_context(), warnings.catch_warnings():
        # the reader's font has it
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing.*")
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        draw(figure.add_subplot())
        metadata = {"Date": None, "Creator": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    return buffer.getvalue()


def plot_chart(chart: Chart, ax: Axes | None = None) -> Axes:
    """Draw a chart on these axes or new ones."""
    if ax is None:
        from matplotlib import pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
    with mpl.rc_context({"text.parse_math": False}):
        draw_chart(ax, chart)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_parse_math(False)
    return ax


def draw_chart(ax: Axes, chart: Chart) -> None:
    """Draw a chart on axes."""
    if isinstance(chart, RowsChart):
        _draw_rows(ax, chart)
    elif isinstance(chart, HeatChart):
        _draw_heat(ax, chart)
    else:
        _draw_xy(ax, chart)


def _draw_xy(ax: Axes, chart: XYChart) -> None:
    if chart.shaded is not None:
        ax.axvspan(*chart.shaded, color=colour("shade"), lw=0, zorder=0)
    if chart.reference is not None:
        ax.axhline(chart.reference, color=colour("muted"), lw=1.0, zorder=1)
    _set_axis(ax, "x", chart.x, [x for each in chart.series for x in each.x])
    values = [y for each in chart.series for y in each.y]
    ends = [end for each in chart.series for end in (*each.lower, *each.upper)]
    _set_axis(ax, "y", chart.y, _reach(chart.y, values, ends, reference=chart.reference))
    for each in chart.series:
        _draw_series(ax, each)
    _name_series(ax, chart.series)


def _draw_series(ax: Axes, each: Series) -> None:
    ink, x, y = colour(each.ink), np.asarray(each.x), np.asarray(each.y)
    if each.lower or each.upper:
        _draw_intervals(ax, each, x, ink)
    if each.line:
        ax.plot(x, y, each.line, color=ink, lw=1.9, zorder=2)
    if each.marker:
        edge = ink if each.is_open or each.marker in "x+" else colour("paper")
        ax.plot(
            x,
            y,
            each.marker,
            ms=12.4 if each.marker == "*" else 6.5,
            color=ink,
            mec=edge,
            mew=1.6 if each.is_open or each.marker in "x+" else 0.7,
            mfc=colour("paper") if each.is_open else ink,
            zorder=5,
        )


def _draw_intervals(ax: Axes, each: Series, x: np.ndarray, ink: str) -> None:
    """A band, or bars; an open side reaches to the edge of the axes."""
    bottom, top = ax.get_ylim()
    low = _ends(each.lower, len(x), bottom)
    high = _ends(each.upper, len(x), top)
    if each.is_band:
        ax.fill_between(x, low, high, color=ink, alpha=0.15, lw=0, zorder=1)
        return
    given = [_ends(sides, len(x), math.nan) for sides in (each.lower, each.upper)]
    known = np.isfinite(given).any(axis=0)
    ax.vlines(x[known], low[known], high[known], color=ink, lw=1.3, zorder=4)


def _ends(values: Sequence[float], n: int, missing: float) -> np.ndarray:
    found = np.asarray(values if values else [math.nan] * n, dtype=float)
    return np.where(np.isfinite(found), found, missing)


def _reach(
    axis: Axis, values: Iterable[float], ends: Iterable[float], *, reference: float | None = None
) -> list[float]:
    """What an axis shows: every value, and the ends of intervals as far as `REACH` allows."""
    found = [value for value in values if _fits(axis, value)]
    found += [] if reference is None or axis.is_log else [reference]
    sides = [end for end in ends if _fits(axis, end)]
    found = found or sides or [1.0]
    there, back, least = (math.log, math.exp, 0.02) if axis.is_log else (float, float, 1e-6)
    low, high = there(min(found)), there(max(found))
    margin = max(REACH * (high - low), least)
    return [*found, *(back(min(max(there(end), low - margin), high + margin)) for end in sides)]


def _fits(axis: Axis, value: float) -> bool:
    return math.isfinite(value) and (value > 0 or not axis.is_log)


def _set_axis(ax: Axes, which: str, axis: Axis, values: Sequence[float]) -> None:
    shown = [*(v for v in values if _fits(axis, v)), *(axis.limits or ())] or [1.0]
    low, high = min(shown), max(shown)
    own = ax.xaxis if which == "x" else ax.yaxis
    own.set_label_text(_short(axis.label, AXIS_LABEL))
    if axis.is_log:
        margin = (high / low) ** MARGIN if high > 1.05 * low else 1.5
        low, high = low / margin, high * margin
        ticks = _log_ticks(low, high)
        (ax.set_xscale if which == "x" else ax.set_yscale)("log")
        own.set_major_locator(FixedLocator(ticks))
        own.set_major_formatter(FixedFormatter(format_ticks(ticks)))
        own.set_minor_locator(NullLocator())
    else:
        margin = 0.06 * (high - low) or 0.01
        low, high = low - margin, high + margin
        own.set_major_locator(MaxNLocator(MOST_TICKS))
        if axis.is_percent:
            own.set_major_formatter(FuncFormatter(lambda value, _: format_percent_tick(value)))
    (ax.set_xlim if which == "x" else ax.set_ylim)(low, high)


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: evenly spaced, powers of two, or 1, 2, 5."""
    if high < 4 * low:
        locators: list[Locator] = [MaxNLocator(MOST_TICKS - 1, steps=[1, 2, 2.5, 5, 10])]
    elif low >= 1 and high <= 65536:
        locators = [LogLocator(2, numticks=MOST_TICKS)]
    else:
        subs = ((1, 2, 5), (1, 3), (1,))
        locators = [LogLocator(10, subs=each, numticks=MOST_TICKS) for each in subs]
    ticks: list[float] = []
    for locator in locators:
        ticks = [float(t) for t in locator.tick_values(low, high) if low <= t <= high]
        if len(ticks) <= MOST_TICKS:
            break
    return ticks


def _short(label: str, most: int = SIDE_LABEL) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _name_series(ax: Axes, shown: Sequence[Series]) -> None:
    """Names beside the lines: in a column at the right edge, else at the last mark."""
    at_edge: list[tuple[float, str, str]] = []
    for each in shown:
        last = [i for i, y in enumerate(each.y) if math.isfinite(y) and math.isfinite(each.x[i])]
        if not each.label or not last:
            continue
        i = max(last, key=lambda i: each.x[i])
        place, height = ax.transAxes.inverted().transform(
            ax.transData.transform((each.x[i], each.y[i]))
        )
        if place >= EDGE:
            at_edge.append((float(height), _short(each.label), colour(each.ink)))
            continue
        ax.annotate(
            _short(each.label),
            (each.x[i], each.y[i]),
            xytext=(7, 7),
            textcoords="offset points",
            color=colour(each.ink),
            fontsize="small",
            zorder=7,
        )
    gap = LINE_GAP / max(ax.get_position().height * ax.figure.bbox.height, 1.0)
    for height, label, ink in _spread(at_edge, gap):
        ax.annotate(
            label,
            (1.0, height),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=ink,
            fontsize="small",
            annotation_clip=False,
        )


def _spread(labels: Sequence[tuple[float, str, str]], gap: float) -> list[tuple[float, str, str]]:
    """Labels moved apart so that none covers another, all within the axes."""
    ordered = sorted(labels)
    heights: list[float] = []
    for height, *_ in ordered:
        heights.append(max(min(max(height, 0.0), 1.0), heights[-1] + gap if heights else 0.0))
    ceiling = 1.0
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - gap
    return [(h, label, ink) for h, (_, label, ink) in zip(heights, ordered, strict=True)]


def _draw_rows(ax: Axes, chart: RowsChart) -> None:
    axis = chart.axis
    values = [row.value for row in chart.rows if row.value is not None]
    ends = [end for row in chart.rows for end in row.interval if end is not None]
    reference = [] if chart.reference is None else [chart.reference]
    _set_axis(ax, "x", axis, [*_reach(axis, values, ends), *reference])
    left, right = ax.get_xlim()
    for place, row in enumerate(chart.rows):
        ink, (lower, upper) = colour(row.ink), row.interval
        if lower is not None or upper is not None:
            low, high = left if lower is None else lower, right if upper is None else upper
            ax.hlines(place, max(low, left), min(high, right), color=ink, alpha=0.4, lw=6)
            for is_beyond, edge, arrow in ((low <= left, left, "<"), (high >= right, right, ">")):
                if is_beyond:
                    ax.plot([edge], [place], arrow, color=ink, ms=7, clip_on=False, zorder=6)
        elif row.value is None:
            ax.annotate(f"{NBSP}not known", (left, place), va="center", color=colour("muted"))
        if row.value is not None:
            ax.plot([row.value], [place], row.marker, color=ink, ms=7.5, mec=colour("paper"))
    if chart.reference is not None:
        ax.axvline(chart.reference, color=colour("muted"), lw=1.0, zorder=1)
    ax.set_xlim(left, right)
    ax.set_yticks(range(len(chart.rows)), [_short(row.label) for row in chart.rows])
    ax.set_ylim(len(chart.rows) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")


def _draw_heat(ax: Axes, chart: HeatChart) -> None:
    x_edges, y_edges = _edges(chart.xs, chart.x), _edges(chart.ys, chart.y)
    values = np.ma.masked_invalid(np.asarray(chart.values, dtype=float))
    mesh = ax.pcolormesh(x_edges, y_edges, values, cmap="YlGnBu", rasterized=False)
    _set_axis(ax, "x", chart.x, [x_edges[0], x_edges[-1]])
    _set_axis(ax, "y", chart.y, [y_edges[0], y_edges[-1]])
    bar = ax.figure.colorbar(mesh, ax=ax, label=_short(chart.label, AXIS_LABEL))
    bar.outline.set_visible(False)
    for each in chart.series:
        _draw_series(ax, each)
    _name_series(ax, chart.series)
    ax.grid(visible=False)


def _edges(values: Sequence[float], axis: Axis) -> list[float]:
    """Borders of cells, half way between their values."""
    at = np.log(values) if axis.is_log else np.asarray(values, dtype=float)
    step = np.diff(at) if len(at) > 1 else np.array([1.0])
    middle = (at[1:] + at[:-1]) / 2 if len(at) > 1 else np.array([])
    edges = np.concatenate([[at[0] - step[0] / 2], middle, [at[-1] + step[-1] / 2]])
    return [float(v) for v in (np.exp(edges) if axis.is_log else edges)]
