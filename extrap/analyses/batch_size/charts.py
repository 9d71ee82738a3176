"""Charts of a batch study: steps, the trade-off of steps and examples, rates, noise scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from extrap.analyses.batch_size import BatchGroup, TaskResult
from extrap.records.numbers import NBSP, format_given, format_quantity
from extrap.reporting.blocks import Figure
from extrap.reporting.charts import BAND, Axis, Series, XYChart, points

Tasks = Sequence[tuple[str, TaskResult]]
"""What each task found; the name of a task is empty where there is but one."""
Rows = Sequence[tuple[Any, ...]]
N_CURVE_BATCHES = 60
"""Batch sizes at which a curve is drawn."""
CURVE_MARGIN_SHARE = 0.06
"""Part of the span of the batches, in logarithms, that curves go on beyond it."""
SERIES_MARKERS = "osD^vPX"
"""Markers of the series of a chart, in their order; more series start again."""
BATCH_AXIS, STEPS_AXIS = Axis("batch size, examples"), Axis("steps to the target")
"""Axes that several charts have."""


def label(by: Mapping[str, float | str], task: str = "") -> str:
    """Where something was measured: `bytes, width 64, loss 2.3`."""
    parts = (f"{k}{NBSP}{v if isinstance(v, str) else format_quantity(v)}" for k, v in by.items())
    return ", ".join(filter(None, [task, *parts]))


def of_tasks(tasks: Tasks, name: str) -> pd.DataFrame:
    """A table of all tasks below each other, with `where`: task and size in words."""
    parts = [pd.DataFrame()]
    for task, task_result in tasks:
        table, sizes = getattr(task_result, name), list(task_result.task.study.sizes)
        if len(table):
            labels = [label(size, task) for size in table[sizes].to_dict("records")]
            parts.append(table.drop(columns=sizes).assign(where=labels))
    return pd.concat(parts, ignore_index=True)


def steps_figures(tasks: Tasks, *, is_trade_off: bool = False) -> list[Figure]:
    """Steps to each target against batch size, or against examples, by task and size."""
    figures = []
    for task, task_result in tasks:
        for size in task_result.task.study.size_points():
            groups = [g for g in task_result.critical.groups if size.items() <= g.by.items()]
            groups.sort(key=lambda group: -float(group.by["target"]))
            if groups:
                figures.append(_steps_figure(groups, label(size, task), is_trade_off))
    return figures


def _steps_figure(groups: Sequence[BatchGroup], where: str, is_trade_off: bool) -> Figure:
    shown: list[Series] = []
    for i, group in enumerate(groups):
        name, style = f"target {format_given(float(group.by['target']))}", _style(i, len(groups))
        curve: Rows = [
            (b, steps.value, *steps.ci) for b in _batches(group) for steps in [group.steps_at(b)]
        ]
        seen: Rows = [
            (p.batch, p.steps or 0.0, *_ends(p.values)) for p in group.points if p.values
        ]
        late: Rows = [(p.batch, max(p.bounds)) for p in group.points if p.bounds and not p.values]
        corner: Rows = []
        if is_trade_off:  # across a band the batch is not the same: points alone
            curve, seen, late = ([(x * y, y) for x, y, *_ in rows] for rows in (curve, seen, late))
            if group.s_min.value and group.e_min.value:
                corner = [(2 * group.e_min.value, 2 * group.s_min.value)]
        shown += [
            points(curve, label=name, ink=style["ink"], **BAND),
            points(seen, **style),
            points(late, ink="warn", marker="^"),
            points(corner, marker="X"),
        ]
    if is_trade_off:
        title = f"Steps against examples at {where}"
        chart = XYChart(title=title, x=Axis("examples to the target"), y=STEPS_AXIS, series=shown)
        return Figure(chart, "The batch grows from right to left. Cross: critical batch.")
    low, high = groups[-1].regimes["diminishing"]
    shaded = None if low is None or high is None else (low, high)
    return Figure(
        XYChart(
            title=f"Steps at {where}", x=BATCH_AXIS, y=STEPS_AXIS, series=shown, shaded=shaded
        ),
        "Bands: interval of the curve. Bars: fastest and slowest seed. Grey: diminishing returns "
        "at the lowest target; left of it scaling is perfect, right of it maximal.",
    )


def _batches(group: BatchGroup) -> list[float]:
    """Places of a curve, a little beyond the batches of its group."""
    ends = np.log([group.points[0].batch, group.points[-1].batch])
    margin = CURVE_MARGIN_SHARE * (ends[1] - ends[0])
    return np.exp(np.linspace(ends[0] - margin, ends[1] + margin, N_CURVE_BATCHES)).tolist()


def rate_figures(tasks: Tasks) -> list[Figure]:
    """The best rates of a task's sizes with their law."""
    figures = []
    for task, task_result in tasks:
        shown: list[Series] = []
        law, names = task_result.rate_law, list(task_result.task.study.sizes)
        parts = list(task_result.rates.groupby(names)) if law is not None else []
        for i, (key, of_size) in enumerate(parts):
            assert law is not None
            size, style = dict(zip(names, map(float, key), strict=True)), _style(i, len(parts))
            low, high = (of_size["lr_opt"] * np.exp(sign * of_size["lr_se"]) for sign in (-1, 1))
            rates = zip(of_size["batch_size"], of_size["lr_opt"], low, high, strict=True)
            law_size = {name: value for name, value in size.items() if name in law.columns}
            batches = np.geomspace(
                of_size["batch_size"].min(), of_size["batch_size"].max(), N_CURVE_BATCHES
            )
            laws = [(b, law.at(batch_size=b, **law_size)) for b in batches.tolist()]
            curve = [(b, rate.value, *rate.ci) for b, rate in laws]
            shown.append(points(rates, **style))
            shown.append(points(curve, label=label(size), ink=style["ink"], **BAND))
        if shown:
            title = f"Best learning rate by size{f', {task}' if task else ''}"
            chart = XYChart(title=title, x=BATCH_AXIS, y=Axis("best learning rate"), series=shown)
            figures.append(Figure(chart, "Bars: one standard error. Bands: interval of the law."))
    return figures


def noise_figures(tasks: Tasks) -> list[Figure]:
    """The noise scale against the step and against the loss, one line per task and size."""
    courses, columns = of_tasks(tasks, "courses"), ["noise_scale", "lower", "upper"]
    if courses.empty or not (courses["noise_scale"] > 0).any():
        return []
    parts = list(courses[courses["noise_scale"] > 0].groupby("where", sort=False))
    return [
        Figure(
            XYChart(
                title=f"Noise scale against {x}",
                x=Axis(x),
                y=Axis("noise scale, examples"),
                series=[
                    points(
                        rows.sort_values(x)[[x, *columns]].itertuples(index=False),
                        label=str(where),
                        **BAND,
                        **_style(i, len(parts)),
                    )
                    for i, (where, rows) in enumerate(parts)
                ],
            ),
            "Bands: interval of each window.",
        )
        for x in ("step", "loss")
    ]


def pairs_figure(tasks: Tasks) -> list[Figure]:
    """Critical batches against mean noise scales; none without a pair that has both."""
    columns = ["noise_scale", "b_crit", "b_lower", "b_upper"]
    parts = [(f.task.study.name, f.noise[columns]) for _, f in tasks if len(f.noise)]
    parts = [(n, t[(t["noise_scale"] > 0) & (t["b_crit"] > 0)]) for n, t in parts]
    values = [v for _, t in parts for v in t[columns[:2]].to_numpy().ravel()]
    if not values:
        return []
    ends = (float(min(values)) / 3, float(max(values)) * 3)
    shown = [Series(label="equal", x=ends, y=ends, ink="muted", line="-")]
    for i, (task, table) in enumerate(parts):
        rows = table.itertuples(index=False)
        shown.append(points(rows, label=task, **_style(i, len(parts))))
    x, y = Axis("mean noise scale up to the target"), Axis("critical batch")
    chart = XYChart(title="Critical batch against noise scale", x=x, y=y, series=shown)
    return [Figure(chart, "Bars: interval of the critical batch.")]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)


def _style(i: int, n: int) -> dict[str, Any]:
    """Colour and marker of the i-th of n series."""
    return {
        "ink": f"size:{round(i / max(n - 1, 1), 2)}",
        "marker": SERIES_MARKERS[i % len(SERIES_MARKERS)],
    }
