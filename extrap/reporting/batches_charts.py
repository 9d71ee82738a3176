"""Charts of a batch study: steps, the trade-off of steps and examples, rates, noise scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from extrap.analyses.batch_size import BatchGroup, TaskResult
from extrap.records.numbers import format_given
from extrap.reporting.blocks import Figure
from extrap.reporting.charts import Axis, Series, XYChart, points, series
from extrap.reporting.critical_batches import label

Tasks = Sequence[tuple[str, TaskResult]]
"""What each task found; the name of a task is empty where there is but one."""
N_CURVE = 60
MARGIN = 0.06
"""Part of the span of the batches, in logarithms, that curves go on beyond it."""
MARKERS = "osD^vPX"
BATCH, STEPS = Axis("batch size, examples"), Axis("steps to the target")


def of_tasks(tasks: Tasks, name: str) -> pd.DataFrame:
    """A table of all tasks below each other, with `where`: task and size in words."""
    parts = [pd.DataFrame()]
    for task, found in tasks:
        table, sizes = getattr(found, name), list(found.task.study.sizes)
        if len(table):
            at = [label(size, task) for size in table[sizes].to_dict("records")]
            parts.append(table.drop(columns=sizes).assign(where=at))
    return pd.concat(parts, ignore_index=True)


def steps_figures(tasks: Tasks, *, is_trade_off: bool = False) -> list[Figure]:
    """Steps to each target against batch size, or against examples, by task and size."""
    figures = []
    for task, found in tasks:
        for size in found.task.study.size_points():
            groups = [g for g in found.critical.groups if size.items() <= g.by.items()]
            groups.sort(key=lambda group: -float(group.by["target"]))
            if groups:
                figures.append(_steps_figure(groups, label(size, task), is_trade_off))
    return figures


def _steps_figure(groups: Sequence[BatchGroup], where: str, is_trade_off: bool) -> Figure:
    shown = []
    for i, group in enumerate(groups):
        name = f"target {format_given(float(group.by['target']))}"
        ink, marker = _ink(i, len(groups)), MARKERS[i % len(MARKERS)]
        curve = _curve(group)
        seen = [
            (p.batch, p.steps or 0.0, min(p.values), max(p.values))
            for p in group.points
            if p.values
        ]
        late = [(p.batch, max(p.bounds)) for p in group.points if p.bounds and not p.values]
        if is_trade_off:
            curve = curve.assign(x=curve["x"] * curve["steps"])
            seen = [(batch * steps, steps, steps, steps) for batch, steps, *_ in seen]
            late = [(batch * steps, steps) for batch, steps in late]
        is_band = not is_trade_off  # across the band the batch is not the same
        ends = {"lower": "lower", "upper": "upper"} if is_band else {}
        style: dict[str, Any] = {"ink": ink, "line": "-", "is_band": is_band}
        shown.append(series(curve, y="steps", label=name, **ends, **style))
        if seen:
            shown.append(points(seen, name=f"{name}, counted", ink=ink, marker=marker))
        if late:
            shown.append(points(late, name=f"{name}, not reached", ink="warn", marker="^"))
        if is_trade_off and group.s_min.value and group.e_min.value:
            corner = [(2 * group.e_min.value, 2 * group.s_min.value)]
            shown.append(points(corner, name=f"{name}, critical batch", marker="x"))
    if is_trade_off:
        title = f"Steps against examples at {where}"
        chart = XYChart(title=title, x=Axis("examples to the target"), y=STEPS, series=shown)
        return Figure(chart, "The batch grows from right to left. Cross: critical batch.")
    low, high = groups[-1].regimes["diminishing"]
    return Figure(
        XYChart(
            title=f"Steps at {where}",
            x=BATCH,
            y=STEPS,
            series=shown,
            shaded=None if low is None or high is None else (low, high),
        ),
        "Bands: interval of the curve. Bars: fastest and slowest seed. Grey: diminishing returns "
        "at the lowest target; left of it scaling is perfect, right of it maximal.",
    )


def _curve(group: BatchGroup) -> pd.DataFrame:
    """Steps of a hyperbola with the band of the curve, a little beyond its batches."""
    ends = np.log([group.points[0].batch, group.points[-1].batch])
    margin = MARGIN * (ends[1] - ends[0])
    places = np.exp(np.linspace(ends[0] - margin, ends[1] + margin, N_CURVE)).tolist()
    found = [(b, at.value, *at.ci) for b in places for at in [group.steps_at(b)]]
    return pd.DataFrame(found, columns=["x", "steps", "lower", "upper"], dtype=float)


def rate_figures(tasks: Tasks) -> list[Figure]:
    """The best rates of a task's sizes with their law."""
    figures = []
    for task, found in tasks:
        names = list(found.task.study.sizes)
        parts = list(found.rates.groupby(names)) if found.rate_law else []
        shown: list[Series] = []
        for i, (key, own) in enumerate(parts):
            size = dict(zip(names, map(float, key), strict=True))
            where, ink = label(size), _ink(i, len(parts))
            low, high = (own["lr_opt"] * np.exp(sign * own["lr_se"]) for sign in (-1, 1))
            own = own.assign(lower=low, upper=high)
            marker = MARKERS[i % len(MARKERS)]
            shown.append(_marks(own, "batch_size", "lr_opt", name=where, ink=ink, marker=marker))
            batches = np.geomspace(own["batch_size"].min(), own["batch_size"].max(), N_CURVE)
            law = _rates(found, size, batches.tolist())
            shown.append(_line(law, "x", "lr", label=where, ink=ink))
        if shown:
            title = f"Best learning rate by size{f', {task}' if task else ''}"
            chart = XYChart(title=title, x=BATCH, y=Axis("best learning rate"), series=shown)
            figures.append(Figure(chart, "Bars: one standard error. Bands: interval of the law."))
    return figures


def _rates(found: TaskResult, size: Mapping[str, float], batches: list[float]) -> pd.DataFrame:
    law = found.rate_law
    assert law is not None
    own = {name: value for name, value in size.items() if name in law.columns}
    rows = [(b, at.value, *at.ci) for b in batches for at in [law.at(batch_size=b, **own)]]
    return pd.DataFrame(rows, columns=["x", "lr", "lower", "upper"], dtype=float)


def noise_figures(tasks: Tasks) -> list[Figure]:
    """The noise scale against the step and against the loss, one line per task and size."""
    courses = of_tasks(tasks, "courses")
    if courses.empty or not (courses["noise_scale"] > 0).any():
        return []
    parts = list(courses[courses["noise_scale"] > 0].groupby("where", sort=False))
    figures = []
    for x in ("step", "loss"):
        shown = [
            _line(
                rows.sort_values(x),
                x,
                "noise_scale",
                label=str(where),
                ink=_ink(i, len(parts)),
                marker=MARKERS[i % len(MARKERS)],
            )
            for i, (where, rows) in enumerate(parts)
        ]
        title, axis = f"Noise scale against {x}", Axis("noise scale, examples")
        chart = XYChart(title=title, x=Axis(x), y=axis, series=shown)
        figures.append(Figure(chart, "Bands: interval of each window."))
    return figures


def pairs_figure(tasks: Tasks) -> list[Figure]:
    """Critical batches against mean noise scales; none without a pair that has both."""
    parts = [(found.task.study.name, found.noise) for _, found in tasks]
    parts = [(n, t[(t["noise_scale"] > 0) & (t["b_crit"] > 0)]) for n, t in parts if len(t)]
    values = [v for _, t in parts for v in t[["noise_scale", "b_crit"]].to_numpy().ravel()]
    if not values:
        return []
    low, high = float(min(values)) / 3, float(max(values)) * 3
    shown = [Series(label="equal", x=(low, high), y=(low, high), ink="muted", line="-")]
    for i, (task, table) in enumerate(parts):
        sides = table.assign(lower=table["b_lower"], upper=table["b_upper"])
        style = {"label": task, "ink": _ink(i, len(parts)), "marker": MARKERS[i % len(MARKERS)]}
        shown.append(_marks(sides, "noise_scale", "b_crit", **style))
    x, y = Axis("mean noise scale up to the target"), Axis("critical batch")
    chart = XYChart(title="Critical batch against noise scale", x=x, y=y, series=shown)
    return [Figure(chart, "Bars: interval of the critical batch.")]


def _ink(i: int, n: int) -> str:
    """Colour of the i-th of n lines."""
    return f"size:{round(i / max(n - 1, 1), 2)}"


def _line(frame: pd.DataFrame, x: str, y: str, **style: Any) -> Series:
    """A line with its band."""
    return series(frame, x, y, lower="lower", upper="upper", line="-", is_band=True, **style)


def _marks(frame: pd.DataFrame, x: str, y: str, **style: Any) -> Series:
    """Points with their intervals."""
    return series(frame, x, y, lower="lower", upper="upper", **style)
