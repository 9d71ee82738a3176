"""Where the optimum goes with size in two sweeps, in one picture."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes

from extrap.forecasting import Forecast
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import draw_bands, draw_optima
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.figures.trend import OptimumTrend, optimum_trend_info
from extrap.reporting.sizes import SizeAxis

__all__ = ["OptimumPair", "draw_optimum_pair", "optimum_pair_info"]

BAND_REACH = 3.0
"""Factor by which bands may widen the axis beyond optima and laws; the rest is cut off."""
SIDE_STEP = 0.012
"""Marks of the two sweeps stand side by side, this fraction of the axis apart."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OptimumPair:
    """How the optimum of one tuned column moves in a sweep and in its baseline.

    Attributes:
        axis: The horizontal axis.
        tuned: The tuned column.
        sweep: The sweep's optima and law.
        baseline: The baseline's, along the same axis as far as its own sizes allow.
    """

    axis: SizeAxis
    tuned: str
    sweep: OptimumTrend
    baseline: OptimumTrend


def optimum_pair_info(
    forecast: Forecast, baseline: Forecast, axis: SizeAxis, tuned: str
) -> OptimumPair:
    """Gather optima and laws of both along the path of the first."""
    lowest = {c: min(o.size[c] for o in baseline.optima) for c in baseline.runs.sizes}
    reached = [v for v in axis.values() if all(axis.at(v)[c] >= low for c, low in lowest.items())]
    if reached:
        own = optimum_trend_info(baseline, (), replace(axis, low=reached[0]), tuned)
    else:  # its laws say nothing along this path
        without_law = replace(baseline, tuned_laws=dict.fromkeys(baseline.tuned_laws))
        own = optimum_trend_info(without_law, (), axis, tuned)
    return OptimumPair(
        axis=axis,
        tuned=tuned,
        sweep=optimum_trend_info(forecast, (), axis, tuned),
        baseline=own,
    )


def draw_optimum_pair(
    ax: Axes, info: OptimumPair, *, names: tuple[str, str], columns: int = 2
) -> None:
    """Both laws with their bands, both rows of optima, told apart by colour, dash and shape.

    Args:
        ax: Where to draw.
        info: What to draw.
        names: What the two sweeps are called.
        columns: Columns of the legend.
    """
    axis = info.axis
    ax.axvspan(axis.low, axis.tuned_high, color=colour("shade"), lw=0, zorder=0)
    step = (axis.high / axis.low) ** (SIDE_STEP / 2)
    styles = (("law", "o", "-", 1 / step), ("fixed", "s", "--", step))
    shown: list[float] = []
    for trend, name, (ink, marker, dash, aside) in zip(
        (info.sweep, info.baseline), names, styles, strict=True
    ):
        if not trend.curve.empty:
            draw_bands(ax, trend.curve, ink=ink)
            sns.lineplot(
                x=trend.curve["x"],
                y=trend.curve["value"],
                ax=ax,
                color=colour(ink),
                ls=dash,
                lw=2,
                label=f"{name}: the law",
                errorbar=None,
                legend=False,
            )
            shown += [*trend.curve["value"]]
        optima = trend.optima.assign(x=trend.optima["x"] * aside)
        draw_optima(ax, optima, ink=ink, open_ink=ink, marker=marker, label=f"{name}: optima")
        shown += [*optima["value"], *optima["lower"], *optima["upper"]]
    set_log_axis(ax, "x", [axis.low, axis.high], label=axis.column, pad=0.03)
    set_log_axis(ax, "y", _with_bands(shown, info), label=f"best {info.tuned}")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2)


def _with_bands(shown: list[float], info: OptimumPair) -> list[float]:
    """The values an axis shows: optima and laws, and of bands as much as `BAND_REACH` allows."""
    known = [v for v in shown if np.isfinite(v) and v > 0]
    bands = [
        float(v)
        for trend in (info.sweep, info.baseline)
        if not trend.curve.empty
        for v in (trend.curve["pi_lower"].min(), trend.curve["pi_upper"].max())
    ]
    if not known:
        return bands or [0.1, 10.0]
    low, high = min(known) / BAND_REACH, max(known) * BAND_REACH
    return [*known, *(min(max(v, low), high) for v in bands)]
