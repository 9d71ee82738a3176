"""Where the optimum of a tuned value lies, and where the law says it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.forecasting import Forecast
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import draw_bands
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.groups import RunGroup
from extrap.reporting.sizes import SizeAxis

__all__ = ["OptimumTrend", "draw_optimum_trend", "optimum_trend_info"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptimumTrend:
    """How the optimum of one tuned column moves.

    Attributes:
        axis: The horizontal axis.
        tuned: The tuned column.
        curve: `x`, `value` and its bands; empty without a law.
        optima: `x`, `value`, `lower`, `upper`; the value is NaN where only a side is known.
        judged: `x`, `value`, `best`: tuned values of judged runs; `best` marks the lowest mean
            loss of a size that was tried at three values or more.
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
        draw_bands(ax, curve)
        sns.lineplot(
            x=curve["x"], y=curve["value"], ax=ax, color=colour("law"), lw=2, errorbar=None
        )
        shown += [*curve["pi_lower"], *curve["pi_upper"]]
    known = optima.dropna(subset="value")
    ax.errorbar(
        known["x"],
        known["value"],
        yerr=[known["value"] - known["lower"], known["upper"] - known["value"]],
        fmt="o",
        ms=5.5,
        color=colour("law"),
        mec=colour("paper"),
        elinewidth=1,
        label="optimum",
    )
    _draw_open_sides(ax, optima[optima["value"].isna()])
    tried, best = info.judged[~info.judged["best"]], info.judged[info.judged["best"]]
    ax.plot(tried["x"], tried["value"], "x", ms=5, color=colour("muted"), label="larger run")
    ax.plot(
        best["x"],
        best["value"],
        "*",
        ms=12,
        color=colour("good"),
        mec=colour("paper"),
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
