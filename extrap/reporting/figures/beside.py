"""Two studies on common axes: their laws of the loss, or of an optimum."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import draw_legend_above
from extrap.reporting.figures.scales import set_log_axis

__all__ = ["Beside", "draw_beside"]

INKS = ("law", "fixed")
MARKERS = ("o", "D")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """What the figure shows, for each of two studies.

    Attributes:
        column: The horizontal axis.
        quantity: The vertical axis.
        names: What the studies are called.
        curves: `x`, `value`, `lower`, `upper`: the forecast and its prediction interval.
        points: `x`, `value`: fitted optima.
    """

    column: str
    quantity: str
    names: tuple[str, str]
    curves: tuple[pd.DataFrame, pd.DataFrame]
    points: tuple[pd.DataFrame, pd.DataFrame]


def draw_beside(ax: Axes, info: Beside) -> None:
    """Both curves with their bands, and the optima they were fitted to."""
    x: list[float] = []
    y: list[float] = []
    for i, name in enumerate(info.names):
        ink, curve, points = colour(INKS[i]), info.curves[i], info.points[i]
        if not curve.empty:
            ax.fill_between(
                curve["x"], curve["lower"], curve["upper"], color=ink, alpha=0.14, lw=0
            )
            sns.lineplot(
                x=curve["x"],
                y=curve["value"],
                ax=ax,
                color=ink,
                lw=2,
                ls="-" if i == 0 else "--",
                label=name,
                errorbar=None,
                legend=False,
            )
        ax.plot(
            points["x"],
            points["value"],
            MARKERS[i],
            ms=5.5,
            color=ink,
            mec=colour("paper"),
            zorder=5,
            label=f"{name}: optima",
        )
        x += [*curve["x"], *points["x"]]
        y += [*curve["lower"], *curve["upper"], *points["value"]]
    set_log_axis(ax, "x", x, label=info.column, pad=0.03)
    set_log_axis(ax, "y", y, label=info.quantity)
    draw_legend_above(ax, columns=1 if max(map(len, info.names)) > 24 else 2)
