"""The gradient noise scale: over training, over the loss, and beside the critical batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from extrap.batching import BatchFindings
from extrap.reporting.figures.canvas import colour, ramp
from extrap.reporting.figures.marks import draw_legend_above
from extrap.reporting.figures.scales import positions, set_log_axis
from extrap.reporting.numbers import name_size

__all__ = [
    "NoiseCourses",
    "NoisePairs",
    "draw_noise_by_loss",
    "draw_noise_course",
    "draw_noise_pairs",
    "noise_courses_info",
    "noise_pairs_info",
]

FACTOR = 10.0
"""Half width of the band about the line of equality."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
TALLEST = 10.0
"""Intervals are drawn up to so many times the largest value; the rest is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseCourses:
    """Noise scales along trainings.

    Attributes:
        names: A line each: sizes of one task, or tasks.
        windows: `line` (its place among the names), `step`, `loss`, `noise_scale`, `lower`,
            `upper`; NaN where there is no value or limit.
        column: What sets the lines apart, for the legend.
    """

    names: tuple[str, ...]
    windows: pd.DataFrame
    column: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoisePairs:
    """Mean noise scales beside critical batch sizes.

    Attributes:
        tasks: Names of the tasks.
        pairs: One row a task, size and target: `task`, `size`, `target`, `noise_scale`, `lower`,
            `upper`, `b_crit`, `b_lower`, `b_upper`; NaN where unknown or open.
    """

    tasks: tuple[str, ...]
    pairs: pd.DataFrame


def noise_courses_info(findings: Sequence[BatchFindings]) -> NoiseCourses | None:
    """Gather the courses of tasks: a line a task and size; None if no window has a noise scale."""
    lines = []
    for found in findings:
        courses, task = found.result.courses, found.result.task
        if courses.empty:
            continue
        for key, rows in courses.groupby(list(task.study.sizes)):
            size = dict(zip(task.study.sizes, map(float, key), strict=True))
            words = name_size(size)
            if len(findings) > 1:
                alone = courses.groupby(list(task.study.sizes)).ngroups == 1
                words = task.study.name if alone else f"{task.study.name}, {words}"
            lines.append((words, rows))
    columns = ["step", "loss", "noise_scale", "lower", "upper"]
    windows = [rows[columns].assign(line=i) for i, (_, rows) in enumerate(lines)]
    if not any((rows["noise_scale"] > 0).any() for rows in windows):
        return None
    return NoiseCourses(
        names=tuple(name for name, _ in lines),
        windows=pd.concat(windows, ignore_index=True),
        column="task" if len(findings) > 1 else "size",
    )


def draw_noise_course(ax: Axes, info: NoiseCourses, *, columns: int = 5) -> None:
    """A line and band each, over the steps."""
    _draw_courses(ax, info, "step", columns=columns)
    set_log_axis(ax, "x", info.windows["step"], label="step")


def draw_noise_by_loss(ax: Axes, info: NoiseCourses, *, columns: int = 5) -> None:
    """The same over the loss, which falls to the right as training goes on."""
    _draw_courses(ax, info, "loss", columns=columns)
    set_log_axis(ax, "x", info.windows["loss"], label="held-out loss (training goes right)")
    ax.invert_xaxis()


def _draw_courses(ax: Axes, info: NoiseCourses, x: str, *, columns: int) -> None:
    places = positions(range(1, 1 + len(info.names)))
    known = info.windows[info.windows["noise_scale"] > 0]
    low, high = known["noise_scale"].min() / TALLEST, known["noise_scale"].max() * TALLEST
    for i, name in enumerate(info.names):
        rows = known[known["line"] == i].sort_values(x)
        ink = ramp("size", places[i + 1])
        if rows.empty:
            continue
        lower = rows["lower"].where(rows["lower"] > low, low)
        upper = rows["upper"].fillna(high).clip(upper=high)
        ax.fill_between(rows[x], lower, upper, color=ink, alpha=0.14, lw=0)
        sns.lineplot(
            x=rows[x],
            y=rows["noise_scale"],
            ax=ax,
            color=ink,
            lw=1.8,
            marker=MARKERS[i % len(MARKERS)],
            markersize=6,
            markeredgecolor=colour("paper"),
            errorbar=None,
            label=name,
            legend=False,
        )
    ends = [*known["noise_scale"], *known["lower"], *known["upper"]]
    shown = [v for v in ends if low < v < high]
    set_log_axis(ax, "y", shown, label="noise scale, examples")
    draw_legend_above(ax, columns=columns)


def noise_pairs_info(findings: Sequence[BatchFindings]) -> NoisePairs | None:
    """Gather all pairs of a mean noise scale and a critical batch size; None if there is none."""
    parts = []
    for found in findings:
        noise, task = found.result.noise, found.result.task
        if noise.empty:
            continue
        sizes = noise[list(task.study.sizes)].to_dict("records")
        parts.append(
            noise.drop(columns=list(task.study.sizes)).assign(
                task=task.study.name, size=[name_size(size) for size in sizes]
            )
        )
    if not parts:
        return None
    pairs = pd.concat(parts, ignore_index=True)
    return NoisePairs(tasks=tuple(dict.fromkeys(pairs["task"])), pairs=pairs)


def draw_noise_pairs(ax: Axes, info: NoisePairs, *, columns: int = 4) -> None:
    """Critical batch against mean noise scale, with both intervals, about the line of equality."""
    known = info.pairs.dropna(subset=["noise_scale", "b_crit"])
    known = known[(known["noise_scale"] > 0) & (known["b_crit"] > 0)]
    values = np.concatenate([known["noise_scale"], known["b_crit"]])
    low, high = values.min() / 3, values.max() * 3
    ends = np.array([low, high])
    ax.fill_between(ends, ends / FACTOR, ends * FACTOR, color=colour("shade"), lw=0, zorder=0)
    ax.plot(ends, ends, color=colour("muted"), lw=1.2, zorder=1)
    ax.text(
        low * 1.15,
        low * FACTOR * 3.2,
        "a factor of 10",
        ha="left",
        va="bottom",
        fontsize=9.5,
        color=colour("muted"),
    )
    places = positions(range(1, 1 + len(info.tasks)))
    for i, task in enumerate(info.tasks):
        rows, ink = known[known["task"] == task], ramp("size", places[i + 1])
        ax.vlines(
            rows["noise_scale"],
            rows["b_lower"].fillna(low / 2),
            rows["b_upper"].fillna(2 * high),
            color=ink,
            lw=1.6,
            alpha=0.6,
        )
        ax.hlines(
            rows["b_crit"],
            rows["lower"].where(rows["lower"] > 0, low / 2),
            rows["upper"].fillna(2 * high),
            color=ink,
            lw=1.6,
            alpha=0.6,
        )
        ax.scatter(
            rows["noise_scale"],
            rows["b_crit"],
            color=ink,
            marker=MARKERS[i % len(MARKERS)],
            s=48,
            edgecolor=colour("paper"),
            linewidth=0.8,
            zorder=5,
            label=task,
        )
    set_log_axis(ax, "x", ends, label="mean noise scale up to the loss, examples", pad=0)
    set_log_axis(ax, "y", ends, label="critical batch size, examples", pad=0)
    draw_legend_above(ax, columns=columns)
