"""Loss of sparse models over their non-zero parameters, one line a density, with their law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.comparing import SparseSweep
from extrap.fitting import predict_log, relative_sizes
from extrap.reporting.figures.canvas import colour, ramp
from extrap.reporting.figures.marks import draw_legend_above
from extrap.reporting.figures.scales import set_log_axis

__all__ = ["SparseLosses", "draw_sparse_losses", "sparse_losses_info"]

MARKERS = ("o", "s", "D", "^", "v", "P")
N_CURVE = 40


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseLosses:
    """Tuned losses of several densities.

    Attributes:
        names: Density → its name, densest first.
        points: `density`, `kept`, `loss`.
        curve: The same along the law; empty without one.
    """

    names: dict[float, str]
    points: pd.DataFrame
    curve: pd.DataFrame


def sparse_losses_info(sweep: SparseSweep) -> SparseLosses:
    """Gather points, and the law over the sizes of each density."""
    points = pd.DataFrame(
        [(p.density, p.kept, p.loss) for p in sweep.points], columns=["density", "kept", "loss"]
    )
    rows = []
    for density, own in points.groupby("density"):
        for kept in np.geomspace(own["kept"].min(), own["kept"].max(), N_CURVE):
            if sweep.law is not None:
                fitted, size = sweep.law.fitted, {"params": kept, "density": float(str(density))}
                log_loss = predict_log(fitted, relative_sizes(fitted, size))[0]
                rows.append((density, kept, float(np.exp(log_loss[0]))))
    densities = sorted(set(points["density"]), reverse=True)
    return SparseLosses(
        names={d: "all weights" if d == 1 else f"{100 * d:g} % of them" for d in densities},
        points=points,
        curve=pd.DataFrame(rows, columns=["density", "kept", "loss"]),
    )


def draw_sparse_losses(ax: Axes, info: SparseLosses, *, columns: int = 4) -> None:
    """Marks for the tuned losses, lines for the law; sparser is lighter."""
    for place, (density, name) in enumerate(info.names.items()):
        shade = ramp("size", 1 - place / max(1, len(info.names) - 1))
        own = info.curve[info.curve["density"] == density]
        ax.plot(own["kept"], own["loss"], color=shade, lw=1.7, zorder=2)
        marks = info.points[info.points["density"] == density]
        sns.scatterplot(
            x=marks["kept"],
            y=marks["loss"],
            ax=ax,
            color=shade,
            marker=MARKERS[place % len(MARKERS)],
            s=50,
            edgecolor=colour("paper"),
            linewidth=0.8,
            zorder=3,
            label=name,
            legend=False,
        )
    set_log_axis(ax, "x", info.points["kept"], label="parameters that are not zero")
    set_log_axis(ax, "y", info.points["loss"], label="tuned loss")
    draw_legend_above(ax, columns=columns)
