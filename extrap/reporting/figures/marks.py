"""What several pictures draw alike: judged runs, a shape and colour a kind; a law's bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.reporting.figures.canvas import colour
from extrap.reporting.groups import RunGroup, verdict_kind

__all__ = ["MARKS", "draw_bands", "draw_judged", "judged_points"]

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
    ax: Axes, curve: pd.DataFrame, *, prefix: str = "", labels: Mapping[str, str] | None = None
) -> None:
    """A law's bands, the lighter for a new run or optimum (`pi`), the darker for the law (`ci`).

    Args:
        ax: Where to draw.
        curve: `x`, and for both kinds `<prefix><kind>_lower` and `<prefix><kind>_upper`.
        prefix: What the band columns begin with.
        labels: Kind → label in the legend.
    """
    for kind, alpha in (("pi", 0.14), ("ci", 0.26)):
        ax.fill_between(
            curve["x"],
            curve[f"{prefix}{kind}_lower"],
            curve[f"{prefix}{kind}_upper"],
            color=colour("law"),
            alpha=alpha,
            lw=0,
            label=(labels or {}).get(kind),
        )
