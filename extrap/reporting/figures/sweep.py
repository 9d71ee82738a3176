"""Metz' four panels: the sweep seen from each side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from extrap.forecasting import Forecast
from extrap.records import Optimum
from extrap.reporting.divergence import CHANCES, threshold
from extrap.reporting.figures.canvas import colour, ramp, ramp_colormap
from extrap.reporting.figures.hints import tell_cells
from extrap.reporting.figures.scales import positions, set_log_axis, tick_labels, tick_values
from extrap.reporting.sizes import SizeAxis

__all__ = [
    "Sweep",
    "draw_heat_map",
    "draw_loss_by_size",
    "draw_loss_by_tuned",
    "sweep_info",
]

MAX_POINTS = 1500
"""Beyond so many runs only the mean of each cell is drawn."""
MAX_VALUES = 48
"""More different tuned values than this (a random search, say) are grouped into bins."""
N_BINS = 24
N_LIMIT = 20
"""Points of a contour."""


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
        limits: `chance`, `x`, `v`: where runs diverge with a given chance, other tuned values at
            their optimum; empty without a model of divergence.
        note: How the runs were thinned; empty if they were not.
    """

    axis: SizeAxis
    tuned: str | None
    runs: pd.DataFrame
    cells: pd.DataFrame
    diverged: pd.DataFrame
    optima: pd.DataFrame
    limits: pd.DataFrame
    note: str


def sweep_info(forecast: Forecast, axis: SizeAxis, tuned: str | None) -> Sweep:
    """Gather runs, cells and optima on the axis."""
    names = list(forecast.runs.tuned)
    frame = forecast.runs.to_frame()
    frame = axis.select(frame).assign(x=lambda f: f[axis.column].astype(float))
    frame["v"] = frame[tuned].astype(float) if tuned else 1.0
    n_values = frame["v"].nunique()
    if n_values > MAX_VALUES:
        frame["v"] = _binned(frame["v"])
        names = []
    complete = frame[frame["status"] == "complete"].astype({"loss": float})
    means = complete.groupby(["x", "v", *names], as_index=False)["loss"].mean()
    cells = means.groupby(["x", "v"], as_index=False)["loss"].min()
    diverged = frame.loc[frame["status"] == "diverged", ["x", "v"]].drop_duplicates()
    few = len(complete) <= MAX_POINTS and len(names) <= 1 and n_values <= MAX_VALUES
    shown = [o for o in forecast.optima if axis.holds(o.size) and o.loss is not None]
    return Sweep(
        axis=axis,
        tuned=tuned,
        runs=complete[["x", "v", "loss"]].reset_index(drop=True) if few else complete.iloc[:0],
        cells=cells,
        diverged=diverged.sort_values(["x", "v"], ignore_index=True),
        optima=pd.DataFrame(
            [(o.size[axis.column], _value(o, tuned), o.loss) for o in shown],
            columns=["x", "v", "loss"],
            dtype=float,
        ),
        limits=_limits(forecast, axis, tuned),
        note=_thinning(tuned, n_values, len(names), few),
    )


def _limits(forecast: Forecast, axis: SizeAxis, tuned: str | None) -> pd.DataFrame:
    """Contours of the chance of divergence over the sizes of the sweep."""
    rows = []
    if forecast.divergence is not None and tuned:
        for x in np.geomspace(axis.low, axis.tuned_high, N_LIMIT):
            size = axis.at(float(x))
            others = {n: e.value for n, e in forecast.predict_tuned(size).items() if n != tuned}
            known = {name: value for name, value in others.items() if value is not None}
            if len(known) == len(others):
                rows += [
                    (chance, x, threshold(forecast.divergence, size, known, tuned, chance))
                    for chance in CHANCES
                ]
    return pd.DataFrame(rows, columns=["chance", "x", "v"], dtype=float).dropna()


def _thinning(tuned: str | None, n_values: int, n_tuned: int, few: bool) -> str:
    if n_values > MAX_VALUES:
        return f"{n_values} values of {tuned} in {N_BINS} bins; lines: mean of a bin."
    if n_tuned > 1:
        return f"Lines: the best over the other tuned values at each {tuned}."
    return "" if few else "Lines: mean over seeds; single runs are too many to draw."


def _binned(values: pd.Series) -> pd.Series:
    """Centres of equal bins on a log scale."""
    logs = np.log(values)
    low, width = logs.min(), np.ptp(logs) / N_BINS
    place = np.minimum(np.floor((logs - low) / width), N_BINS - 1)
    return pd.Series(np.exp(low + (place + 0.5) * width), index=values.index)


def _value(optimum: Optimum, tuned: str | None) -> float:
    value = optimum.tuned[tuned].value if tuned else 1.0
    return float("nan") if value is None else value


def draw_loss_by_size(ax: Axes, info: Sweep) -> None:
    """Panel (a): loss against size, one line a tuned value."""
    _draw_lines(ax, info, along="x", by="v", colours="tuned")
    if not info.optima.empty:
        ax.plot(info.optima["x"], info.optima["loss"], color=colour("ink"), lw=2, zorder=5)
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
        ax.plot([row.v], [row.loss], "D", ms=7, mfc=face, mec=colour("ink"), mew=1.3, zorder=6)
    set_log_axis(ax, "x", info.cells["v"], label=info.tuned or "")
    set_log_axis(ax, "y", info.cells["loss"], label="loss")
    _colour_bar(ax, "size", info.cells["x"], info.axis.column)


def draw_heat_map(ax: Axes, info: Sweep) -> None:
    """Panel (c): the loss over tuned value and size, best values darkest, optima marked."""
    cells = info.cells
    norm = LogNorm(
        cells["loss"].min(), max(cells["loss"].quantile(0.8), cells["loss"].min() * 1.001)
    )
    colormap = ramp_colormap("heat").reversed()
    grid = cells.pivot(index="x", columns="v", values="loss")
    if grid.notna().to_numpy().mean() > 0.3 and max(grid.shape) <= 80 and min(grid.shape) > 1:
        mesh = ax.pcolormesh(
            _edges(grid.columns),
            _edges(grid.index),
            np.ma.masked_invalid(grid.to_numpy()),
            norm=norm,
            cmap=colormap,
            edgecolors="face",
            linewidth=0.9,
        )
        tell_cells(mesh, grid.columns, grid.index)
    else:
        ax.scatter(
            cells["v"], cells["x"], c=cells["loss"], norm=norm, cmap=colormap, s=26, marker="s"
        )
    ax.scatter(
        info.diverged["v"], info.diverged["x"], marker="x", s=26, color=colour("bad"), lw=1.2
    )
    optima = info.optima.dropna()
    ax.plot(
        optima["v"], optima["x"], "-D", color=colour("fixed"), ms=5, lw=1.2, mec="white", zorder=5
    )
    _draw_limits(ax, info)
    ax.grid(False)
    set_log_axis(ax, "x", cells["v"], label=info.tuned or "")
    set_log_axis(ax, "y", cells["x"], label=info.axis.column)
    bar = ax.figure.colorbar(ScalarMappable(norm, colormap), ax=ax, extend="max", pad=0.02)
    _label_bar(bar, norm, "loss")


def _draw_limits(ax: Axes, info: Sweep) -> None:
    """Contours of the chance of divergence, named where they leave the top."""
    low, high = float(info.cells["v"].min()), float(info.cells["v"].max())
    for chance, rows in info.limits.groupby("chance"):
        ax.plot(rows["v"], rows["x"], lw=3.5, color=colour("paper"), alpha=0.75, zorder=4)
        ax.plot(rows["v"], rows["x"], "--", lw=1.4, color=colour("bad"), zorder=4)
        last = float(rows["v"].iloc[-1])
        if low <= last <= high:
            ax.annotate(
                f"{100 * float(chance):g} %",
                (last, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="right" if chance == CHANCES[0] else "left",
                color=colour("bad"),
                fontsize=9.5,
                annotation_clip=False,
            )


def _draw_lines(ax: Axes, info: Sweep, *, along: str, by: str, colours: str) -> None:
    places = positions(info.cells[by])
    palette = {key: ramp(colours, place) for key, place in places.items()}
    if not info.runs.empty:
        sns.scatterplot(
            data=info.runs,
            x=along,
            y="loss",
            hue=by,
            palette=palette,
            ax=ax,
            s=9,
            alpha=0.55,
            linewidth=0,
            legend=False,
        )
    sns.lineplot(
        data=info.cells,
        x=along,
        y="loss",
        hue=by,
        palette=palette,
        ax=ax,
        lw=1.5,
        errorbar=None,
        legend=False,
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


def _label_bar(bar: Colorbar, norm: Normalize, label: str) -> None:
    axis = bar.ax.yaxis
    ticks = tick_values(norm.vmin or 1.0, norm.vmax or 1.0, most=6)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter(tick_labels(ticks)))
    axis.set_minor_locator(NullLocator())
    bar.set_label(label)
    bar.outline.set_visible(False)
    if bar.solids is not None:
        bar.solids.set_edgecolor("face")
