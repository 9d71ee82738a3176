"""Steps to a target against batch size, and the front of time against compute."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.batching import (
    BatchGroup,
    FrontForecast,
    TaskResult,
)
from extrap.reporting.figures.canvas import colour, ramp
from extrap.reporting.figures.marks import draw_legend_above
from extrap.reporting.figures.scales import positions, set_log_axis

__all__ = [
    "BatchFront",
    "BatchSteps",
    "batch_steps_info",
    "draw_batch_front",
    "draw_batch_steps",
    "forecast_front_info",
    "measured_front_info",
]

N_CURVE = 60
ROOM = 0.06
"""Part of the span of the batches, in logarithms, that curves go on beyond it."""
REGIMES = ("perfect scaling", "diminishing returns", "maximal parallelism")
MARKERS = ("o", "s", "D", "^", "v")
"""Of the targets, the easiest first."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchSteps:
    """Steps to each target at one size.

    Attributes:
        size: Where.
        targets: Easiest first.
        points: One row a target and batch: `target`, `x`, `steps`, `lower`, `upper` (fastest and
            slowest seed).
        held: Batches no fit saw: `target`, `x`, `steps`, `predicted`, `lower`, `upper`.
        bounds: Where the target was not reached: `target`, `x`, `steps` (the budget).
        curve: Hyperbolas: `target`, `x`, `steps`, `lower`, `upper` (of the curve).
        regimes: Ends of perfect scaling and of diminishing returns at the lowest target; None
            where the data do not tell.
        level: Of the band.
    """

    size: Mapping[str, float]
    targets: tuple[float, ...]
    points: pd.DataFrame
    held: pd.DataFrame
    bounds: pd.DataFrame
    curve: pd.DataFrame
    regimes: tuple[float | None, float | None]
    level: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchFront:
    """Time against compute at one size.

    Attributes:
        size: Where.
        targets: Easiest first.
        curve: `target`, `batch`, `steps`, `lower`, `upper`; examples are steps times batch.
        points: What was counted: `target`, `batch`, `steps`, `examples`.
        corners: `target`, `s_min`, `e_min`, `b_crit`; NaN where unknown.
        is_forecast: Whether the curves were drawn before anything was trained at this size.
        level: Of the band.
    """

    size: Mapping[str, float]
    targets: tuple[float, ...]
    curve: pd.DataFrame
    points: pd.DataFrame
    corners: pd.DataFrame
    is_forecast: bool
    level: float


def batch_steps_info(result: TaskResult, size: Mapping[str, float]) -> BatchSteps | None:
    """Gather what was counted at a size, its hyperbolas and its held-out batches.

    Returns:
        None if no target has a hyperbola there.
    """
    groups = _groups(result, size)
    if not groups:
        return None
    points, bounds, curves = [], [], []
    batches = result.task.batches
    for target, group in groups.items():
        for point in group.points:
            if point.steps is not None:
                ends = {"lower": min(point.values), "upper": max(point.values)}
                points.append({"target": target, "x": point.batch, "steps": point.steps, **ends})
            elif point.bounds:
                bounds.append({"target": target, "x": point.batch, "steps": max(point.bounds)})
        for batch in _spread(batches):
            found = group.steps_at(batch)
            row = {"target": target, "x": batch, "steps": found.value}
            curves.append({**row, "lower": found.ci.lower, "upper": found.ci.upper})
    held = result.held_out
    here = held[_is_at(held, size)].rename(columns={"batch_size": "x"})
    regimes = groups[min(groups)].regimes
    return BatchSteps(
        size=dict(size),
        targets=tuple(groups),
        points=pd.DataFrame(points, columns=["target", "x", "steps", "lower", "upper"]),
        held=here[["target", "x", "steps", "predicted", "lower", "upper"]].reset_index(drop=True),
        bounds=pd.DataFrame(bounds, columns=["target", "x", "steps"]),
        curve=pd.DataFrame(curves),
        regimes=(regimes.perfect_end.value, regimes.maximal_start.value),
        level=result.critical.level,
    )


def _groups(result: TaskResult, size: Mapping[str, float]) -> dict[float, BatchGroup]:
    """Target → its group at a size, the easiest target first."""
    found = {
        float(group.by["target"]): group
        for group in result.critical.groups
        if all(group.by[name] == value for name, value in size.items())
    }
    return dict(sorted(found.items(), reverse=True))


def _is_at(table: pd.DataFrame, size: Mapping[str, float]) -> pd.Series:
    is_at = pd.Series(data=True, index=table.index)
    for name, value in size.items():
        is_at &= table[name] == value
    return is_at


def _spread(batches: Iterable[float]) -> list[float]:
    """Batches along a curve, a little beyond those given."""
    ends = np.log([min(batches), max(batches)])
    room = ROOM * (ends[1] - ends[0])
    return [float(b) for b in np.exp(np.linspace(ends[0] - room, ends[1] + room, N_CURVE))]


def draw_batch_steps(ax: Axes, info: BatchSteps) -> None:
    """Points, hyperbolas with bands, the regimes of the lowest target, open marks held out."""
    ends = float(info.curve["x"].min()), float(info.curve["x"].max())
    _draw_regimes(ax, info.regimes, ends)
    places = positions(info.targets)
    for i, target in enumerate(info.targets):
        ink, marker = ramp("size", 1 - places[target]), MARKERS[i % len(MARKERS)]
        curve = info.curve[info.curve["target"] == target]
        ax.fill_between(curve["x"], curve["lower"], curve["upper"], color=ink, alpha=0.22, lw=0)
        sns.lineplot(
            x=curve["x"], y=curve["steps"], ax=ax, color=ink, lw=1.8, errorbar=None, legend=False
        )
        points = info.points[info.points["target"] == target]
        ax.vlines(points["x"], points["lower"], points["upper"], color=ink, lw=2.5, alpha=0.5)
        ax.scatter(
            points["x"],
            points["steps"],
            color=ink,
            marker=marker,
            s=36,
            edgecolor=colour("paper"),
            linewidth=0.8,
            zorder=5,
            label=f"loss {target:g}",
        )
        held = info.held[info.held["target"] == target]
        ax.vlines(held["x"], held["lower"], held["upper"], color=ink, lw=1.2, zorder=4)
        ax.scatter(
            held["x"],
            held["steps"],
            facecolor=colour("paper"),
            edgecolor=ink,
            marker=marker,
            s=44,
            linewidth=1.6,
            zorder=6,
        )
        bounds = info.bounds[info.bounds["target"] == target]
        ax.scatter(bounds["x"], bounds["steps"], marker="^", s=60, color=colour("warn"), zorder=6)
    heights = [
        *info.points["lower"],
        *info.points["upper"],
        *info.held["steps"],
        *info.held["lower"],
        *info.held["upper"],
        *info.bounds["steps"],
        *info.curve["steps"],
    ]
    set_log_axis(ax, "x", ends, label="batch size, examples", pad=0)
    set_log_axis(ax, "y", heights, label="steps to the loss")
    draw_legend_above(ax, columns=4)


def _draw_regimes(
    ax: Axes, regimes: tuple[float | None, float | None], ends: tuple[float, float]
) -> None:
    """Shade where examples grow (diminishing returns) and where more of them gain nothing."""
    if None in regimes:
        return
    low, high = ends
    borders = [low, *(min(max(b or low, low), high) for b in regimes), high]
    for i, (first, last) in enumerate(itertools.pairwise(borders)):
        if last <= first:
            continue
        if i:
            ax.axvspan(first, last, color=colour("shade"), alpha=(0, 0.55, 1)[i], lw=0, zorder=0)
        share = math.log(last / first) / math.log(high / low)
        ax.text(
            math.sqrt(first * last),
            0.985 if i else 0.015,  # the curve comes from the upper left
            REGIMES[i].replace(" ", "\n") if share > 0.13 else "",
            transform=ax.get_xaxis_transform(),
            ha="center",
            va="top" if i else "bottom",
            fontsize=9.5,
            color=colour("muted"),
            linespacing=1.1,
        )


def measured_front_info(result: TaskResult, size: Mapping[str, float]) -> BatchFront | None:
    """The fronts of the sweep at a size; None if no target has a hyperbola there."""
    groups = _groups(result, size)
    if not groups:
        return None
    curves = [_curve(target, group, _spread(group.batches)) for target, group in groups.items()]
    points = [
        {"target": target, "batch": p.batch, "steps": p.steps, "examples": p.batch * p.steps}
        for target, group in groups.items()
        for p in group.points
        if p.steps is not None
    ]
    corners = [
        {
            "target": target,
            "s_min": _nan(group.s_min.value),
            "e_min": _nan(group.e_min.value),
            "b_crit": _nan(group.b_crit.value),
        }
        for target, group in groups.items()
    ]
    return BatchFront(
        size=dict(size),
        targets=tuple(groups),
        curve=pd.concat(curves, ignore_index=True),
        points=pd.DataFrame(points),
        corners=pd.DataFrame(corners),
        is_forecast=False,
        level=result.critical.level,
    )


def forecast_front_info(
    front: FrontForecast, checked: pd.DataFrame | None, *, level: float
) -> BatchFront:
    """The forecast fronts at a larger size, and what was counted there at the forecast rates."""
    known = front.table.rename(columns={"batch_size": "batch", "predicted": "steps"})
    known = known[["target", "batch", "steps", "lower", "upper"]].astype(float)
    targets = tuple(sorted(set(known["target"]), reverse=True))
    curves = [known[known["target"] == target].sort_values("batch") for target in targets]
    columns = ["target", "batch", "steps", "examples"]
    points = pd.DataFrame(columns=columns, dtype=float)
    if checked is not None:
        counted = checked.rename(columns={"batch_size": "batch"})
        counted = counted.assign(examples=counted["steps"] * counted["batch"])
        points = counted[columns].dropna()
    return BatchFront(
        size=dict(front.size),
        targets=targets,
        curve=pd.concat(curves, ignore_index=True),
        points=points,
        corners=pd.DataFrame([_corner(curve) for curve in curves]),
        is_forecast=True,
        level=level,
    )


def _curve(target: float, group: BatchGroup, batches: Sequence[float]) -> pd.DataFrame:
    """A fitted front with the band of its curve."""
    found = [group.steps_at(batch) for batch in batches]
    return pd.DataFrame(
        {
            "target": target,
            "batch": batches,
            "steps": [each.value for each in found],
            "lower": [_nan(each.ci.lower) for each in found],
            "upper": [_nan(each.ci.upper) for each in found],
        }
    )


def _corner(curve: pd.DataFrame) -> dict[str, float]:
    """The hyperbola nearest to a forecast curve, relative errors counting alike."""
    steps, batch = curve["steps"].to_numpy(), curve["batch"].to_numpy()
    design = np.column_stack([1 / steps, 1 / (batch * steps)])
    s_min, e_min = np.linalg.lstsq(design, np.ones(len(steps)), rcond=None)[0]
    known = s_min > 0 and e_min > 0
    return {
        "target": float(curve["target"].iloc[0]),
        "s_min": float(s_min) if known else math.nan,
        "e_min": float(e_min) if known else math.nan,
        "b_crit": float(e_min / s_min) if known else math.nan,
    }


def draw_batch_front(ax: Axes, info: BatchFront) -> None:
    """Steps against examples: a front a target, its bend and its two limits."""
    places = positions(info.targets)
    xs, ys = [], []
    for i, target in enumerate(info.targets):
        ink, marker = ramp("size", 1 - places[target]), MARKERS[i % len(MARKERS)]
        curve = info.curve[info.curve["target"] == target]
        examples = curve["steps"] * curve["batch"]
        band = curve.dropna()
        ax.fill(
            [*(band["lower"] * band["batch"]), *(band["upper"] * band["batch"])[::-1]],
            [*band["lower"], *band["upper"][::-1]],
            color=ink,
            alpha=0.1 if info.is_forecast else 0.18,
            lw=0,
        )
        ax.plot(examples, curve["steps"], color=ink, lw=1.8, label=f"loss {target:g}")
        points = info.points[info.points["target"] == target]
        if len(points):
            sns.scatterplot(
                x=points["examples"],
                y=points["steps"],
                ax=ax,
                color=ink,
                marker=marker,
                s=38,
                edgecolor=colour("paper"),
                linewidth=0.8,
                zorder=5,
                legend=False,
            )
        xs += [*examples, *points["examples"]]
        ys += [*curve["steps"], *points["steps"]]
    set_log_axis(ax, "x", xs, label="examples to the loss (compute)", pad=0.04)
    set_log_axis(ax, "y", ys, label="steps to the loss (time)")
    _draw_corners(ax, info)
    draw_legend_above(ax, columns=4)


def _draw_corners(ax: Axes, info: BatchFront) -> None:
    """Dashed: the fewest examples and the fewest steps; crosses: the bend, twice both."""
    places = positions(info.targets)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    for corner in info.corners.dropna().itertuples(index=False):
        ink = ramp("size", 1 - places[corner.target])
        x, y = 2 * corner.e_min, 2 * corner.s_min
        ax.vlines(corner.e_min, y, top, color=ink, lw=0.9, ls=(0, (4, 3)), alpha=0.8)
        ax.hlines(corner.s_min, x, right, color=ink, lw=0.9, ls=(0, (4, 3)), alpha=0.8)
        if left < x < right and bottom < y < top:
            ax.plot([x], [y], "x", color=colour("ink"), ms=9, mew=2.2, zorder=7)
            label = f"{float(f'{corner.b_crit:.2g}'):g}"
            ax.annotate(
                f"batch {label}",
                (x, y),
                xytext=(8, 6),
                textcoords="offset points",
                fontsize=9.5,
                color=colour("ink"),
                bbox={"facecolor": colour("paper"), "alpha": 0.7, "lw": 0, "pad": 0.5},
                zorder=8,
            )
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
