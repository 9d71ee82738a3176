"""Choices of data over the number of examples: losses by way, and a map of the best one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from extrap.comparing.selections import RANDOM, SelectionFindings
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import draw_legend_above
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.numbers import format_quantity

__all__ = [
    "ChoiceLosses",
    "ChoiceMap",
    "choice_losses_info",
    "choice_map_info",
    "draw_choice_losses",
    "draw_choice_map",
]

INKS = {"random": "ink", "hard": "fixed", "easy": "law", "active": "good"}
MARKERS = {"random": "o", "hard": "^", "easy": "v", "active": "D"}
LINES = ("-", "--", ":", "-.")
"""Of the kept fractions, the largest first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceLosses:
    """The tuned loss of each way over the kept examples.

    Attributes:
        points: `way`, `choice`, `line` (place of its fraction), `x`, `loss`, `lower`, `upper`.
        crossings: `x`, `lower`, `upper`: where the better of easy and hard changes; NaN if open.
        column: What the horizontal axis counts.
        level: Of the intervals.
    """

    points: pd.DataFrame
    crossings: pd.DataFrame
    column: str
    level: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChoiceMap:
    """Which choice is best, by kept fraction and kept examples.

    Attributes:
        cells: `column`, `row`, `choice`, `is_told`, `is_edge`.
        sizes: Of the columns.
        keeps: Of the rows.
    """

    cells: pd.DataFrame
    sizes: tuple[float, ...]
    keeps: tuple[float, ...]


def choice_losses_info(found: SelectionFindings) -> ChoiceLosses:
    """Gather mean losses and their intervals over resampled seeds."""
    rows = []
    tail = 50 * (1 - found.level)
    for way in found.ways:
        choice, _, keep = way.partition(" ")
        line = 1 + found.keeps.index(float(keep)) if keep and float(keep) in found.keeps else 0
        drawn = found.losses.log_loss[way]
        for i, size in enumerate(found.losses.sizes[way]):
            if not math.isfinite(drawn[0, i]):
                continue
            lower, upper = np.nanpercentile(drawn[1:, i], [tail, 100 - tail])
            log_losses = (drawn[0, i], lower, upper)
            rows.append((way, choice, line, size, *(math.exp(v) for v in log_losses)))
    crossings = [
        (c.size.value, c.size.ci.lower or math.nan, c.size.ci.upper or math.nan)
        for c in found.crossovers.values()
        if c.size.value is not None
    ]
    columns = ["way", "choice", "line", "x", "loss", "lower", "upper"]
    return ChoiceLosses(
        points=pd.DataFrame(rows, columns=columns),
        crossings=pd.DataFrame(crossings, columns=["x", "lower", "upper"], dtype=float),
        column="labelled examples" if found.labels else "kept examples",
        level=found.level,
    )


def choice_map_info(found: SelectionFindings) -> ChoiceMap | None:
    """Gather the best choices; None without a fraction of hard and easy examples."""
    if not found.best:
        return None
    sizes = tuple(sorted({b.size for b in found.best}))
    cells = [
        (sizes.index(b.size), found.keeps.index(b.keep), b.choice, b.is_told, b.is_edge)
        for b in found.best
    ]
    return ChoiceMap(
        cells=pd.DataFrame(cells, columns=["column", "row", "choice", "is_told", "is_edge"]),
        sizes=sizes,
        keeps=found.keeps,
    )


def draw_choice_losses(ax: Axes, info: ChoiceLosses, *, columns: int = 5) -> None:
    """A line a way with bars of its interval; crossings are shaded."""
    for crossing in info.crossings.itertuples():
        if math.isfinite(crossing.lower) and math.isfinite(crossing.upper):
            ax.axvspan(crossing.lower, crossing.upper, color=colour("shade"), lw=0, zorder=0)
        ax.axvline(crossing.x, color=colour("muted"), lw=1, ls=":", zorder=1)
    for way, own in info.points.groupby("way", sort=False):
        choice, line = own["choice"].iloc[0], own["line"].iloc[0]
        ink = colour(INKS[choice])
        ax.vlines(own["x"], own["lower"], own["upper"], color=ink, lw=1.2, zorder=3)
        sns.lineplot(
            x=own["x"],
            y=own["loss"],
            ax=ax,
            color=ink,
            marker=MARKERS[choice],
            markersize=7,
            markeredgecolor=colour("paper"),
            linestyle=LINES[line % len(LINES)],
            linewidth=1.7,
            zorder=5 if choice == RANDOM else 4,
            label=way,
            legend=False,
        )
    set_log_axis(ax, "x", info.points["x"], label=info.column)
    set_log_axis(ax, "y", info.points["loss"], label="tuned loss")
    draw_legend_above(ax, columns=columns)


def draw_choice_map(ax: Axes, info: ChoiceMap) -> None:
    """A tile a cell with the name of the best choice; pale and in brackets where not told.

    A dagger marks a best tuned value at the edge of those tried.
    """
    for cell in info.cells.itertuples():
        ink = colour(INKS[cell.choice])
        ax.add_patch(
            Rectangle(
                (cell.column - 0.47, cell.row - 0.45),
                0.94,
                0.9,
                facecolor=ink,
                alpha=0.32 if cell.is_told else 0.07,
                edgecolor=ink,
                linewidth=1.0,
            )
        )
        ax.text(
            cell.column,
            cell.row,
            (cell.choice if cell.is_told else f"({cell.choice})") + ("†" if cell.is_edge else ""),
            ha="center",
            va="center",
            color=colour("ink" if cell.is_told else "muted"),
        )
    ax.set_xlim(-0.6, len(info.sizes) - 0.4)
    ax.set_ylim(len(info.keeps) - 0.4, -0.6)
    ax.set_xticks(range(len(info.sizes)), [format_quantity(s) for s in info.sizes])
    ax.set_yticks(range(len(info.keeps)), [f"{keep:g}" for keep in info.keeps])
    ax.set_xlabel("kept examples")
    ax.set_ylabel("kept fraction")
    ax.grid(visible=False)
