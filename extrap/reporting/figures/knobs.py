"""Knobs ranked: what holding each one fixed costs at the target, and how its optimum drifts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from extrap.knobs import KnobReport
from extrap.reporting.figures.canvas import colour, ramp
from extrap.reporting.figures.scales import positions, set_log_axis

__all__ = [
    "KnobPaths",
    "KnobRanks",
    "draw_at_stake",
    "draw_drift",
    "draw_knob_paths",
    "knob_paths_info",
    "knob_ranks_info",
]

TALLEST = 2.0
"""An axis shows intervals up to so many times the largest value; the rest is cut off."""
SIDE_STEP = 0.012
"""Marks of several knobs at one size stand side by side, this fraction of the axis apart."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnobRanks:
    """What the two rankings show, most at stake first.

    Attributes:
        rows: One row a knob: `name`, `kind`, `at_stake`, `at_stake_lower`, `at_stake_upper` in
            percent of the loss, `drift`, `drift_lower`, `drift_upper` in octaves a doubling;
            NaN where unknown, infinite where open.
        stake_limit: Upper end of the axis of what is at stake.
        drift_limit: Upper end of the axis of drifts, its lower end is −limit.
        column: The size column.
        target: The size asked about.
    """

    rows: pd.DataFrame
    stake_limit: float
    drift_limit: float
    column: str
    target: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnobPaths:
    """Where the optima seen go with size.

    Attributes:
        optima: One row a knob and size: `name`, `x`, `octaves`, `lower`, `upper`.
        lines: `name`, `x`, `octaves`: two ends of each line, from the smallest size to the target.
        at_target: `name`, `octaves`, `lower`, `upper`.
        column: The size column.
        span: Smallest and largest moved size, and the target.
    """

    optima: pd.DataFrame
    lines: pd.DataFrame
    at_target: pd.DataFrame
    column: str
    span: tuple[float, float, float]


def knob_ranks_info(report: KnobReport) -> KnobRanks:
    """Gather both rankings."""
    rows = pd.DataFrame(
        [
            {
                "name": knob.name,
                "kind": knob.kind,
                "at_stake": _or_nan(knob.at_stake.value, 100),
                "at_stake_lower": 100 * (knob.at_stake.ci.lower or 0.0),
                "at_stake_upper": 100 * _or_inf(knob.at_stake.ci.upper),
                "drift": _or_nan(knob.drift.value) if knob.kind == "valley" else math.nan,
                "drift_lower": -_or_inf(knob.drift.ci.lower, -1.0),
                "drift_upper": _or_inf(knob.drift.ci.upper),
            }
            for knob in report.knobs
        ]
    )
    return KnobRanks(
        rows=rows,
        stake_limit=_limit(rows["at_stake"], rows["at_stake_upper"], 0.1),
        drift_limit=_limit(
            rows["drift"].abs(), rows[["drift_lower", "drift_upper"]].abs().max(axis=1), 0.1
        ),
        column=report.column,
        target=report.target,
    )


def _or_nan(value: float | None, factor: float = 1.0) -> float:
    return math.nan if value is None else factor * value


def _or_inf(value: float | None, factor: float = 1.0) -> float:
    return math.inf if value is None else factor * value


def _limit(values: pd.Series, ends: pd.Series, least: float) -> float:
    """The end of an axis: all values, and of intervals as much as `TALLEST` allows."""
    seen = max(float(values.max()) if values.notna().any() else 0.0, least)
    finite = ends[values.notna() & np.isfinite(ends)]
    longest = float(finite.max()) if len(finite) else seen
    return 1.08 * min(max(seen, longest), TALLEST * seen)


def draw_at_stake(ax: Axes, info: KnobRanks) -> None:
    """Dot and interval a knob, in percent of the loss at the target."""
    _draw_ranks(ax, info.rows, "at_stake", (0.0, info.stake_limit))
    ax.set_xlim(-0.02 * info.stake_limit, info.stake_limit)
    ax.set_xlabel(f"loss at stake at {info.column} {info.target:g}, %")


def draw_drift(ax: Axes, info: KnobRanks) -> None:
    """Dot and interval a knob whose optimum is seen, in octaves a doubling of the size."""
    ax.axvline(0.0, color=colour("muted"), lw=1.0)
    _draw_ranks(ax, info.rows, "drift", (-info.drift_limit, info.drift_limit))
    for place, row in enumerate(info.rows.itertuples(index=False)):
        if math.isnan(row.drift):
            words = {"choice": "two levels", "flat": "flat", "slope": "optimum not seen"}
            ax.annotate(
                words.get(row.kind, "not known"),
                (0.0, place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                color=colour("muted"),
            )
    ax.set_xlim(-info.drift_limit, info.drift_limit)
    ax.xaxis.set_major_formatter(FuncFormatter(_signed))
    ax.set_xlabel(f"drift of the best value, octaves a doubling of {info.column}")


def _draw_ranks(ax: Axes, rows: pd.DataFrame, name: str, ends: tuple[float, float]) -> None:
    known = rows[rows[name].notna()]
    places = np.flatnonzero(rows[name].notna())
    ax.hlines(
        places,
        known[f"{name}_lower"].clip(lower=2 * ends[0], upper=2 * ends[1]),
        known[f"{name}_upper"].clip(lower=2 * ends[0], upper=2 * ends[1]),
        color=colour("law"),
        alpha=0.4,
        lw=6,
    )
    if not known.empty:
        sns.scatterplot(
            x=known[name],
            y=places,
            ax=ax,
            s=60,
            color=colour("law"),
            edgecolor=colour("paper"),
            linewidth=0.8,
            zorder=5,
            legend=False,
        )
    ax.set_yticks(range(len(rows)), rows["name"])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_ylabel("")
    ax.grid(visible=False, axis="y")
    ax.xaxis.set_major_locator(MaxNLocator(6))


def knob_paths_info(report: KnobReport) -> KnobPaths | None:
    """Gather the optima seen, size by size and at the target; None if none is seen."""
    seen = [k for k in report.knobs if k.kind == "valley"]
    if not seen:
        return None
    low, high = report.sizes[0], report.sizes[-1]
    optima = [
        {
            "name": knob.name,
            "x": offset.size,
            "octaves": _or_nan(offset.octaves.value),
            "lower": -_or_inf(offset.octaves.ci.lower, -1.0),
            "upper": _or_inf(offset.octaves.ci.upper),
        }
        for knob in seen
        for offset in knob.offsets
    ]
    lines, ends = [], []
    for knob in seen:
        end, drift = knob.optimum.value or 0.0, knob.drift.value or 0.0
        first = end - drift * math.log2(report.target / low)
        lines += [
            {"name": knob.name, "x": low, "octaves": first},
            {"name": knob.name, "x": report.target, "octaves": end},
        ]
        ends.append(
            {
                "name": knob.name,
                "octaves": end,
                "lower": -_or_inf(knob.optimum.ci.lower, -1.0),
                "upper": _or_inf(knob.optimum.ci.upper),
            }
        )
    return KnobPaths(
        optima=pd.DataFrame(optima),
        lines=pd.DataFrame(lines),
        at_target=pd.DataFrame(ends),
        column=report.column,
        span=(low, high, report.target),
    )


def draw_knob_paths(ax: Axes, info: KnobPaths) -> None:
    """Each optimum over size, in octaves from the fixed value, and its line to the target."""
    low, high, target = info.span
    names = list(info.at_target["name"])
    places = positions(range(1, 1 + len(names)))
    ax.axvspan(low, high, color=colour("shade"), lw=0, zorder=0)
    ax.axhline(0.0, color=colour("muted"), lw=1.0)
    step = (max(target, high) / low) ** SIDE_STEP
    shown = [0.0, *info.lines["octaves"], *info.optima["octaves"]]
    for i, name in enumerate(names):
        ink, aside = ramp("size", places[i + 1]), step ** (i - (len(names) - 1) / 2)
        line = info.lines[info.lines["name"] == name]
        sns.lineplot(
            x=line["x"],
            y=line["octaves"],
            ax=ax,
            color=ink,
            lw=2,
            label=name,
            errorbar=None,
            legend=False,
        )
        points = info.optima[info.optima["name"] == name]
        end = info.at_target[info.at_target["name"] == name].assign(x=target)
        for rows, marker in ((points, "o"), (end, "D")):
            x = rows["x"] * aside
            bounds = [rows[side].clip(-99, 99) for side in ("lower", "upper")]
            ax.vlines(x, *bounds, color=ink, alpha=0.45, lw=2.5)
            ax.scatter(
                x,
                rows["octaves"],
                color=ink,
                marker=marker,
                s=42,
                zorder=5,
                edgecolor=colour("paper"),
                linewidth=0.8,
            )
    reach = 1.15 * max(1.0, *(abs(v) for v in shown if math.isfinite(v)))
    bars = info.at_target[["lower", "upper"]].abs().to_numpy()
    reach = max(reach, min(float(bars[np.isfinite(bars)].max(initial=0.0)), 1.6 * reach))
    ax.set_ylim(-reach, reach)
    ax.yaxis.set_major_formatter(FuncFormatter(_signed))
    set_log_axis(ax, "x", [low, high, target], label=info.column, pad=0.05)
    ax.set_ylabel("octaves from the fixed value")
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, borderaxespad=0.2)


def _signed(value: float, _: object) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:+g}".replace("-", "−")
