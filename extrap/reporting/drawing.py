"""Charts drawn with seaborn: as SVG for a page, or on axes of your own.

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
from dataclasses import replace
from html import escape
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from extrap.records import Interval
from extrap.records.numbers import NBSP, format_decimals, format_quantity
from extrap.reporting.charts import Axis, Chart, HeatChart, RowsChart, Series, XYChart

CHART_WIDTH, CHART_HEIGHT = 460, 330
"""Size of a chart in pixels."""
ROW_HEIGHT = 26
"""Pixels of a row of a `RowsChart`."""
LEGEND_ROWS, LEGEND_ROW = 4, 14
"""Rows of names above a chart of the usual size, and pixels that each further one adds."""
INTERVAL_REACH_SHARE = 0.6
"""Share of the values' span by which intervals may widen an axis; what is beyond is cut off."""
AXIS_LABEL, LABEL, LEGEND = 50, 30, 64
"""Characters of the label of an axis, of another name, and of a row of names."""
MOST_TICKS = 6
"""Labelled ticks of an axis."""
LOG_MARGIN_SHARE = 0.05
"""Room beside the values of a logarithmic axis, as a share of their span."""
MOST_MARKS = 5000
"""Marks that are drawn as paths; more become one image."""
MARK_SIZE, MARKER_SIZES = 42.0, {"*": 154.0, "X": 70.0, "P": 80.0, ".": 60.0}
"""Area of a marker in square points, and of those that need another."""
DASHES = {"": "", "-": "", "--": (4, 1.6), ":": (1, 1.6)}
"""Line of a series → its dashes and gaps, in multiples of the line's width."""
N_RAMP_COLOURS = 12
"""Colours of the ramp of sizes."""
_BLUE, _ORANGE, _GREEN, _RED = sns.color_palette("colorblind", 4)
_RAMP = sns.color_palette("viridis", N_RAMP_COLOURS + 3).as_hex()


def _shades(hue: tuple[float, ...], light: float, dark: float) -> tuple[str, str]:
    """A hue with the lightness that has contrast on either paper, softer on the dark one."""
    pair = sns.set_hls_values(hue, l=light), sns.set_hls_values(hue, l=dark, s=0.7)
    return to_hex(pair[0]), to_hex(pair[1])


COLOURS = {
    "ink": ("#1d2433", "#e6e9ef"),
    "muted": ("#5d6778", "#9aa5b8"),
    "grid": ("#e3e7ee", "#2b323e"),
    "paper": ("#ffffff", "#161a21"),
    "law": _shades(_BLUE, 0.34, 0.65),
    "good": _shades(_GREEN, 0.24, 0.5),
    "warn": _shades(_ORANGE, 0.3, 0.6),
    "bad": _shades(_RED, 0.33, 0.62),
    **{f"size-{i}": (_RAMP[i], _RAMP[i + 3]) for i in range(N_RAMP_COLOURS)},
}
"""Name → colour of a light page, of a dark one."""
VARIABLES = {light: f"var(--{name},{light})" for name, (light, _) in COLOURS.items()}
"""Colour on white → the CSS variable of a page, which is another colour in dark mode."""
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""Characters that no XML may hold."""
_SVG_HEAD = re.compile(
    r"^.*?<svg[^>]*>|<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", re.DOTALL
)
_UNUSED_MARKUP = re.compile(
    r' id="[A-Za-z.0-9]+_\d+"|font-family: [^;]*; |xlink:|(?<=base64,)\s|\s(?=[\s"/]|$)'
)
"""Parts of SVG tags that are removed: ids that nothing refers to, fonts, spaces."""


def colour(name: str) -> str:
    """The colour of a name, or of a place on a ramp such as `size:0.4`, on white."""
    ramp, colon, position = name.partition(":")
    return COLOURS[f"{ramp}-{round(float(position) * (N_RAMP_COLOURS - 1))}" if colon else name][0]


def style_sheet(mode: str) -> str:
    """CSS declarations of every colour, for `"light"` or `"dark"`."""
    return ";".join(f"--{name}:{pair[mode == 'dark']}" for name, pair in COLOURS.items())


def chart_svg(chart: Chart, *, key: str) -> str:
    """A chart as an inline `<svg>` element.

    Args:
        chart: The chart.
        key: Prefix of all ids, unique within the page; letters and digits.
    """
    height = CHART_HEIGHT
    if isinstance(chart, RowsChart):
        height = min(max(96 + ROW_HEIGHT * len(chart.rows), 150), 900)
    elif isinstance(chart, XYChart):
        labels = [_short(series.label) for series in chart.series if series.label]
        n_rows = math.ceil(len(labels) / _legend_columns(labels))
        height += LEGEND_ROW * max(n_rows - LEGEND_ROWS, 0)

    def inline(tag: re.Match[str]) -> str:
        text = _UNUSED_MARKUP.sub("", tag[0])
        text = re.sub(r'( id="| href="#|url\(#)', rf"\g<1>{key}-", text)
        text = re.sub(r"\d+\.\d{3,}", lambda number: str(round(float(number[0]), 2)), text)
        return re.sub("#[0-9a-f]{6}", lambda hue: VARIABLES.get(hue[0], hue[0]), text)

    svg = _SVG_HEAD.sub("", _drawn(lambda ax: draw_chart(ax, chart), CHART_WIDTH, height))
    svg = re.sub(r"<[^>]*>\s*", inline, _NO_XML.sub("\ufffd", svg))
    label = escape(_NO_XML.sub("\ufffd", chart.title))
    view = f'viewBox="0 0 {CHART_WIDTH} {height}" role="img" aria-label="{label}" id="{key}"'
    return f"<svg {view}>{svg}"


def _drawn(draw: Callable[[Axes], object], width: int, height: int) -> str:
    """A figure of so many pixels in the theme of a page, as an SVG document."""
    ink, muted = colour("ink"), colour("muted")
    theme = {
        **sns.axes_style("whitegrid", {"axes.spines.top": False, "axes.spines.right": False}),
        **sns.plotting_context("notebook", font_scale=0.96),
        **{"text.color": ink, "axes.labelcolor": ink, "axes.edgecolor": muted},
        **{"xtick.color": muted, "ytick.color": muted, "grid.color": colour("grid")},
        **{"svg.hashsalt": "extrap", "svg.fonttype": "none", "text.parse_math": False},
    }
    buffer = io.StringIO()
    with mpl.rc_context(), warnings.catch_warnings():
        # the reader's font has it
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*missing.*")
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        mpl.rcdefaults()
        mpl.rcParams.update(theme)
        figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
        draw(figure.add_subplot())
        metadata = {"Date": None, "Creator": None}
        figure.savefig(buffer, format="svg", transparent=True, metadata=metadata)
    return buffer.getvalue()


def plot_charts(charts: Sequence[Chart], axes: Sequence[Axes] | None = None) -> Figure:
    """Draw charts on these axes, or side by side on a new figure, in the theme that is set."""
    if axes is None:
        panels = pd.DataFrame({"panel": range(len(charts))})
        options = {"sharex": False, "sharey": False, "height": 4.2, "aspect": 1.33}
        grid = sns.FacetGrid(panels, col="panel", **options).set_titles("")
        grid.figure.set_layout_engine("constrained")  # with room for the legends
        axes = grid.axes.flat
    with mpl.rc_context({"text.parse_math": False}):
        for chart, ax in zip(charts, axes, strict=True):
            draw_chart(ax, chart)
    figure: Any = axes[0].figure
    return figure


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
        ax.axvspan(*chart.shaded, color=colour("muted"), alpha=0.1, lw=0, zorder=0)
    if chart.reference is not None:
        ax.axhline(chart.reference, color=colour("muted"), lw=1.0, zorder=1)
    _set_axis(ax, "x", chart.x, [x for series in chart.series for x in series.x])
    values = [y for series in chart.series for y in series.y]
    ends = [end for series in chart.series for end in (*series.lower, *series.upper)]
    _set_axis(ax, "y", chart.y, _reach(chart.y, values, ends, reference=chart.reference))
    _draw_series(ax, chart.series)
    _set_labels(ax, chart.x.label, chart.y.label)


def _draw_series(ax: Axes, shown: Sequence[Series]) -> None:
    """Bands, lines, bars and marks, and a legend; open sides reach to the edge of the axes."""
    if not shown:
        return
    table = pd.concat([_table(ax, series, i) for i, series in enumerate(shown)])
    inks = {i: colour(series.ink) for i, series in enumerate(shown)}
    style: dict[str, Any] = {"x": "x", "hue": "series", "palette": inks, "legend": False, "ax": ax}

    def rows_of(has: Callable[[Series], object], *columns: str) -> pd.DataFrame:
        rows = table[[bool(has(shown[i])) for i in table["series"]]]
        return rows.dropna(subset=list(columns), how="all") if columns else rows

    ends = dict(zip(("lower", "upper"), ax.get_ylim(), strict=True))
    bands = rows_of(lambda series: series.is_band and (series.lower or series.upper))
    bars = rows_of(lambda series: not series.is_band, *ends)
    for rows, err_style, err_kws in (
        (bands, "band", {"alpha": 0.15, "lw": 0, "zorder": 1}),
        (bars, "bars", {"elinewidth": 1.3, "zorder": 4}),
    ):
        if rows.empty:
            continue
        sides = rows.fillna(ends).melt(["series", "x"], [*ends], value_name="end")
        options = {"errorbar": _span, "err_style": err_style, "err_kws": err_kws}
        sns.lineplot(sides, y="end", linestyle="", **options, **style)
    style |= {"y": "y", "style": "series"}
    lines = rows_of(lambda series: series.line, "y")
    dashes = {i: DASHES[series.line] for i, series in enumerate(shown)}
    if len(lines):
        sns.lineplot(lines, estimator=None, dashes=dashes, lw=1.9, zorder=2, **style)
    marks = rows_of(lambda series: series.marker, "y")
    if len(marks):
        sns.scatterplot(
            marks,
            markers={i: series.marker or "o" for i, series in enumerate(shown)},
            size="series",
            sizes={
                i: MARKER_SIZES.get(series.marker, MARK_SIZE) for i, series in enumerate(shown)
            },
            edgecolor=colour("paper"),
            linewidth=0.7,
            rasterized=len(marks) > MOST_MARKS,
            clip_on=False,
            zorder=5,
            **style,
        )
    _add_legend(ax, [series for series in shown if series.label])


def _table(ax: Axes, series: Series, index: int) -> pd.DataFrame:
    """One row per point; NaN for what is not known or has no place on the axes."""
    unknown = (math.nan,) * len(series.x)
    lower, upper = series.lower or unknown, series.upper or unknown
    columns = {"x": series.x, "y": series.y, "lower": lower, "upper": upper}
    numbers = pd.DataFrame(columns, dtype=float)
    scales = (ax.get_xscale(), *[ax.get_yscale()] * 3)
    has_place = np.isfinite(numbers) & (numbers > [0 if s == "log" else -math.inf for s in scales])
    return numbers.where(has_place).dropna(subset=["x"]).assign(series=index)


def _span(ends: pd.Series) -> tuple[float, float]:
    return ends.min(), ends.max()


def _add_legend(ax: Axes, named: Sequence[Series]) -> None:
    """The names of series above the axes, where they cover nothing."""
    labels = [_short(series.label) for series in named]
    handles = [
        Line2D(
            [],
            [],
            color=colour(series.ink),
            dashes=(None, None) if DASHES[series.line] == "" else DASHES[series.line],
            lw=1.9 if series.line or not series.marker else 0,
            marker=series.marker,
            markersize=math.sqrt(MARKER_SIZES.get(series.marker, MARK_SIZE)),
            markeredgecolor=colour("paper"),
        )
        for series in named
    ]
    style: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "frameon": False}
    ax.legend(handles, labels, ncols=_legend_columns(labels), **style)


def _legend_columns(labels: Sequence[str]) -> int:
    """How many columns of names fit above a chart."""
    width = 6 + max(map(len, labels), default=0)
    return max(1, min(len(labels), LEGEND // width))


def _reach(
    axis: Axis, values: Iterable[float], ends: Iterable[float], *, reference: float | None = None
) -> list[float]:
    """What an axis shows: every value, and the ends of intervals as far as they may reach."""
    shown = [value for value in values if _fits(axis, value)]
    shown += [] if reference is None or axis.is_log else [reference]
    sides = [end for end in ends if _fits(axis, end)]
    shown = shown or sides or [1.0]
    transform, inverse, least = (math.log, math.exp, 0.02) if axis.is_log else (float, float, 1e-6)
    low, high = transform(min(shown)), transform(max(shown))
    margin = max(INTERVAL_REACH_SHARE * (high - low), least)
    return [
        *shown,
        *(inverse(min(max(transform(end), low - margin), high + margin)) for end in sides),
    ]


def _fits(axis: Axis, value: float) -> bool:
    return math.isfinite(value) and (value > 0 or not axis.is_log)


def _tick_labels(ticks: Sequence[float]) -> list[str]:
    """Ticks close together share their number of decimals."""
    labels: list[str] = [format_quantity(tick) for tick in ticks]
    is_plain = not set("".join(labels)) - set("0123456789.")
    if len(ticks) > 1 and ticks[-1] / ticks[0] < 4 and is_plain:
        decimals = max(len(label.partition(".")[2]) for label in labels)
        return [format_decimals(tick, decimals) for tick in ticks]
    return labels


def _percent_tick(fraction: float) -> str:
    """The label of a tick of relative differences: `0`, `+2.5 %`."""
    if abs(fraction) < 1e-9:
        return "0"
    return f"{'+' if fraction > 0 else ''}{format_quantity(100 * fraction, digits=3)} %"


def _set_axis(ax: Axes, which: str, axis: Axis, values: Sequence[float]) -> None:
    shown = [*(v for v in values if _fits(axis, v)), *(axis.limits or ())] or [1.0]
    low, high = min(shown), max(shown)
    mpl_axis = ax.xaxis if which == "x" else ax.yaxis
    if axis.is_log:
        margin = (high / low) ** LOG_MARGIN_SHARE if high > 1.05 * low else 1.5
        low, high = low / margin, high * margin
        ticks = _log_ticks(low, high)
        ax.set(**{f"{which}scale": "log"})
        mpl_axis.set_major_locator(FixedLocator(ticks))
        mpl_axis.set_major_formatter(FixedFormatter(_tick_labels(ticks)))
        mpl_axis.set_minor_locator(NullLocator())
    else:
        margin = 0.06 * (high - low) or 0.01
        low, high = low - margin, high + margin
        mpl_axis.set_major_locator(MaxNLocator(MOST_TICKS))
        if axis.is_percent:
            mpl_axis.set_major_formatter(FuncFormatter(lambda value, _: _percent_tick(value)))
    ax.set(**{f"{which}lim": (low, high)})


def _set_labels(ax: Axes, *labels: str) -> None:
    for axis, label in zip((ax.xaxis, ax.yaxis), labels, strict=True):
        axis.set_label_text(_short(label, AXIS_LABEL), parse_math=False)


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two positive ones: evenly spaced, powers of two, or 1, 2, 5."""
    if high < 4 * low:
        locators: list[Locator] = [MaxNLocator(MOST_TICKS - 1, steps=[1, 2, 2.5, 5, 10])]
    elif low >= 1 and high <= 65536:
        locators = [LogLocator(2, numticks=MOST_TICKS)]
    else:
        subs = ((1, 2, 5), (1, 3), (1,))
        locators = [LogLocator(10, subs=multiples, numticks=MOST_TICKS) for multiples in subs]
    ticks: list[float] = []
    for locator in locators:
        ticks = [float(t) for t in locator.tick_values(low, high) if low <= t <= high]
        if len(ticks) <= MOST_TICKS:
            break
    return ticks


def _short(label: str, most: int = LABEL) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _draw_rows(ax: Axes, chart: RowsChart) -> None:
    values = [row.value for row in chart.rows if row.value is not None]
    ends = [end for row in chart.rows for end in row.interval if end is not None]
    reference = [] if chart.reference is None else [chart.reference]
    _set_axis(ax, "x", chart.axis, [*_reach(chart.axis, values, ends), *reference])
    left, right = ax.get_xlim()
    sides, marks = [], []
    for position, row in enumerate(chart.rows):
        if row.value is not None:
            marks.append(Series(x=(row.value,), y=(position,), ink=row.ink, marker="o"))
        if row.interval != Interval():
            edges = zip(row.interval, (left, right), "<>", strict=True)
            for end, edge, arrow in edges:  # the arrow: the interval goes on beyond the axes
                side = edge if end is None else min(max(end, left), right)
                sides.append((side, position, row.ink))
                if side == edge:
                    marks.append(Series(x=(edge,), y=(position,), ink=row.ink, marker=arrow))
        elif row.value is None:
            ax.annotate(f"{NBSP}not known", (left, position), va="center", color=colour("muted"))
    if sides:
        table = pd.DataFrame(sides, columns=["side", "position", "ink"])
        sns.pointplot(
            table,
            x="side",
            y="position",
            hue="ink",
            palette={ink: colour(ink) for ink in table["ink"]},
            orient="y",
            native_scale=True,
            errorbar=_span,
            err_kws={"alpha": 0.4, "linewidth": 6, "solid_capstyle": "butt"},
            marker="",
            linestyle="none",
            legend=False,
            ax=ax,
        )
    _draw_series(ax, marks)
    if chart.reference is not None:
        ax.axvline(chart.reference, color=colour("muted"), lw=1.0, zorder=1)
    ax.set(xlim=(left, right), ylim=(len(chart.rows) - 0.5, -0.5))
    ax.set_yticks(range(len(chart.rows)), [_short(row.label) for row in chart.rows])
    ax.grid(visible=False, axis="y")
    _set_labels(ax, chart.axis.label, "")


def _draw_heat(ax: Axes, chart: HeatChart) -> None:
    cells, label = pd.DataFrame(chart.values, dtype=float), _short(chart.label, AXIS_LABEL)
    options = {"cmap": "crest", "cbar_kws": {"label": label}}
    sns.heatmap(cells, xticklabels=False, yticklabels=False, ax=ax, **options)
    ax.invert_yaxis()
    for axis, values in ((ax.xaxis, chart.xs), (ax.yaxis, chart.ys)):
        named = values[:: math.ceil(len(values) / MOST_TICKS)]
        axis.set_ticks(_over_cells(named, values), _tick_labels(named))
    _draw_series(
        ax,
        [
            replace(series, x=_over_cells(series.x, chart.xs), y=_over_cells(series.y, chart.ys))
            for series in chart.series
        ],
    )
    _set_labels(ax, chart.x, chart.y)


def _over_cells(values: Sequence[float], among: Sequence[float]) -> tuple[float, ...]:
    """Where positive values lie over cells, whose middles are at 0.5, 1.5, …; NaN beyond them."""
    places = np.log(among), np.arange(len(among)) + 0.5
    return tuple(np.interp(np.log(values), *places, left=math.nan, right=math.nan).tolist())
