"""Sizes that were held out, against what the forecast and the last value had said of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from extrap.backtesting import Backtest
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.scales import set_log_axis

__all__ = ["HeldOut", "draw_held_out", "held_out_info"]

SIDE_STEP = 0.025
"""Marks of one ratio stand side by side, this fraction of the axis apart."""
MANY = 60
"""Beyond so many predictions marks are drawn smaller."""
TALLEST_BAR = 1.7
"""The axis shows intervals up to so many times the largest deviation."""
EDGE = 0.965
"""Where the arrow of an interval that goes on beyond the axis stands, a fraction of its end."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOut:
    """What the figure shows; deviations in percent.

    Attributes:
        points: One row a prediction: `ratio`, `x` (the ratio, moved aside where several share
            it), `deviation` (observed over forecast), `last_deviation` (observed over last
            value, NaN without one), `lower` and `upper` (ends of the interval over forecast) and
            `inside`.
        level: Level of the intervals.
        limit: Upper end of the vertical axis, its lower end is −limit.
    """

    points: pd.DataFrame
    level: float
    limit: float

    @property
    def n_cut(self) -> int:
        """Intervals that are longer than the axis."""
        longest = self.points[["lower", "upper"]].abs().max(axis=1)
        return int((longest > self.limit).sum())

    def cut_ends(self) -> pd.DataFrame:
        """One row an end of an interval beyond the axis: `x`, `side` (1 above, −1 below)."""
        ends = [
            self.points.loc[side * self.points[column] > self.limit, ["x"]].assign(side=side)
            for column, side in (("upper", 1), ("lower", -1))
        ]
        return pd.concat(ends, ignore_index=True)


def held_out_info(found: Backtest) -> HeldOut:
    """Gather deviations and intervals over extrapolation ratios."""
    rows = [
        {
            "ratio": h.extrapolation_ratio,
            "deviation": 100 * h.deviation,
            "last_deviation": math.nan if h.last_deviation is None else 100 * h.last_deviation,
            "lower": 100 * ((h.predicted_pi.lower or 0.0) / h.predicted - 1),
            "upper": 100 * ((h.predicted_pi.upper or math.inf) / h.predicted - 1),
            "inside": h.observed in h.predicted_pi,
        }
        for h in found.holdouts
    ]
    points = pd.DataFrame(rows)
    points.insert(1, "x", _side_by_side(points["ratio"]))
    seen = float(points[["deviation", "last_deviation"]].abs().max(axis=None))
    bars = points[["lower", "upper"]].abs().to_numpy()
    limit = min(float(bars.max()), TALLEST_BAR * max(seen, 1e-3))
    return HeldOut(points=points, level=found.level, limit=1.1 * max(limit, seen))


def _side_by_side(ratio: pd.Series) -> pd.Series:
    """Ratios with those that are equal moved apart on a log scale."""
    key = ratio.map(lambda value: float(f"{value:.6g}"))
    span = max(float(np.log(ratio.max() / ratio.min())), 0.5)
    rank = key.groupby(key).cumcount()
    middle = (key.groupby(key).transform("size") - 1) / 2
    return ratio * np.exp(SIDE_STEP * span * (rank - middle))


def draw_held_out(ax: Axes, info: HeldOut) -> None:
    """Observed against forecast over extrapolation ratio: bars, dots in or out of them."""
    points, few = info.points, len(info.points) <= MANY
    size, width = (60, 6.5) if few else (18, 2.0)
    ax.axhline(0.0, color=colour("law"), lw=1.5, label="forecast")
    ax.vlines(
        points["x"],
        points["lower"].clip(lower=-2 * info.limit),
        points["upper"].clip(upper=2 * info.limit),
        color=colour("law"),
        alpha=0.28,
        lw=width,
        label=f"its {100 * info.level:g} % interval",
    )
    for side, rows in info.cut_ends().groupby("side"):
        ax.scatter(
            rows["x"],
            [EDGE * side * info.limit] * len(rows),
            marker="^" if side > 0 else "v",
            s=size,
            color=colour("law"),
            edgecolor=colour("paper"),
            linewidth=0.8 if few else 0.3,
            zorder=4,
        )
    kinds = (
        (points.dropna(subset="last_deviation"), "last_deviation", "D", "fixed", "last value"),
        (points[points["inside"]], "deviation", "o", "good", "held out, inside"),
        (points[~points["inside"]], "deviation", "X", "bad", "held out, outside"),
    )
    for rows, column, marker, ink, label in kinds:
        if rows.empty:
            continue
        sns.scatterplot(
            x=rows["x"],
            y=rows[column],
            ax=ax,
            marker=marker,
            s=size * (0.6 if marker == "D" else 1.0),
            color=colour(ink),
            edgecolor=colour("paper"),
            linewidth=0.8 if few else 0.3,
            zorder=5,
            label=label,
            legend=False,
        )
    set_log_axis(ax, "x", points["x"], label="times the largest fitted size", pad=0.07, most=9)
    ax.set_ylim(-info.limit, info.limit)
    ax.yaxis.set_major_locator(MaxNLocator(7))
    ax.yaxis.set_major_formatter(FuncFormatter(_signed))
    ax.set_ylabel("observed against predicted, %")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2)


def _signed(value: float, _: object) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+g}".replace("-", "−")
