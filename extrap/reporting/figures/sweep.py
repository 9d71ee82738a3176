"""Metz' four panels: the sweep seen from each side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from extrap.forecasting import Forecast
from extrap.records import Optimum
from extrap.reporting.figures.canvas import colour, ramp, ramp_colormap
from extrap.reporting.figures.scales import positions, set_log_axis, tick_values
from extrap.reporting.groups import RunGroup
from extrap.reporting.numbers import format_quantity
from extrap.reporting.sizes import SizeAxis

__all__ = [
    "OptimumTrend",
    "Sweep",
    "draw_heat_map",
    "draw_loss_by_size",
    "draw_loss_by_tuned",
    "draw_optimum_trend",
    "optimum_trend_info",
    "sweep_info",
]

MAX_POINTS = 1500
"""Beyond so many runs only the mean of each cell is drawn."""
MAX_CELLS = 4000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """The sweep along one size column and one tuned column.

    Attributes:
        axis: The horizontal axis of sizes.
        tuned: The tuned column; None when nothing was tuned.
        runs: `x`, `v`, `loss` of each complete run; empty when there are too many to draw.
        cells: `x`, `v`, `loss`: mean over seeds, the best over other tuned columns.
        diverged: `x`, `v` of cells in which a run diverged.
        optima: `x`, `v`, `loss` of the optima that have a point estimate.
    """

    axis: SizeAxis
    tuned: str | None
    runs: pd.DataFrame
    cells: pd.DataFrame
    diverged: pd.DataFrame
    optima: pd.DataFrame


def sweep_info(forecast: Forecast, axis: SizeAxis, tuned: str | None) -> Sweep:
    """Gather runs, cells and optima on the axis."""
    names = list(forecast.runs.tuned)
    frame = forecast.runs.to_frame()
    keep = [axis.holds({c: row[c] for c in axis.knots[0]}) for _, row in frame.iterrows()]
    frame = frame[keep].assign(x=frame[axis.column].astype(float))
    frame["v"] = frame[tuned].astype(float) if tuned else 1.0
    complete = frame[frame["status"] == "complete"].astype({"loss": float})
    means = complete.groupby(["x", "v", *names], as_index=False)["loss"].mean()
    cells = means.groupby(["x", "v"], as_index=False)["loss"].min()
    diverged = frame.loc[frame["status"] == "diverged", ["x", "v"]].drop_duplicates()
    few = len(complete) <= MAX_POINTS and len(names) <= 1
    shown = [o for o in forecast.optima if axis.holds(o.size) and o.loss is not None]
    return Sweep(
        axis=axis,
        tuned=tuned,
        runs=complete[["x", "v", "loss"]].reset_index(drop=True) if few else complete.iloc[:0],
        cells=cells.iloc[:: max(1, len(cells) // MAX_CELLS)],
        diverged=diverged.sort_values(["x", "v"], ignore_index=True),
        optima=pd.DataFrame(
            [(o.size[axis.column], _value(o, tuned), o.loss) for o in shown],
            columns=["x", "v", "loss"],
            dtype=float,
        ),
    )


def _value(optimum: Optimum, tuned: str | None) -> float:
    value = optimum.tuned[tuned].value if tuned else 1.0
    return float("nan") if value is None else value


def draw_loss_by_size(ax: Axes, info: Sweep) -> None:
    """Panel (a): loss against size, one line a tuned value."""
    _draw_lines(ax, info, along="x", by="v", colours="tuned")
    if not info.optima.empty:
        ax.plot(info.optima["x"], info.optima["loss"], color=colour("ink"), lw=2, zorder=5)
        _note(ax, "black line: at the optimum" if info.tuned else "line: mean")
    set_log_axis(ax, "x", info.cells["x"], label=info.axis.column)
    set_log_axis(ax, "y", info.cells["loss"], label="loss")
    if info.tuned:
        _colour_bar(ax, "tuned", info.cells["v"], info.tuned)


def draw_loss_by_tuned(ax: Axes, info: Sweep) -> None:
    """Panel (b): loss against the tuned value, one line a size, fitted optima marked."""
    _draw_lines(ax, info, along="v", by="x", colours="size")
    places = positions(info.cells["x"])
    for row in info.optima.dropna().itertuples():
        face = ramp("size", places.get(float(row.x), 0.5))
        ax.plot(
            [row.v], [row.loss], "D", ms=7, mfc=face, mec=colour("ink"), mew=1.3, zorder=6
        )
    set_log_axis(ax, "x", info.cells["v"], label=info.tuned or "")
    set_log_axis(ax, "y", info.cells["loss"], label="loss")
    _colour_bar(ax, "size", info.cells["x"], info.axis.column)


def draw_heat_map(ax: Axes, info: Sweep) -> None:
    """Panel (c): the loss over tuned value and size, best values darkest, optima marked."""
    cells = info.cells
    norm = LogNorm(cells["loss"].min(), max(cells["loss"].quantile(0.8), cells["loss"].min() * 1.001))
    colormap = ramp_colormap("heat").reversed()
    grid = cells.pivot(index="x", columns="v", values="loss")
    if grid.notna().to_numpy().mean() > 0.3 and max(grid.shape) <= 80 and min(grid.shape) > 1:
        ax.pcolormesh(
            _edges(grid.columns), _edges(grid.index), np.ma.masked_invalid(grid.to_numpy()),
            norm=norm, cmap=colormap, edgecolors="face", linewidth=0.4,
        )
    else:
        ax.scatter(cells["v"], cells["x"], c=cells["loss"], norm=norm, cmap=colormap, s=26, marker="s")
    ax.scatter(info.diverged["v"], info.diverged["x"], marker="x", s=26, color=colour("bad"), lw=1.2)
    optima = info.optima.dropna()
    ax.plot(
        optima["v"], optima["x"], "-D", color=colour("fixed"), ms=5, lw=1.2, mec="white", zorder=5
    )
    ax.grid(False)
    set_log_axis(ax, "x", cells["v"], label=info.tuned or "")
    set_log_axis(ax, "y", cells["x"], label=info.axis.column)
    bar = ax.figure.colorbar(ScalarMappable(norm, colormap), ax=ax, extend="max", pad=0.02)
    _label_bar(bar, norm, "loss")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptimumTrend:
    """How the optimum of one tuned column moves.

    Attributes:
        axis: The horizontal axis.
        tuned: The tuned column.
        curve: `x`, `value` and its bands; empty without a law.
        optima: `x`, `value`, `lower`, `upper`; the value is NaN where only a side is known.
        judged: `x`, `value`, `best`: tuned values of judged runs; `best` marks the lowest mean loss
            of a size that was tried at several values.
        level: Level of the bands.
    """

    axis: SizeAxis
    tuned: str
    curve: pd.DataFrame
    optima: pd.DataFrame
    judged: pd.DataFrame
    level: float


def optimum_trend_info(
    forecast: Forecast, groups: Sequence[RunGroup], axis: SizeAxis, tuned: str
) -> OptimumTrend:
    """Gather the law of an optimum, the optima, and where larger runs were done."""
    values = axis.values()
    curve = pd.DataFrame()
    if forecast.tuned_laws.get(tuned) is not None:
        estimates = [forecast.at(**axis.at(v)).tuned[tuned] for v in values]
        curve = pd.DataFrame(
            [(x, e.value, *e.ci, *e.pi) for x, e in zip(values, estimates, strict=True)],
            columns=["x", "value", "ci_lower", "ci_upper", "pi_lower", "pi_upper"],
        )
    shown = [o for o in forecast.optima if axis.holds(o.size)]
    rows = [(o.size[axis.column], o.tuned[tuned].value, *o.tuned[tuned].ci) for o in shown]
    return OptimumTrend(
        axis=axis,
        tuned=tuned,
        curve=curve,
        optima=pd.DataFrame(rows, columns=["x", "value", "lower", "upper"], dtype=float),
        judged=_tried(groups, axis, tuned),
        level=forecast.level,
    )


def _tried(groups: Sequence[RunGroup], axis: SizeAxis, tuned: str) -> pd.DataFrame:
    rows = [
        (g.size[axis.column], g.tuned[tuned], g.mean_loss)
        for g in groups
        if axis.holds(g.size) and g.tuned.get(tuned) is not None
    ]
    frame = pd.DataFrame(rows, columns=["x", "value", "loss"], dtype=float)
    by_size = frame.groupby("x")["loss"]
    frame["best"] = (by_size.transform("count") >= 3) & (frame["loss"] == by_size.transform("min"))
    return frame[["x", "value", "best"]]


def draw_optimum_trend(ax: Axes, info: OptimumTrend) -> None:
    """Panel (d): the best tuned value against size, with the law's bands."""
    ax.axvspan(info.axis.low, info.axis.tuned_high, color=colour("shade"), lw=0, zorder=0)
    curve, optima = info.curve, info.optima
    shown = [*optima["value"], *optima["lower"], *optima["upper"], *info.judged["value"]]
    if not curve.empty:
        for kind, alpha in (("pi", 0.14), ("ci", 0.26)):
            ax.fill_between(
                curve["x"], curve[f"{kind}_lower"], curve[f"{kind}_upper"],
                color=colour("law"), alpha=alpha, lw=0,
            )
        sns.lineplot(x=curve["x"], y=curve["value"], ax=ax, color=colour("law"), lw=2, errorbar=None)
        shown += [*curve["pi_lower"], *curve["pi_upper"]]
    known = optima.dropna(subset="value")
    ax.errorbar(
        known["x"], known["value"],
        yerr=[known["value"] - known["lower"], known["upper"] - known["value"]],
        fmt="o", ms=5.5, color=colour("law"), mec=colour("paper"), elinewidth=1, label="optimum",
    )
    _draw_open_sides(ax, optima[optima["value"].isna()])
    tried, best = info.judged[~info.judged["best"]], info.judged[info.judged["best"]]
    ax.plot(tried["x"], tried["value"], "x", ms=5, color=colour("muted"), label="larger run")
    ax.plot(
        best["x"], best["value"], "*", ms=12, color=colour("good"), mec=colour("paper"),
        label="best of a larger sweep",
    )
    set_log_axis(ax, "x", [info.axis.low, info.axis.high], label=info.axis.column, pad=0.03)
    set_log_axis(ax, "y", shown, label=f"best {info.tuned}")


def _draw_open_sides(ax: Axes, rows: pd.DataFrame) -> None:
    """Optima without a point estimate: an arrow towards the side on which they lie."""
    for row in rows.itertuples():
        for bound, marker in ((row.lower, "^"), (row.upper, "v")):
            if np.isfinite(bound):
                ax.plot([row.x], [bound], marker, ms=7, color=colour("warn"), zorder=5)


def _draw_lines(ax: Axes, info: Sweep, *, along: str, by: str, colours: str) -> None:
    places = positions(info.cells[by])
    palette = {key: ramp(colours, place) for key, place in places.items()}
    if not info.runs.empty:
        sns.scatterplot(
            data=info.runs, x=along, y="loss", hue=by, palette=palette, ax=ax, s=9, alpha=0.55,
            linewidth=0, legend=False,
        )
    sns.lineplot(
        data=info.cells, x=along, y="loss", hue=by, palette=palette, ax=ax, lw=1.5,
        errorbar=None, legend=False,
    )


def _edges(centres: pd.Index) -> list[float]:
    """Boundaries half-way between neighbours on a log scale."""
    logs = np.log(np.asarray(centres, dtype=float))
    middle = (logs[1:] + logs[:-1]) / 2
    ends = [2 * logs[0] - middle[0]], [2 * logs[-1] - middle[-1]]
    return [float(v) for v in np.exp(np.concatenate([ends[0], middle, ends[1]]))]


def _colour_bar(ax: Axes, name: str, values: pd.Series, label: str) -> None:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return
    norm = LogNorm(low, high)
    bar = ax.figure.colorbar(ScalarMappable(norm, ramp_colormap(name)), ax=ax, pad=0.02)
    _label_bar(bar, norm, label)


def _label_bar(bar: object, norm: Normalize, label: str) -> None:
    axis = bar.ax.yaxis
    ticks = tick_values(float(norm.vmin), float(norm.vmax), most=6)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([format_quantity(t) for t in ticks]))
    axis.set_minor_locator(NullLocator())
    bar.set_label(label)
    bar.outline.set_visible(False)


def _note(ax: Axes, text: str) -> None:
    ax.text(0.98, 0.97, text, transform=ax.transAxes, ha="right", va="top", fontsize=10,
            color=colour("muted"))
