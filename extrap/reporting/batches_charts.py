"""Charts of a batch study: steps, the trade-off of steps and examples, rates, noise scales."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from extrap.batching import BatchGroup, RateLaw, TaskResult
from extrap.records.numbers import format_given
from extrap.reporting.charts import Axis, Series, XYChart, series
from extrap.reporting.critical_batches import Tasks, label

N_CURVE = 60
MARGIN = 0.06
"""Part of the span of the batches, in logarithms, that curves go on beyond it."""
MARKERS = "osD^vPX"
RULE_PLACES = {"linear": 0.0, "square-root": 0.35, "constant": 0.55, "saturating": 0.75}
"""Rule → place on the colour ramp of tuned values."""
SIDES = ("steps", "lower", "upper")
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


def steps_charts(tasks: Tasks) -> list[XYChart]:
    """Steps to each target against batch size, one chart per task and size.

    Shaded is the range of diminishing returns at the lowest target.
    """
    charts = []
    for task, found in tasks:
        for size in found.task.study.size_points():
            if groups := _groups(found, size):
                low, high = groups[-1].regimes.diminishing
                chart = XYChart(
                    title=f"Steps at {label(size, task)}",
                    x=BATCH,
                    y=STEPS,
                    series=tuple(_steps_series(found, groups)),
                    shaded=None if low is None or high is None else (low, high),
                )
                charts.append(chart)
    return charts


def _steps_series(result: TaskResult, groups: Sequence[BatchGroup]) -> Iterator[Series]:
    """Of each target the curve, what was counted, what was not reached."""
    for i, group in enumerate(groups):
        name = f"target {format_given(float(group.by['target']))}"
        ink, marker = _ink(i, len(groups)), MARKERS[i % 7]
        yield _line(_curve(group, result.task.batches), "x", "steps", label=name, ink=ink)
        seen = [(p.batch, p.steps, min(p.values), max(p.values)) for p in group.points if p.values]
        points = pd.DataFrame(seen, columns=["x", "steps", "lower", "upper"], dtype=float)
        yield _marks(points, "x", "steps", name=f"{name}, counted", ink=ink, marker=marker)
        late = [(p.batch, max(p.bounds)) for p in group.points if p.bounds and not p.values]
        lost = pd.DataFrame(late, columns=["x", "steps"], dtype=float)
        yield series(lost, y="steps", name=f"{name}, not reached", ink="warn", marker="^")


def trade_off_charts(tasks: Tasks) -> list[XYChart]:
    """Steps against examples at the largest size of each task."""
    charts = []
    for task, found in tasks:
        known = [s for s in found.task.study.size_points() if _groups(found, s)]
        for size in known[-1:]:
            parts = []
            for group in _groups(found, size):
                points = [(p.batch, p.steps) for p in group.points if p.values]
                parts.append((float(group.by["target"]), _curve(group, group.batches), points))
            charts.append(_trade_off(label(size, task), parts))
    return charts


def _trade_off(where: str, parts: Sequence[tuple[float, pd.DataFrame, list[Any]]]) -> XYChart:
    shown = []
    for i, (target, curve, points) in enumerate(parts):
        name, ink = f"target {format_given(target)}", _ink(i, len(parts))
        curves = {y: curve.assign(x=curve["x"] * curve[y].astype(float)) for y in SIDES}
        shown.append(series(curves["steps"], y="steps", label=name, ink=ink, line="-"))
        for y in SIDES[1:]:
            shown.append(series(curves[y], y=y, name=f"{name}, {y} end", ink=ink, line=":"))
        seen = pd.DataFrame(points, columns=["x", "steps"], dtype=float).dropna()
        seen = seen.assign(x=seen["x"] * seen["steps"])
        shown.append(series(seen, y="steps", name=f"{name}, counted", ink=ink, marker="o"))
        # 1 = S_min / steps + E_min / examples: exact for a hyperbola, the nearest one otherwise
        design = np.column_stack([1 / curve["steps"], 1 / (curve["x"] * curve["steps"])])
        s_min, e_min = np.linalg.lstsq(design, np.ones(len(design)), rcond=None)[0]
        if s_min > 0 and curve["x"].min() < e_min / s_min < curve["x"].max():
            bend = pd.DataFrame({"x": [2 * e_min], "steps": [2 * s_min]})
            shown.append(series(bend, y="steps", name=f"{name}, critical batch", marker="x"))
    title, x = f"Trade-off of steps and examples at {where}", Axis("examples to the target")
    return XYChart(title=title, x=x, y=STEPS, series=tuple(shown))


def rate_charts(tasks: Tasks) -> list[XYChart]:
    """The best rates of a task's sizes with their laws, and the rules at the largest size."""
    charts = []
    for task, found in tasks:
        laws, names = found.rate_laws, list(found.task.study.sizes)
        shown: dict[str, list[Series]] = {"by size": []}
        for i, (key, law) in enumerate(sorted(laws.items())):
            where, ink = label(dict(zip(names, key, strict=True))), _ink(i, len(laws))
            own = found.rates
            own = own[(own[names] == list(key)).all(axis=1)]
            low, high = (own["lr_opt"] * np.exp(sign * own["lr_se"]) for sign in (-1, 1))
            own = own.assign(lower=low, upper=high)
            name = f"{where}, target {format_given(own.target.max())}"
            points = _marks(own, "batch_size", "lr_opt", name=name, ink=ink, marker=MARKERS[i % 7])
            x = np.geomspace(own["batch_size"].min(), own["batch_size"].max(), N_CURVE).tolist()
            free = pd.DataFrame([(b, at.value, *at.ci) for b in x for at in [law.at(b)]])
            free = free.set_axis(["x", "lr", "lower", "upper"], axis=1)
            shown["by size"] += [series(free, y="lr", label=where, ink=ink, line="-"), points]
            if i == len(laws) - 1:
                line = _line(free, "x", "lr", label="free power", ink="law")
                shown[f"and rules at {where}"] = [line, points, *_rules(law, x)]
        for title, lines in [*shown.items()][len(laws) < 2 :]:
            title = f"Best learning rate {title}{f', {task}' if task else ''}"
            axis = Axis("best learning rate")
            charts.append(XYChart(title=title, x=BATCH, y=axis, series=tuple(lines)))
    return charts


def _rules(law: RateLaw, x: Sequence[float]) -> Iterator[Series]:
    for rule in law.rules:
        if rule.name != "free":
            name = rule.name.replace("-", " ") + " ✗" * (rule.holds is False)
            ink = f"tuned:{RULE_PLACES.get(rule.name, 1.0)}"
            yield Series(label=name, x=tuple(x), y=tuple(map(rule.at, x)), ink=ink, line="--")


def noise_charts(tasks: Tasks) -> list[XYChart]:
    """The noise scale against the step and against the loss, one line per task and size."""
    courses = of_tasks(tasks, "courses")
    if courses.empty or not (courses["noise_scale"] > 0).any():
        return []
    parts = list(courses[courses["noise_scale"] > 0].groupby("where", sort=False))
    charts = []
    for x in ("step", "loss"):
        shown = []
        for i, (where, rows) in enumerate(parts):
            style = {"label": str(where), "ink": _ink(i, len(parts)), "marker": MARKERS[i % 7]}
            shown.append(_line(rows.sort_values(x), x, "noise_scale", **style))
        title, axis = f"Noise scale against {x}", Axis("noise scale, examples")
        charts.append(XYChart(title=title, x=Axis(x), y=axis, series=tuple(shown)))
    return charts


def pairs_chart(tasks: Tasks) -> list[XYChart]:
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
        style = {"label": task, "ink": _ink(i, len(parts)), "marker": MARKERS[i % 7]}
        shown.append(_marks(sides, "noise_scale", "b_crit", **style))
    x, y = Axis("mean noise scale up to the target"), Axis("critical batch")
    return [XYChart(title="Critical batch against noise scale", x=x, y=y, series=tuple(shown))]


def _groups(result: TaskResult, size: Mapping[str, float]) -> list[BatchGroup]:
    """The fits at a size, the easiest target first."""
    found = [group for group in result.critical.groups if size.items() <= group.by.items()]
    return sorted(found, key=lambda group: -float(group.by["target"]))


def _ink(i: int, n: int) -> str:
    """Colour of the i-th of n lines."""
    return f"size:{round(i / max(n - 1, 1), 2)}"


def _line(frame: pd.DataFrame, x: str, y: str, **style: Any) -> Series:
    """A line with its band."""
    return series(frame, x, y, lower="lower", upper="upper", line="-", is_band=True, **style)


def _marks(frame: pd.DataFrame, x: str, y: str, **style: Any) -> Series:
    """Points with their intervals."""
    return series(frame, x, y, lower="lower", upper="upper", **style)


def _curve(group: BatchGroup, batches: Iterable[float]) -> pd.DataFrame:
    """Steps of a hyperbola with the band of the curve, a little beyond these batches."""
    ends = np.log([min(batches), max(batches)])
    margin = MARGIN * (ends[1] - ends[0])
    places = np.exp(np.linspace(ends[0] - margin, ends[1] + margin, N_CURVE))
    found = [(b, at.value, *at.ci) for b in places for at in [group.steps_at(float(b))]]
    return pd.DataFrame(found, columns=["x", "steps", "lower", "upper"], dtype=float)
