"""Where the optimum of a tuned value lies, and where the law says it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.forecasting import Forecast
from extrap.reporting.figures.canvas import colour
from extrap.reporting.figures.marks import draw_bands, draw_optima
from extrap.reporting.figures.scales import set_log_axis
from extrap.reporting.glossary import RULE_NAMES
from extrap.reporting.groups import RunGroup
from extrap.reporting.sizes import SizeAxis

__all__ = ["OptimumTrend", "draw_optimum_trend", "optimum_trend_info", "spread_labels"]

RULE_REACH = 2.0
"""Factor by which rules may widen the axis; those beyond it leave the picture."""
LABEL_GAP = 0.055
"""Least distance of two labels, as a share of the axis."""


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
        rules: `rule`, `x`, `value`: what known rules say along the axis; may be empty.
        level: Level of the bands.
    """

    axis: SizeAxis
    tuned: str
    curve: pd.DataFrame
    optima: pd.DataFrame
    judged: pd.DataFrame
    rules: pd.DataFrame
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
        rules=_rules(forecast, axis, tuned),
        level=forecast.level,
    )


def _rules(forecast: Forecast, axis: SizeAxis, tuned: str) -> pd.DataFrame:
    """Known rules at the corners of the path; each is a straight line in between."""
    corners = {axis.low, axis.high, *(float(k[axis.column]) for k in axis.knots)}
    rows = [
        (found.rule, x, found.value)
        for x in sorted(x for x in corners if axis.low <= x <= axis.high)
        for found in forecast.rules(**axis.at(x))
        if found.tuned == tuned
    ]
    return pd.DataFrame(rows, columns=["rule", "x", "value"]).astype({"x": float, "value": float})


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
    draw_optima(ax, optima)
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
    set_log_axis(ax, "y", _with_rules(shown, info.rules), label=f"best {info.tuned}")
    _draw_rules(ax, info.rules)


def _with_rules(shown: list[float], rules: pd.DataFrame) -> list[float]:
    """The values an axis shows: those of the law, and of rules as far as `RULE_REACH` allows."""
    known = [v for v in shown if np.isfinite(v) and v > 0]
    low, high = min(known) / RULE_REACH, max(known) * RULE_REACH
    return [*known, *rules["value"].clip(low, high)]


def _draw_rules(ax: Axes, rules: pd.DataFrame) -> None:
    """Thin lines of known rules, named in the margin where they end."""
    if rules.empty:
        return
    low, high = np.log(ax.get_ylim())
    ends = {}
    for rule, rows in rules.groupby("rule", sort=False):
        ax.plot(rows["x"], rows["value"], lw=1, ls=(0, (4, 2)), color=colour("muted"), zorder=2)
        ends[str(rule)] = (float(np.log(rows["value"].iloc[-1])) - low) / (high - low)
    for rule, place in spread_labels(ends).items():
        beyond = " ↑" if ends[rule] > 1 else " ↓" if ends[rule] < 0 else ""
        ax.annotate(
            RULE_NAMES.get(rule, rule) + beyond,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            color=colour("muted"),
            fontsize=9.5,
            annotation_clip=False,
        )


def spread_labels(places: Mapping[str, float], *, gap: float = LABEL_GAP) -> dict[str, float]:
    """Heights of labels in [0, 1], moved apart so that none lies on another."""
    ordered = sorted(places, key=lambda name: places[name])
    heights: list[float] = []
    for name in ordered:  # upwards from below, then down from the top
        least = heights[-1] + gap if heights else 0.0
        heights.append(max(min(max(places[name], 0.0), 1.0), least))
    ceiling = 1.0
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - gap
    return dict(zip(ordered, heights, strict=True))
