"""What several pictures draw alike: judged runs, optima, a law's bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.reporting.figures.canvas import colour
from extrap.reporting.groups import RunGroup, verdict_kind

__all__ = [
    "MARKS",
    "draw_bands",
    "draw_judged",
    "draw_legend_above",
    "draw_optima",
    "judged_points",
]

# kind → (marker, colour, name)
MARKS = {
    "on": ("o", "good", "on law"),
    "mixed": ("s", "warn", "runs disagree"),
    "mistuned": ("D", "warn", "off law, mistuned"),
    "off": ("X", "bad", "off law"),
    "none": ("^", "bad", "no loss (diverged, failed)"),
}


def judged_points(groups: Sequence[RunGroup], column: str) -> pd.DataFrame:
    """One row a judged run: `x`, `loss` (NaN if none) and `kind`."""
    rows = [
        {"x": float(v.size[column]), "loss": v.loss, "kind": verdict_kind(v)}
        for g in groups
        for v in g.verdicts
    ]
    frame = pd.DataFrame(rows, columns=["x", "loss", "kind"])
    return frame.astype({"x": float, "loss": float})


def draw_judged(ax: Axes, judged: pd.DataFrame) -> None:
    """Draw judged runs; those without a loss sit at the upper edge."""
    for kind, (marker, name, label) in MARKS.items():
        rows = judged[judged["kind"] == kind]
        if rows.empty:
            continue
        without = rows["loss"].isna()
        style: dict[str, Any] = {
            "color": colour(name),
            "marker": marker,
            "s": 52,
            "zorder": 6,
            "linewidth": 0.8,
            "edgecolor": colour("paper"),
        }
        seen = rows[~without]
        if not seen.empty:
            sns.scatterplot(x=seen["x"], y=seen["loss"], ax=ax, label=label, legend=False, **style)
        for i, x in enumerate(rows.loc[without, "x"].unique()):
            ax.scatter(
                [x],
                [0.97],
                transform=ax.get_xaxis_transform(),
                label=None if i or not seen.empty else label,
                **style,
            )


def draw_bands(
    ax: Axes,
    curve: pd.DataFrame,
    *,
    prefix: str = "",
    labels: Mapping[str, str] | None = None,
    ink: str = "law",
) -> None:
    """A law's bands, the lighter for a new run or optimum (`pi`), the darker for the law (`ci`).

    Args:
        ax: Where to draw.
        curve: `x`, and for both kinds `<prefix><kind>_lower` and `<prefix><kind>_upper`.
        prefix: What the band columns begin with.
        labels: Kind → label in the legend.
        ink: Its colour.
    """
    for kind, alpha in (("pi", 0.14), ("ci", 0.26)):
        ax.fill_between(
            curve["x"],
            curve[f"{prefix}{kind}_lower"],
            curve[f"{prefix}{kind}_upper"],
            color=colour(ink),
            alpha=alpha,
            lw=0,
            label=(labels or {}).get(kind),
        )


def draw_optima(
    ax: Axes,
    optima: pd.DataFrame,
    *,
    ink: str = "law",
    open_ink: str = "warn",
    marker: str = "o",
    label: str = "optimum",
) -> None:
    """Optima with their intervals; where only a side is known, an arrow towards that side.

    Args:
        ax: Where to draw.
        optima: `x`, `value` (NaN where only a side is known), `lower`, `upper`.
        ink: Colour of the optima.
        open_ink: Colour of the arrows.
        marker: Shape of the optima.
        label: Their label in the legend.
    """
    known = optima.dropna(subset="value")
    ax.errorbar(
        known["x"],
        known["value"],
        yerr=[known["value"] - known["lower"], known["upper"] - known["value"]],
        fmt=marker,
        ms=5.5,
        color=colour(ink),
        mec=colour("paper"),
        elinewidth=1,
        zorder=5,
        label=label,
    )
    for row in optima[optima["value"].isna()].itertuples():
        for bound, arrow in ((row.lower, "^"), (row.upper, "v")):
            if np.isfinite(bound):
                ax.plot([row.x], [bound], arrow, ms=7, color=colour(open_ink), zorder=5)


def draw_legend_above(ax: Axes, *, columns: int, handle: float = 1.4) -> None:
    """A legend above the axes that reads row by row.

    Args:
        ax: Where to draw.
        columns: Entries of a row.
        handle: Length of a sample of a line, in font sizes.
    """
    handles, labels = ax.get_legend_handles_labels()
    order = [i for column in range(columns) for i in range(column, len(labels), columns)]
    ax.legend(
        [handles[i] for i in order],
        [labels[i] for i in order],
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        borderaxespad=0.1,
        handlelength=handle,
        handletextpad=0.4,
        columnspacing=1.1,
    )
