"""Charts of a forecast: its optima, its losses, the sweep, training curves, larger sweeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from extrap.backtesting import Backtest
from extrap.errors import DataError
from extrap.fitting import at_fractions
from extrap.fitting.optimum import GRID_FLOOR
from extrap.forecasting import Forecast
from extrap.records import Runs, Verdict
from extrap.reporting.charts import MARKS, Axis, HeatChart, Series, XYChart, series
from extrap.reporting.divergence import CHANCES, threshold
from extrap.reporting.glossary import RULE_NAMES
from extrap.reporting.groups import NEAR, RunGroup, judged_sizes, verdict_kind
from extrap.reporting.numbers import format_percent, format_quantity, name_size
from extrap.reporting.scales import positions
from extrap.reporting.sizes import SizeAxis

__all__ = [
    "LocalSweep",
    "backtest_chart",
    "curve_charts",
    "kept_values",
    "local_sweeps",
    "loss_chart",
    "optimum_chart",
    "pair_chart",
    "parabola_vertex",
    "rule_series",
    "sweep_chart",
    "sweep_charts",
]

MOST_SIZES, MOST_RUNS = 4, 12
"""Sizes whose training curves are drawn, and runs of each."""
MOST_LINES = 12
"""Lines of a chart of the sweep that are named."""
MAX_VALUES, N_BINS = 48, 24
"""More different tuned values than this are grouped into so many bins."""
N_LIMIT = 20
"""Points of a contour."""
MOST_LOCAL = 6
AROUND = 4.0
"""Octaves around the forecast within which a run belongs to the sweep of a larger size."""
WINDOW = 1.25
"""Octaves around the best mean loss that the parabola sees."""
BARS = 1.7
"""Intervals of a backtest are drawn up to so many times the largest deviation."""


def kept_values(forecast: Forecast) -> tuple[dict[str, float], dict[str, float]] | None:
    """The smallest size whose optimum is known, and its tuned values; None without one."""
    for optimum in forecast.optima:
        tuned = {name: estimate.value for name, estimate in optimum.tuned.items()}
        if tuned and all(value is not None for value in tuned.values()):
            return dict(optimum.size), {n: v for n, v in tuned.items() if v is not None}
    return None


def _size_axis(axis: SizeAxis) -> Axis:
    return Axis(axis.column, limits=(axis.low, axis.high))


def optimum_chart(
    forecast: Forecast, groups: Sequence[RunGroup], axis: SizeAxis, name: str
) -> XYChart:
    """The best value of a tuned column against size: optima, law with band, larger runs."""
    shown = list(_optimum_series(forecast, axis, name))
    kept = kept_values(forecast)
    if kept is not None:
        shown.append(
            Series(
                label="kept",
                x=(axis.low, axis.high),
                y=(kept[1][name],) * 2,
                ink="fixed",
                line="--",
            )
        )
    tried = _tried(groups, axis, name)
    if not tried.empty:
        rest, best = tried[~tried["best"]], tried[tried["best"]]
        shown.append(series(rest, y="value", ink="muted", marker="x", label="larger runs"))
        shown.append(series(best, y="value", ink="good", marker="*", label="best"))
    return XYChart(
        title=f"Best {name} against {axis.column}",
        x=_size_axis(axis),
        y=Axis(f"best {name}"),
        series=tuple(each for each in shown if each.x),
        shaded=(axis.low, axis.tuned_high),
    )


def _optimum_series(
    forecast: Forecast,
    axis: SizeAxis,
    name: str,
    *,
    ink: str = "law",
    label: str = "law",
    marker: str = "o",
) -> list[Series]:
    values = axis.values()
    found = []
    if forecast.tuned_laws.get(name) is not None:
        estimates = [forecast.at(**axis.at(v)).tuned[name] for v in values]
        curve = pd.DataFrame(
            [(x, e.value, *e.pi) for x, e in zip(values, estimates, strict=True)],
            columns=["x", "value", "lower", "upper"],
            dtype=float,
        )
        found.append(
            series(
                curve,
                y="value",
                lower="lower",
                upper="upper",
                ink=ink,
                line="-",
                is_band=True,
                label=label,
            )
        )
    rows = [
        (o.size[axis.column], o.tuned[name].value, *o.tuned[name].ci)
        for o in forecast.optima
        if axis.holds(o.size)
    ]
    optima = pd.DataFrame(rows, columns=["x", "value", "lower", "upper"], dtype=float)
    found.append(
        series(
            optima,
            y="value",
            lower="lower",
            upper="upper",
            ink=ink,
            marker=marker,
            label="" if len(found) else label,
        )
    )
    return found


def rule_series(forecast: Forecast, axis: SizeAxis, name: str) -> list[Series]:
    """Known rules along the sizes, each a straight line between the corners of the path."""
    corners = {axis.low, axis.high, *(float(k[axis.column]) for k in axis.knots)}
    lines: dict[str, list[tuple[float, float]]] = {}
    for x in sorted(x for x in corners if axis.low <= x <= axis.high):
        for found in forecast.rules(**axis.at(x)):
            if found.tuned == name:
                lines.setdefault(found.rule, []).append((x, found.value))
    return [
        Series(
            label=RULE_NAMES.get(rule, rule),
            x=tuple(x for x, _ in points),
            y=tuple(y for _, y in points),
            ink="muted",
            line="--",
            is_faint=True,
        )
        for rule, points in lines.items()
    ]


def _tried(groups: Sequence[RunGroup], axis: SizeAxis, name: str) -> pd.DataFrame:
    """`x`, `value`, `best` of larger runs: the best of sizes tried at three values or more."""
    rows = [
        (g.size[axis.column], g.tuned[name], g.mean_loss)
        for g in groups
        if axis.holds(g.size) and g.tuned.get(name) is not None
    ]
    frame = pd.DataFrame(rows, columns=["x", "value", "loss"], dtype=float)
    by_size = frame.groupby("x")["loss"]
    frame["best"] = (by_size.transform("count") >= 3) & (frame["loss"] == by_size.transform("min"))
    return frame


def loss_chart(
    forecast: Forecast, groups: Sequence[RunGroup], axis: SizeAxis, *, metric: str = "loss"
) -> XYChart:
    """Tuned losses and their law with its band, the kept value's curve, larger runs."""
    values = axis.values()
    shown: list[Series] = []
    if forecast.loss_laws:
        curve = forecast.frame(axis.at(v) for v in values).assign(x=values)
        shown.append(
            series(
                curve,
                lower="loss_pi_lower",
                upper="loss_pi_upper",
                line="-",
                is_band=True,
                label="tuned",
            )
        )
    kept = kept_values(forecast)
    if kept is not None:
        shown.append(
            series(_kept_curve(forecast, kept[1], axis), ink="fixed", line="--", label="kept")
        )
    optima = pd.DataFrame(
        [
            (o.size[axis.column], o.loss or o.best_loss)
            for o in forecast.optima
            if axis.holds(o.size)
        ],
        columns=["x", "loss"],
        dtype=float,
    )
    shown.append(series(optima, marker="o"))
    on_path = [g for g in groups if axis.holds(g.size)]
    for kind, (marker, ink, label) in MARKS.items():
        points = [
            (float(g.size[axis.column]), v.loss)
            for g in on_path
            for v in g.verdicts
            if v.loss is not None and verdict_kind(v) == kind
        ]
        frame = pd.DataFrame(points, columns=["x", "loss"], dtype=float)
        shown.append(series(frame, ink=ink, marker=marker, label=label))
    return XYChart(
        title=f"{metric.capitalize()} against {axis.column}",
        x=_size_axis(axis),
        y=Axis(metric),
        series=tuple(each for each in shown if each.x),
        shaded=(axis.low, axis.tuned_high),
    )


def _kept_curve(forecast: Forecast, tuned: Mapping[str, float], axis: SizeAxis) -> pd.DataFrame:
    """Loss expected at values that are kept; empty where the sweep does not tell."""
    x = axis.values()[::2]
    x = x if x[-1] == axis.high else [*x, axis.high]
    try:
        found = forecast.frame_at_values((axis.at(value) for value in x), tuned=tuned)
    except DataError:
        return pd.DataFrame(columns=["x", "loss"], dtype=float)
    return found.assign(x=x)[["x", "loss"]]


def sweep_charts(forecast: Forecast, axis: SizeAxis) -> list[XYChart | HeatChart]:
    """The sweep: loss against each tuned value by size, and over both."""
    if not forecast.runs.tuned:
        return [sweep_chart(forecast, axis, None, against="size")]
    return [
        sweep_chart(forecast, axis, name, against=against)
        for name in forecast.runs.tuned
        for against in ("tuned", "both")
    ]


def sweep_chart(
    forecast: Forecast, axis: SizeAxis, name: str | None, *, against: str
) -> XYChart | HeatChart:
    """The losses of a sweep.

    Args:
        forecast: The forecast made from it.
        axis: The path through the sizes.
        name: The tuned column; None where nothing was tuned.
        against: `"tuned"`, one line per size; `"size"`, one line per tuned value; `"both"`, a map.

    Raises:
        DataError: No run of the sweep has a loss on the path.
    """
    cells, diverged = _cells(forecast, axis, name)
    if cells.empty:
        raise DataError("a sweep is drawn from runs with a loss, got none; look at forecast.runs.")
    if against == "both":
        return _heat_map(forecast, axis, str(name), cells, diverged)
    x, by, label = ("x", "v", axis.column) if against == "size" else ("v", "x", str(name))
    places = positions(cells[by])
    other = str(name) if against == "size" else axis.column
    ramp = "tuned" if against == "size" else "size"
    has_names = name is not None and len(places) <= MOST_LINES
    lines = [
        series(
            rows,
            x=x,
            ink="law" if name is None else f"{ramp}:{places[float(value)]:.3f}",
            line="-",
            marker="" if len(rows) > 1 else "o",
            label=f"{other} {format_quantity(float(value))}" if has_names else "",
        )
        for value, rows in cells.groupby(by)
    ]
    optima = [
        Series(
            x=(
                float(o.size[axis.column])
                if against == "size"
                else o.tuned[name].value or math.nan,
            ),
            y=(o.loss,),
            ink="ink" if against == "size" else f"size:{places.get(o.size[axis.column], 0.5):.3f}",
            marker="D",
        )
        for o in forecast.optima
        if name is not None and axis.holds(o.size) and o.tuned[name].value and o.loss
    ]
    return XYChart(
        title=f"Loss against {label}",
        x=Axis(label),
        y=Axis("loss"),
        series=(*lines, *optima),
    )


def _cells(
    forecast: Forecast, axis: SizeAxis, name: str | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`x`, `v`, `loss`: seeds averaged, best of other tuned columns; where runs diverged."""
    names = list(forecast.runs.tuned)
    frame = axis.select(forecast.runs.to_frame()).assign(
        x=lambda f: f[axis.column].astype(float),
        v=lambda f: f[name].astype(float) if name else 1.0,
    )
    if frame["v"].nunique() > MAX_VALUES:
        frame["v"], names = _binned(frame["v"]), []
    complete = frame[frame["status"] == "complete"].astype({"loss": float})
    means = complete.groupby(["x", "v", *names], as_index=False)["loss"].mean()
    cells = means.groupby(["x", "v"], as_index=False)["loss"].min()
    return cells, frame.loc[frame["status"] == "diverged", ["x", "v"]].drop_duplicates()


def _binned(values: pd.Series) -> pd.Series:
    """Centres of equal bins on a log scale."""
    logs = np.log(values)
    low, width = logs.min(), np.ptp(logs) / N_BINS
    place = np.minimum(np.floor((logs - low) / width), N_BINS - 1)
    return pd.Series(np.exp(low + (place + 0.5) * width), index=values.index)


def _heat_map(
    forecast: Forecast, axis: SizeAxis, name: str, cells: pd.DataFrame, diverged: pd.DataFrame
) -> HeatChart:
    grid = cells.pivot(index="v", columns="x", values="loss")
    optima = pd.DataFrame(
        [
            (o.size[axis.column], o.tuned[name].value)
            for o in forecast.optima
            if axis.holds(o.size)
        ],
        columns=["x", "v"],
        dtype=float,
    )
    shown = [
        series(optima, y="v", ink="paper", line="-", marker="D"),
        series(diverged, y="v", ink="bad", marker="x"),
    ]
    for chance, limit in _limits(forecast, axis, name).groupby("chance"):
        shown.append(
            series(limit, y="v", ink="bad", line="--", label=f"{100 * chance:.0f} % diverge")
        )
    return HeatChart(
        title=f"Loss over {axis.column} and {name}",
        x=Axis(axis.column),
        y=Axis(name),
        xs=tuple(map(float, grid.columns)),
        ys=tuple(map(float, grid.index)),
        values=tuple(tuple(map(float, row)) for row in grid.to_numpy()),
        label="loss",
        series=tuple(each for each in shown if each.x),
    )


def _limits(forecast: Forecast, axis: SizeAxis, name: str) -> pd.DataFrame:
    """`chance`, `x`, `v`: where runs diverge with a given chance."""
    rows = []
    if forecast.divergence is not None:
        for x in np.geomspace(axis.low, axis.tuned_high, N_LIMIT):
            size = axis.at(float(x))
            others = {n: e.value for n, e in forecast.predict_tuned(size).items() if n != name}
            known = {n: value for n, value in others.items() if value is not None}
            if len(known) == len(others):
                rows += [
                    (chance, x, threshold(forecast.divergence, size, known, name, chance))
                    for chance in CHANCES
                ]
    return pd.DataFrame(rows, columns=["chance", "x", "v"], dtype=float).dropna()


def backtest_chart(found: Backtest) -> XYChart:
    """Held-out sizes: how far off the forecast and the last value were, by distance."""
    rows = [
        (
            h.extrapolation_ratio,
            h.deviation,
            math.nan if h.last_deviation is None else h.last_deviation,
            (h.predicted_pi.lower or 0.0) / h.predicted - 1,
            math.inf if h.predicted_pi.upper is None else h.predicted_pi.upper / h.predicted - 1,
            h.observed in h.predicted_pi,
        )
        for h in found.holdouts
    ]
    columns = ["x", "off", "last", "lower", "upper", "inside"]
    frame = pd.DataFrame(rows, columns=columns)
    most = BARS * max(0.01, float(np.nanmax(np.abs(frame[["off", "last"]].to_numpy()))))
    frame[["lower", "upper"]] = frame[["lower", "upper"]].clip(-most, most)
    zero = frame.assign(zero=0.0)
    return XYChart(
        title="Held-out sizes against their forecast",
        x=Axis("extrapolation ratio"),
        y=Axis("loss against forecast", is_log=False, is_percent=True),
        reference=0.0,
        series=tuple(
            each
            for each in (
                series(zero, y="zero", lower="lower", upper="upper", label="interval"),
                series(frame, y="last", ink="muted", marker="D", label="last value"),
                series(frame[frame["inside"]], y="off", ink="good", marker="o", label="inside"),
                series(frame[~frame["inside"]], y="off", ink="bad", marker="X", label="outside"),
            )
            if each.x
        ),
    )


def curve_charts(
    forecast: Forecast, verdicts: Sequence[Verdict], runs: Runs | None
) -> list[XYChart]:
    """Training curves of the largest sizes' runs, on the band of tuned runs.

    Args:
        forecast: The forecast; with reference curves, or there is nothing to draw.
        verdicts: One per row of `runs`.
        runs: The judged runs with their curves, or None.
    """
    points = None if runs is None else runs.curves()
    if forecast.curves is None or points is None or points.empty:
        return []
    by_size: dict[tuple[float, ...], list[int]] = {}
    having = set(points["run"])
    for i, verdict in enumerate(verdicts):
        if i in having and verdict.on_law is not None:
            by_size.setdefault(tuple(verdict.size.values()), []).append(i)
    return [
        _curves_at(forecast, verdicts, points, by_size[size])
        for size in sorted(by_size)[-MOST_SIZES:]
    ]


def _curves_at(
    forecast: Forecast, verdicts: Sequence[Verdict], points: pd.DataFrame, here: list[int]
) -> XYChart:
    """Of each size the runs that end farthest from the forecast."""
    size = verdicts[here[0]].size
    worst = sorted(here, key=lambda i: -_distance(verdicts[i]))[:MOST_RUNS]
    assert forecast.curves is not None
    length = forecast.curves.total_steps or 0.0
    shown = [
        series(
            _reference(forecast, size),
            lower="lower",
            upper="upper",
            line="-",
            is_band=True,
            label="tuned runs",
        )
    ]
    named: set[str] = set()
    for i in sorted(worst):
        found = at_fractions(points[points["run"] == i].assign(run=0), 1, length=length)
        if found is None:
            continue
        marker, ink, label = MARKS[verdict_kind(verdicts[i])]
        part = pd.DataFrame({"x": found.places, "loss": np.exp(found.table[0])})
        shown.append(
            series(part, ink=ink, line="-", marker=marker, label="" if label in named else label)
        )
        named.add(label)
    return XYChart(
        title=f"Training curves at {name_size(size)}",
        x=Axis("fraction of training"),
        y=Axis("loss"),
        series=tuple(shown),
    )


def _distance(verdict: Verdict) -> float:
    """How far a run ended from the forecast; one without a loss is farthest."""
    return math.inf if verdict.deviation is None else abs(verdict.deviation)


def _reference(forecast: Forecast, size: Mapping[str, float]) -> pd.DataFrame:
    curves, prediction = forecast.curves, forecast.predict_loss(size)
    assert curves is not None
    assert prediction is not None
    mean = curves.mean(prediction.log_loss)
    covariance = curves.predictive_covariance(
        prediction.log_loss,
        law_variance=prediction.curve_log_sd**2,
        octave_sd={name: forecast.octave_sd(name, size) for name in forecast.runs.tuned},
    )
    half = curves.half_width(covariance, forecast.level)
    return pd.DataFrame(
        {
            "x": curves.places,
            "loss": np.exp(mean),
            "lower": np.exp(mean - half),
            "upper": np.exp(mean + half),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSweep:
    """Judged runs of one size at several values of one tuned column.

    Attributes:
        chart: Loss against the value, with the excess-loss curve the forecast expects.
        text: Where the best value lies, and how far from the forecast.
        octaves: log2(best / forecast); None where the best lies at an end of the values tried.
        octaves_se: Its standard error: over seeds, and a fraction of the grid; None with one seed.
    """

    chart: XYChart
    text: str
    octaves: float | None
    octaves_se: float | None


def local_sweeps(forecast: Forecast, groups: Sequence[RunGroup]) -> list[LocalSweep]:
    """Every size and tuned column with a value around the forecast; the largest sizes only."""
    found = []
    for size in judged_sizes(groups):
        for name in forecast.runs.tuned:
            here = _around(forecast, groups, size, name)
            if here:
                found.append(_local_sweep(forecast, here, size, name))
    return found[-MOST_LOCAL:]


def parabola_vertex(octaves: Sequence[float], log_loss: Sequence[float]) -> float | None:
    """Minimum of a least-squares parabola near the lowest point; None if that is at an end."""
    u, y = np.asarray(octaves, dtype=float), np.asarray(log_loss, dtype=float)
    lowest = u[np.argmin(y)]
    if lowest in (u.min(), u.max()):
        return None
    near = np.abs(u - lowest) <= WINDOW
    if near.sum() < 3:
        near = np.argsort(np.abs(u - lowest))[:3]
    a, b, _ = np.polyfit(u[near], y[near], 2)
    if a <= 0:
        return None
    return float(np.clip(-b / (2 * a), u.min(), u.max()))


def _around(
    forecast: Forecast, groups: Sequence[RunGroup], size: Mapping[str, float], name: str
) -> list[RunGroup]:
    centre = {n: e.value for n, e in forecast.at(**size).tuned.items()}
    if any(value is None for value in centre.values()):
        return []
    kept = []
    for group in groups:
        if dict(group.size) != dict(size) or not group.losses:
            continue
        values = {n: v for n, v in group.tuned.items() if v is not None}
        if set(values) != set(centre):
            continue
        distance = {n: abs(math.log2(v / (centre[n] or 1.0))) for n, v in values.items()}
        if distance[name] <= AROUND and all(d <= NEAR for n, d in distance.items() if n != name):
            kept.append(group)
    return kept


def _local_sweep(
    forecast: Forecast, groups: list[RunGroup], size: Mapping[str, float], name: str
) -> LocalSweep:
    estimate = forecast.at(**size).tuned[name]
    centre = estimate.value or math.nan
    rows = [
        (float(g.tuned[name] or math.nan), v.loss, verdict_kind(v), str(v.seed))
        for g in groups
        for v in g.verdicts
        if v.loss is not None
    ]
    runs = pd.DataFrame(rows, columns=["x", "loss", "kind", "seed"]).astype({"loss": float})
    means = runs.groupby("x", as_index=False)["loss"].mean()
    vertex = parabola_vertex(np.log2(means["x"] / centre), np.log(means["loss"]))
    error = None if vertex is None else _spread_over_seeds(runs, centre)
    expected = _expected(forecast, size, name, means)
    low, high = estimate.pi
    marks = [
        series(runs[runs["kind"] == kind], ink=ink, marker=marker, label=label)
        for kind, (marker, ink, label) in MARKS.items()
    ]
    shown = (
        series(expected, line=":", label="expected"),
        series(means, ink="muted", line="-", label="mean"),
        *marks,
    )
    chart = XYChart(
        title=f"{name} at {name_size(size)}",
        x=Axis(name),
        y=Axis("loss"),
        series=tuple(each for each in shown if each.x),
        shaded=None if low is None or high is None else (low, high),
    )
    text = _local_text(name, means, vertex, error)
    return LocalSweep(chart=chart, text=text, octaves=vertex, octaves_se=error)


def _local_text(name: str, means: pd.DataFrame, vertex: float | None, error: float | None) -> str:
    n = len(means)
    start = f"{n} value{'s' * (n > 1)} of {name} tried; shaded: where the forecast puts the best."
    if n < 3:
        return start
    if vertex is None:
        best = format_quantity(float(means.loc[means["loss"].idxmin(), "x"]))
        return f"{start} The lowest loss, at {best}, lies at an end of them."
    sides = "" if error is None else f" ± {error:.2f}"
    side = "below" if vertex < 0 else "above"
    return (
        f"{start} The best lies {abs(vertex):.2f}{sides} octaves {side} the forecast "
        f"({format_percent(2**vertex - 1)}), by a parabola through the mean losses."
    )


def _spread_over_seeds(runs: pd.DataFrame, centre: float) -> float | None:
    vertices = []
    for _, rows in runs.groupby("seed"):
        if rows["x"].nunique() >= 3:
            vertices.append(parabola_vertex(np.log2(rows["x"] / centre), np.log(rows["loss"])))
    known = [v for v in vertices if v is not None]
    if len(known) < 2 or len(known) < len(vertices):
        return None
    spacing = float(np.diff(np.log2(np.unique(runs["x"]))).min())
    return math.hypot(np.std(known, ddof=1) / math.sqrt(len(known)), GRID_FLOOR * spacing)


def _expected(
    forecast: Forecast, size: Mapping[str, float], name: str, means: pd.DataFrame
) -> pd.DataFrame:
    point = forecast.at(**size)
    centre = {n: e.value or 1.0 for n, e in point.tuned.items()}
    low = min(means["x"].min(), centre[name] / 2)
    high = max(means["x"].max(), centre[name] * 2)
    rows = []
    for value in np.geomspace(low, high, 60):
        excess = forecast.predict_excess(size, {**centre, name: float(value)})
        if excess is not None and point.loss is not None:
            rows.append((float(value), point.loss * math.exp(excess)))
    return pd.DataFrame(rows, columns=["x", "loss"], dtype=float)


def pair_chart(
    forecast: Forecast, baseline: Forecast, axis: SizeAxis, name: str, *, names: tuple[str, str]
) -> XYChart:
    """The optima and laws of one tuned column in two sweeps, along the path of the first."""
    lowest = {c: min(o.size[c] for o in baseline.optima) for c in baseline.runs.sizes}
    reached = [v for v in axis.values() if all(axis.at(v)[c] >= low for c, low in lowest.items())]
    theirs = [
        *_optimum_series(
            baseline,
            axis if not reached else replace(axis, low=reached[0]),
            name,
            ink="fixed",
            label=names[1],
            marker="s",
        )
    ]
    ours = _optimum_series(forecast, axis, name, label=names[0])
    return XYChart(
        title=f"Best {name} against {axis.column}",
        x=_size_axis(axis),
        y=Axis(f"best {name}"),
        series=tuple(each for each in (*ours, *theirs) if each.x),
        shaded=(axis.low, axis.tuned_high),
    )
