"""The pictures of `make bench-plan`: compute bought against the width of each interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from extrap.reporting.figures.canvas import colour, draw_svg, ramp
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["NAMES", "width_plate"]

SIZE = (880, 400)
NAMES = {
    "plan": "extrap plan, the grid's cells",
    "plan, any run": "extrap plan, any run",
    "grid": "even grid, fewer seeds",
    "coarse grid": "even grid, fewer values",
    "gp": "Gaussian process (Optuna)",
    "halving": "successive halving",
}
"""Strategy → what it is called; in the order of the legend."""
MARKS = "oDs^vP"
STYLES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1)), "-")
SPANS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7, 10)
"""Marks of the ratio, as far as they are reached, and their inverses."""
LEAST = (0.8, 1.25)
"""Ratios that are always within the picture."""


def width_plate(found: pd.DataFrame, *, bed: str, column: str, n: int, target: float) -> Plate:
    """Widths over those of the full grid against its compute, one line a strategy.

    Args:
        found: Medians over sweeps: `strategy`, `spent`, and the ratio of widths.
        bed: Where they were measured.
        column: Of the ratio.
        n: How many sweeps.
        target: Share of the grid's compute at which the ratio should be 1.
    """
    name = column.removesuffix("_width")
    drawn = found[np.isfinite(found[column])].sort_values("spent")

    def draw(axes: Axes) -> None:
        axes.axhline(1.0, color=colour("muted"), linewidth=1.0)
        axes.axvline(target, color=colour("muted"), linewidth=1.0, linestyle=":")
        _draw_strategies(axes, drawn, column)
        _scale(axes, drawn[column])
        axes.set_xlabel("compute bought, as a share of the full grid's")
        axes.set_ylabel(f"interval of {name} / the full grid's")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))

    width, height = SIZE
    slug = "".join(c for c in f"plan{bed}{name}" if c.isalnum()).lower()
    label = f"{bed}: width of the interval of {name} against compute bought, by strategy"
    cells = tuple(
        (NAMES[str(row["strategy"])], f"{row['spent']:.0%}", f"{row[column]:.2f}")
        for key in NAMES
        for row in drawn[drawn["strategy"] == key].to_dict("records")
    )
    times = "one table of runs" if n == 1 else f"medians of {n} sweeps"
    return Plate(
        title=f"{bed}: the interval of {name}",
        svg=draw_svg(draw, width=width, height=height, key=slug, label=label),
        text=f"Of 90 % intervals at the target, {times}. Left of the dotted line is at most "
        f"{target:.0%} of the compute, below the line at 1 the interval is narrower than that of "
        "all cells of the grid. The pilot counts.",
        tables=(
            Table(
                caption=f"Interval of {name} over the full grid's",
                columns=("strategy", "compute", "ratio"),
                rows=cells,
            ),
        ),
    )


def _draw_strategies(axes: Axes, drawn: pd.DataFrame, column: str) -> None:
    for i, (strategy, label) in enumerate(NAMES.items()):
        own = drawn[drawn["strategy"] == strategy]
        ink = colour("law") if strategy == "plan" else ramp("tuned", i / (len(NAMES) - 1))
        axes.plot(
            own["spent"],
            own[column],
            color=ink,
            marker=MARKS[i],
            markersize=6 if strategy == "plan" else 5,
            linestyle=STYLES[i],
            linewidth=2.2 if strategy == "plan" else 1.3,
            label=label if len(own) else "_",
        )


def _scale(axes: Axes, ratios: pd.Series) -> None:
    """Logarithmic axes, marked with shares and ratios."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.95 * min(*ratios, LEAST[0]), 1.05 * max(*ratios, LEAST[1]))
    axes.set_xticks([0.06, 0.12, 0.25, 0.5, 1.0])
    axes.set_yticks(_ticks(ratios))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.0%}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:.2g}×"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
        axis.set_tick_params(which="minor", length=0)


def _ticks(ratios: Sequence[float] | pd.Series) -> list[float]:
    """Round ratios within the picture."""
    low, high = min(*ratios, LEAST[0]), max(*ratios, LEAST[1])
    ticks = {*SPANS, *(round(1 / span, 2) for span in SPANS)}
    return sorted(t for t in ticks if 0.95 * low <= t <= 1.05 * high)
