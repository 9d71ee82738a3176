"""Charts of recipes over size: tuned losses with their laws, differences, what they are worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from extrap.comparing import Comparison, SizeDifference
from extrap.comparing.findings import GroupFindings, Treatment
from extrap.fitting import LossPrediction, predict_log, relative_sizes
from extrap.records import Fit, Interval, Measure, Runs
from extrap.records.numbers import NBSP, name_size
from extrap.reporting.charts import Axis, Row, RowsChart, Series, XYChart, series
from extrap.reporting.sizes import SizeAxis, path_axis
from extrap.reporting.study_page import points

MARKERS = ("o", "s", "D", "^", "v", "P")
"""Of the recipes, the plain one first."""
INKS = ("law", "fixed", "good")
"""Of up to three treated recipes; more have colours of a ramp."""
MOST_BARS = 3
"""Recipes whose intervals can be drawn at one size without covering each other."""


def _style(arms: Sequence[str], arm: str) -> tuple[str, str]:
    """Ink and marker of a recipe."""
    place, n = arms.index(arm), len(arms)
    marker = MARKERS[place % len(MARKERS)]
    if place == 0:
        return "ink", marker
    if n <= 1 + len(INKS):
        return INKS[place - 1], marker
    return f"size:{round((place - 1) / (n - 2), 3)}", marker


def _marks(rows: Iterable[tuple[float, Measure]], *, bars: bool, **style: Any) -> Series:
    """A series of measures, those without a value left out."""
    sides: dict[str, Any] = {"lower": "lower", "upper": "upper"} if bars else {}
    return series(points(rows).dropna(subset="y"), y="y", **sides, **style)


def size_charts(found: GroupFindings) -> tuple[XYChart, ...]:
    """Over size: tuned losses with each seed and the laws, and differences from the plain recipe.

    Both have what was forecast and what was measured at the target; none without a size.
    """
    comparison = found.comparison
    sizes = [p.size for c in comparison.contrasts for p in c.by_size] if comparison else []
    if comparison is None or not sizes:
        return ()
    axis = path_axis(comparison.columns, sizes, [comparison.target])
    column, plain, at = axis.column, comparison.plain, comparison.target[axis.column]
    pair, few = len(comparison.arms) == 2, len(comparison.arms) <= 1 + MOST_BARS
    losses, changes = list[Series](), list[Series]()
    for arm in comparison.arms:
        ink, marker = _style(comparison.arms, arm)
        own, places = {"ink": ink, "marker": marker}, _places(comparison, arm)
        trained, ahead = {"ink": ink, "marker": "x"}, {**own, "is_open": True}
        law = comparison.laws.get(arm)
        curve = [] if law is None else _curve(law, axis, comparison.level)
        measured = [(p, m) for p, m in places if not p.is_forecast and axis.holds(p.size)]
        forecast = [(p, m) for p, m in places if p.is_forecast]
        checks = [c for c in found.checks if arm in (c.treated, plain)]
        seen = [
            Measure(value=c.plain if arm == plain else c.loss, ci=Interval()) for c in checks[:1]
        ]
        seeds = axis.select(_seed_losses(found.runs[arm])).rename(columns={column: "x"})
        label = arm if not curve else ""
        losses += [
            _marks(curve, bars=pair, ink=ink, line="-", is_band=True, label=arm),
            series(seeds, ink=ink, marker=".", is_faint=True),
            _marks([(p.size[column], m) for p, m in measured], bars=few, label=label, **own),
            _marks([(at, m) for _, m in forecast], bars=few, **ahead),
            _marks([(at, m) for m in seen], bars=False, **trained),
        ]
        if arm != plain:
            rows = [(p.size[column], p.difference) for p, _ in measured]
            changes += [
                _marks(rows, bars=few, line="-", label=arm, **own),
                _marks([(at, p.difference) for p, _ in forecast], bars=few, **ahead),
                _marks([(at, c.difference) for c in checks], bars=few, **trained),
            ]
    charts = (
        (f"Tuned loss against {column}", Axis("tuned loss"), losses, None),
        (f"Difference from {plain} against {column}", _against(plain), changes, 0.0),
    )
    return tuple(
        XYChart(
            title=title,
            x=Axis(column, limits=(axis.low, axis.high)),
            y=y,
            series=tuple(each for each in shown if each.x),
            shaded=(axis.low, axis.tuned_high),
            reference=reference,
        )
        for title, y, shown, reference in charts
    )


def _against(plain: str, limits: tuple[float, float] | None = None) -> Axis:
    return Axis(f"loss against {plain}", is_log=False, is_percent=True, limits=limits)


def _places(comparison: Comparison, arm: str) -> list[tuple[SizeDifference, Measure]]:
    """Losses of a recipe by size and at the target; of the plain one from its first contrast."""
    found = {
        (*place.size.values(), place.is_forecast): place
        for contrast in reversed(comparison.contrasts)
        if arm in (comparison.plain, contrast.treated)
        for place in [*contrast.by_size, *filter(None, [contrast.at_target])]
    }
    is_plain = arm == comparison.plain
    return [(p, p.plain if is_plain else p.treated) for p in found.values()]


def _curve(law: Fit, axis: SizeAxis, level: float) -> list[tuple[float, Measure]]:
    rows = []
    for x in axis.values():
        mean, se = (float(a[0]) for a in predict_log(law, relative_sizes(law, axis.at(x))))
        spread = LossPrediction(log_loss=mean, curve=((se**2, float(law.scale_dof)),), run=())
        rows.append((x, Measure(value=math.exp(mean), ci=spread.interval(level, new_run=False))))
    return rows


def targets_chart(
    treatments: Sequence[Treatment], among: Sequence[Treatment] | None = None
) -> RowsChart:
    """The difference that decides, one row per treated recipe; the axis holds all `among`."""
    known = [p.difference.value or 0.0 for e in among or treatments if (p := e.decisive)]
    limits = (min(known, default=0.0), max(known, default=0.0))
    inks = {"better": "good", "worse": "bad", "depends on size": "warn"}
    return RowsChart(
        title="Difference from the plain recipe",
        axis=_against("the plain recipe", limits),
        rows=tuple(
            Row(
                label=each.label,
                value=None if place is None else place.difference.value,
                interval=Interval() if place is None else place.difference.ci,
                ink=inks.get(each.verdict, "muted"),
            )
            for each, place in ((each, each.decisive) for each in treatments)
        ),
        reference=0.0,
    )


def compute_chart(treatments: Sequence[Treatment]) -> RowsChart | None:
    """The compute that the plain recipe would need for the same loss; None where unknown."""
    rows = [
        Row(
            label=f"{each.label}, {name_size(worth.size).replace(NBSP, ' ')}",
            value=worth.factor.value,
            interval=worth.factor.ci,
        )
        for each in treatments
        for worth in each.contrast.effective_compute
    ]
    if all(row.value is None and row.interval == Interval() for row in rows):
        return None
    return RowsChart(
        title="Compute of the plain recipe for the same loss",
        axis=Axis("times the compute"),
        rows=tuple(rows),
        reference=1.0,
    )


def _seed_losses(runs: Runs) -> pd.DataFrame:
    """Loss of every seed at the best tuned values tried at its size.

    The best are those of the lowest mean log loss over the seeds, among values at which no run of
    that size was lost if there are any.

    Returns:
        The size columns, `seed` and `loss`.
    """
    sweep = runs.of_stage("tune")
    frame, keys = sweep.to_frame(), [*runs.sizes, *runs.tuned]
    frame = frame.assign(log_loss=np.log(frame["loss"].astype(float)))
    cells = frame.groupby(keys)["log_loss"].agg(["mean", "count", "size"]).reset_index()
    cells = cells.dropna(subset="mean").assign(is_short=cells["count"] < cells["size"])
    best = cells.sort_values([*runs.sizes, "is_short", "mean"]).groupby(list(runs.sizes)).head(1)
    found = frame.merge(best[keys], on=keys).dropna(subset="loss")
    return found[[*runs.sizes, "seed", "loss"]].reset_index(drop=True)
