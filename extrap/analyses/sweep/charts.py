"""Charts of a forecast: its optima, its losses, the sweep, training curves, larger sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from extrap.analyses.sweep.judged_groups import RunGroup, group_near, outcome_of
from extrap.analyses.sweep.sizes import SizeAxis
from extrap.errors import DataError, ExtrapError
from extrap.fitting.loss_law import fit, predict_log, relative_sizes
from extrap.fitting.reference_curves import interval_means
from extrap.forecasting import Forecast
from extrap.forecasting.backtesting import Backtest
from extrap.records import Runs, Verdict
from extrap.records.numbers import (
    compared,
    format_percent,
    format_quantity,
    format_value,
    name_size,
    name_tuned,
)
from extrap.records.outcomes import Outcome
from extrap.reporting.blocks import Block, Figure, Paragraph
from extrap.reporting.charts import BAND, Axis, HeatChart, Series, XYChart, points

if TYPE_CHECKING:
    from extrap.analyses.sweep.answer import AnswerRow

MOST_CURVE_SIZES, MOST_CURVE_RUNS = 4, 12
"""Sizes whose training curves are drawn, and runs of each."""
MOST_NAMED_LINES = 12
"""Lines of a chart of the sweep that are named."""
MAX_VALUES, N_BINS = 48, 24
"""More different tuned values than this are grouped into so many bins."""
FIXED_SPAN = 4.0
"""A law at a fixed value is fitted to sizes within this factor of the smallest."""
BARS = 1.7
"""Intervals of a backtest are drawn up to so many times the largest deviation."""


def kept_values(forecast: Forecast) -> dict[str, float]:
    """The tuned values of the smallest size whose optimum is known; empty without one."""
    for optimum in forecast.optima:
        tuned = {name: estimate.value for name, estimate in optimum.tuned.items()}
        if tuned and all(value is not None for value in tuned.values()):
            return {name: value for name, value in tuned.items() if value is not None}
    return {}


def size_chart(title: str, axis: SizeAxis, y: str, shown: Sequence[Series]) -> XYChart:
    """A chart over the sizes, those of the sweep on grey."""
    x = Axis(axis.column, limits=(axis.low, axis.high))
    return XYChart(title=title, x=x, y=Axis(y), series=shown, shaded=(axis.low, axis.tuned_high))


def optimum_chart(
    forecast: Forecast,
    groups: Sequence[RunGroup],
    axis: SizeAxis,
    name: str,
    rows: Sequence[AnswerRow] = (),
) -> XYChart:
    """The best value of a tuned column against size: optima, law with band, larger runs.

    At the sizes of the answer, if given, the recommended values too.
    """
    shown = _optimum_series(forecast, axis, name)
    values = [(r.size[axis.column], r.point.recommended[name]) for r in rows if axis.holds(r.size)]
    shown.append(points(values, ink="law", marker="D", label="recommended"))
    if kept_tuned := kept_values(forecast):
        ends = [(x, kept_tuned[name]) for x in (axis.low, axis.high)]
        shown.append(points(ends, label="kept", ink="warn", line="--"))
    tried = _tried(groups, axis, name)
    others, best = (
        tried.loc[tried["best"] == is_best, ["x", "value"]] for is_best in (False, True)
    )
    shown.append(points(others.to_numpy(), ink="muted", marker="X", label="larger runs"))
    shown.append(points(best.to_numpy(), ink="good", marker="*", label="best"))
    return size_chart(f"Best {name} against {axis.column}", axis, f"best {name}", shown)


def _optimum_series(forecast: Forecast, axis: SizeAxis, name: str) -> list[Series]:
    label = "optimum of the law"
    has_law, laws = forecast.surface is not None, []
    for x in axis.values():
        values = forecast.values_at(size := axis.size_at(x))
        if values is not None and forecast.is_tuned_at(size):
            laws.append((x, values.estimates[name]))
    optima = [(o.size[axis.column], o.tuned[name]) for o in forecast.optima if axis.holds(o.size)]
    return [
        points([(x, e.value, *e.pi) for x, e in laws], ink="law", label=label, **BAND),
        points(
            [(x, e.value, *e.ci) for x, e in optima],
            ink="law",
            marker="o",
            label="" if has_law else label,
        ),
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
    shown: list[Series] = []
    if forecast.loss_laws:
        law = []
        for x in axis.values():
            tuned = forecast.predict_loss(size := axis.size_at(x))
            if tuned is not None and forecast.doubt_loss(size) is None:
                run = forecast.as_run(tuned, size)
                band = run.interval(forecast.level, new_run=True)
                law.append((x, math.exp(run.log_loss), *band))
        shown.append(points(law, **BAND, label="tuned"))
    if kept_tuned := kept_values(forecast):
        shown.append(
            points(losses_at(forecast, kept_tuned, axis), ink="warn", line="--", label="kept")
        )
    optima = [o for o in forecast.optima if axis.holds(o.size)]
    losses = [(o.size[axis.column], o.loss or o.best_loss) for o in optima]
    shown.append(points(losses, marker="o"))
    on_path = [g for g in groups if axis.holds(g.size)]
    shown += judged_series(on_path, lambda group: group.size[axis.column])
    title = f"{metric.capitalize()} against {axis.column}"
    return size_chart(title, axis, metric, shown)


def judged_series(
    groups: Sequence[RunGroup], x_of: Callable[[RunGroup], float | None]
) -> list[Series]:
    """The losses of judged runs, one series an outcome."""
    judged = [(group, v) for group in groups for v in group.verdicts if v.loss is not None]
    runs = [(x_of(group), v.loss, group.outcome_of(v)) for group, v in judged]
    return [
        points(
            [(x, loss) for x, loss, became in runs if became is outcome],
            ink=outcome.color,
            marker=outcome.marker,
            label=outcome.word,
        )
        for outcome in Outcome
    ]


def losses_at(
    forecast: Forecast, tuned: Mapping[str, float], axis: SizeAxis
) -> list[tuple[float, float]]:
    """Losses expected over size at values that are kept; empty where the sweep does not tell."""
    x = axis.values()[::2]
    x = x if x[-1] == axis.high else [*x, axis.high]
    try:
        frame = forecast.frame_at_values((axis.size_at(v) for v in x), tuned=tuned)
    except DataError:  # no law of the loss or of an optimum, or no excess-loss curve
        return []
    return list(zip(x, frame["loss"], strict=True))


def sweep_charts(forecast: Forecast, axis: SizeAxis) -> list[XYChart | HeatChart]:
    """The sweep: loss against each tuned value by size, and over both.

    Raises:
        DataError: No run of the sweep has a loss on the path.
    """
    shown: list[XYChart | HeatChart] = []
    for name in forecast.runs.tuned or (None,):
        cells, diverged = _cells(forecast, axis, name)
        if cells.empty:
            raise DataError(
                "a sweep is drawn from runs with a loss, got none; look at forecast.runs."
            )
        shown.append(_sweep_chart(forecast, axis, name, cells))
        if name is not None:
            shown.append(_heat_map(forecast, axis, name, cells, diverged))
    return shown


def _sweep_chart(
    forecast: Forecast, axis: SizeAxis, name: str | None, cells: pd.DataFrame
) -> XYChart:
    """Loss against a tuned value, one line per size; against size where nothing was tuned."""
    x, by, label = ("x", "v", axis.column) if name is None else ("v", "x", name)
    places = _positions(cells[by].unique())
    has_names = name is not None and len(places) <= MOST_NAMED_LINES
    lines = [
        points(
            rows[[x, "loss"]].to_numpy(),
            ink="law" if name is None else f"size:{round(places[float(value)], 3)}",
            line="-",
            marker="" if len(rows) > 1 else "o",
            label=f"{axis.column} {format_quantity(float(value))}" if has_names else "",
        )
        for value, rows in cells.groupby(by)
    ]
    for o in forecast.optima:
        if name is not None and axis.holds(o.size) and o.tuned[name].value and o.loss:
            ink = f"size:{round(places.get(o.size[axis.column], 0.5), 3)}"
            lines.append(points([(o.tuned[name].value, o.loss)], ink=ink, marker="D"))
    return XYChart(title=f"Loss against {label}", x=Axis(label), y=Axis("loss"), series=lines)


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


def _positions(values: Iterable[float]) -> dict[float, float]:
    """Value → its place in [0, 1] on a log scale; a single value stands in the middle."""
    low, high = min(values), max(values)
    span = math.log(high / low)
    return {v: math.log(v / low) / span if span else 0.5 for v in values}


def _binned(values: pd.Series) -> pd.Series:
    """Centres of equal bins on a log scale."""
    logs = np.log(values)
    low, width = logs.min(), np.ptp(logs) / N_BINS
    bin_index = np.minimum(np.floor((logs - low) / width), N_BINS - 1)
    return pd.Series(np.exp(low + (bin_index + 0.5) * width), index=values.index)


def _heat_map(
    forecast: Forecast, axis: SizeAxis, name: str, cells: pd.DataFrame, diverged: pd.DataFrame
) -> HeatChart:
    grid = cells.pivot(index="v", columns="x", values="loss")
    grid = grid.reindex(  # values at which every run diverged have cells too, empty ones
        index=grid.index.union(diverged["v"].unique()),
        columns=grid.columns.union(diverged["x"].unique()),
    )
    optima = [(o.size[axis.column], o.tuned[name]) for o in forecast.optima if axis.holds(o.size)]
    shown = [
        points([(x, e.value) for x, e in optima], ink="paper", line="-", marker="D"),
        points(diverged.to_numpy(), ink="bad", marker="X"),
    ]
    return HeatChart(
        title=f"Loss over {axis.column} and {name}",
        x=axis.column,
        y=name,
        xs=tuple(map(float, grid.columns)),
        ys=tuple(map(float, grid.index)),
        values=tuple(tuple(map(float, row)) for row in grid.to_numpy()),
        label="loss",
        series=shown,
    )


def backtest_chart(backtest: Backtest) -> XYChart:
    """Held-out sizes: how far off the forecast and the last value were, by distance."""
    off = [(h.extrapolation_ratio, h.deviation) for h in backtest.holdouts]
    last = [(h.extrapolation_ratio, h.last_deviation) for h in backtest.holdouts]
    most = BARS * max(0.01, *(abs(v) for _, v in [*off, *last] if v is not None))
    bars = []
    for h in backtest.holdouts:
        lower, upper = h.predicted_pi
        low = max((lower or 0.0) / h.predicted - 1, -most)
        high = most if upper is None else min(upper / h.predicted - 1, most)
        bars.append((h.extrapolation_ratio, 0.0, low, high))
    held = [h.observed in h.predicted_pi for h in backtest.holdouts]
    return XYChart(
        title="Held-out sizes against their forecast",
        x=Axis("extrapolation ratio"),
        y=Axis("loss against forecast", is_log=False, is_percent=True),
        reference=0.0,
        series=(
            points(bars, label="interval"),
            points(last, ink="muted", marker="D", label="last value"),
            points(compress(off, held), ink="good", marker="o", label="inside"),
            points(compress(off, map(not_, held)), ink="bad", marker="X", label="outside"),
        ),
    )


def curve_charts(
    forecast: Forecast,
    verdicts: Sequence[Verdict],
    runs: Runs | None,
    contrasts: Collection[int] = (),
) -> list[XYChart]:
    """Training curves of the largest sizes' runs, on the band of tuned runs.

    Args:
        forecast: The forecast; with reference curves, or there is nothing to draw.
        verdicts: One per row of `runs`.
        runs: The judged runs with their curves, or None.
        contrasts: `Verdict.configuration` of those that were mistuned on purpose.
    """
    courses = None if runs is None else runs.curves()
    if forecast.curves is None or courses is None or courses.empty:
        return []
    by_size: dict[tuple[float, ...], list[int]] = {}
    having = set(courses["run"])
    for i, verdict in enumerate(verdicts):
        if i in having and verdict.on_law is not None:
            by_size.setdefault(tuple(verdict.size.values()), []).append(i)
    return [
        _curves_at(forecast, verdicts, courses, by_size[size], contrasts)
        for size in sorted(by_size)[-MOST_CURVE_SIZES:]
    ]


def _curves_at(
    forecast: Forecast,
    verdicts: Sequence[Verdict],
    courses: pd.DataFrame,
    here: list[int],
    contrasts: Collection[int],
) -> XYChart:
    """Curves of the runs of one size that end farthest from the forecast, and the reference."""
    size = verdicts[here[0]].size
    worst = sorted(here, key=lambda i: -_distance(verdicts[i]))[:MOST_CURVE_RUNS]
    assert forecast.curves is not None
    length = forecast.curves.total_steps or 0.0
    shown = [points(_reference(forecast, size), label="tuned runs", **BAND)]
    named: set[Outcome] = set()
    for i in sorted(worst):
        means = interval_means(courses[courses["run"] == i].assign(run=0), 1, length=length)
        if means is None:
            continue
        is_contrast = verdicts[i].configuration in contrasts
        outcome = outcome_of(verdicts[i], is_contrast=is_contrast)
        curve = zip(means.fractions, np.exp(means.log_loss[0]), strict=True)
        label = "" if outcome in named else outcome.word
        style = {"ink": outcome.color, "marker": outcome.marker}
        shown.append(points(curve, line="-", label=label, **style))
        named.add(outcome)
    return XYChart(
        title=f"Training curves at {name_size(size)}",
        x=Axis("fraction of training"),
        y=Axis("loss"),
        series=shown,
    )


def _distance(verdict: Verdict) -> float:
    """How far a run ended from the forecast; one without a loss is farthest."""
    return math.inf if verdict.deviation is None else abs(verdict.deviation)


def _reference(forecast: Forecast, size: Mapping[str, float]) -> Iterable[tuple[float, ...]]:
    """The band of tuned runs: place, loss, and its ends."""
    curves, prediction = forecast.curves, forecast.predict_loss(size)
    assert curves is not None
    assert prediction is not None
    mean, values = curves.mean(prediction.log_loss), forecast.values_at(size)
    covariance = curves.predictive_covariance(
        prediction.log_loss,
        law_variance=prediction.curve_log_sd**2,
        octave_sd={} if values is None else values.octave_sds,
    )
    half = curves.half_width(covariance, forecast.level)
    return zip(curves.places, np.exp(mean), np.exp(mean - half), np.exp(mean + half), strict=True)


def fixed_law_blocks(
    forecast: Forecast, size: Mapping[str, float], groups: Sequence[RunGroup], axis: SizeAxis
) -> list[Block]:
    """A law fitted at one fixed value: the value tried nearest to the smallest size's best.

    It fits the small sizes well and misses larger ones: what it predicts at a size, and the runs.

    References:
        Metz (2022), On the difficulty of extrapolation with NN scaling.
    """
    frame, names = axis.select(forecast.runs.complete().to_frame()), list(forecast.runs.tuned)
    best = next((o for o in forecast.optima if axis.holds(o.size)), None)
    if not names or best is None or not best.bracketed or not axis.holds(size):
        return []
    tried = frame[np.isclose(frame[axis.column], axis.low)][names].astype(float)
    away = np.log2(tried / [best.tuned[name].value for name in names])
    tuned = {name: float(v) for name, v in tried.loc[(away**2).sum(axis=1).idxmin()].items()}
    here = frame[np.logical_and.reduce([np.isclose(frame[n], v) for n, v in tuned.items()])]
    losses = here.groupby(axis.column)["loss"].mean().rename_axis("x").reset_index().astype(float)
    is_fitted = losses["x"] <= FIXED_SPAN * axis.low * (1 + 1e-9)
    fitted, others = losses[is_fitted], losses[~is_fitted]
    try:
        law = fit("power", {axis.column: list(fitted["x"])}, list(fitted["loss"]))
    except ExtrapError:
        return []

    def law_loss(x: float) -> float:
        return float(np.exp(predict_log(law, relative_sizes(law, {axis.column: x}))[0][0]))

    predicted = law_loss(size[axis.column])
    worst = max(abs(loss / law_loss(x) - 1) for x, loss in fitted.itertuples(index=False))
    text = (
        f"A law fitted at {name_tuned(tuned)}, the value tried that is nearest to the best of the "
        f"smallest size, follows the {len(fitted)} sizes within "
        f"{format_quantity(FIXED_SPAN)} times that size to {format_percent(worst, signed=False)}. "
        f"At {name_size(size)} it predicts {format_value(predicted)}."
    )
    measured = group_near(groups, size, tuned)
    if measured is not None and measured.mean_loss is not None:
        seen = format_value(measured.mean_loss, measured.loss_se(forecast.noise.log_sd))
        above = compared(measured.mean_loss / predicted - 1)
        text += f" Runs at {name_tuned(measured.tuned)} reached {seen}, {above} it."
    drawn = {"ink": "warn", "marker": "s"}
    larger = [g for g in groups if axis.holds(g.size) and group_near([g], g.size, tuned)]
    shown = [
        points(
            [(x, law_loss(x)) for x in axis.values()],
            ink="warn",
            line="--",
            label="law at this value",
        ),
        points(fitted.to_numpy(), **drawn),
        points(others.to_numpy(), **(drawn | {"ink": "muted"}), label="not fitted"),
        *judged_series(larger, lambda group: group.size[axis.column]),
    ]
    chart = size_chart(f"Loss at {name_tuned(tuned)}", axis, "loss", shown)
    return [Paragraph(text), Figure(chart)]
