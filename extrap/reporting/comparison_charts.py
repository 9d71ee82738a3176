"""Charts of recipes over size: tuned losses with their laws, differences, what they are worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from extrap.comparing import Comparison, SizeDifference
from extrap.fitting import LossPrediction, predict_log, relative_sizes
from extrap.records import Fit, Measure
from extrap.reporting.charts import Axis, Row, RowsChart, Series, XYChart, series
from extrap.reporting.comparison_findings import OPEN, GroupFindings, Treatment, seed_losses
from extrap.reporting.numbers import NBSP, name_size
from extrap.reporting.sizes import SizeAxis, path_axis

__all__ = ["compute_chart", "differences_chart", "losses_chart", "targets_chart"]

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
    return (INKS[place - 1] if n <= 1 + len(INKS) else f"size:{(place - 1) / (n - 2):.3f}"), marker


def _axis(comparison: Comparison) -> SizeAxis | None:
    sizes = {tuple(p.size.values()): dict(p.size) for c in comparison.contrasts for p in c.by_size}
    if not sizes:
        return None
    return path_axis(comparison.columns, list(sizes.values()), [comparison.target])


def _marks(rows: Iterable[tuple[float, Measure]], *, bars: bool, **style: Any) -> Series:
    """A series of measures, those without a value left out."""
    known = [(x, measure) for x, measure in rows if measure.value is not None]
    sides = [[math.nan if s is None else s for s in m.ci] for _, m in known] if bars else []
    return Series(
        x=tuple(x for x, _ in known),
        y=tuple(measure.value or 0.0 for _, measure in known),
        lower=tuple(low for low, _ in sides),
        upper=tuple(high for _, high in sides),
        **style,
    )


def losses_chart(found: GroupFindings) -> XYChart | None:
    """Tuned losses, each seed, the laws, and what was forecast and measured at the target."""
    comparison = found.comparison
    if comparison is None or (axis := _axis(comparison)) is None:
        return None
    few, column, shown = len(comparison.arms) <= MOST_BARS, axis.column, list[Series]()
    seen = {check.treated: check.loss for check in found.checks}
    seen.update((comparison.plain, check.plain) for check in found.checks)
    for arm in comparison.arms:
        ink, marker = _style(comparison.arms, arm)
        law, places = comparison.laws.get(arm), _places(comparison, arm)
        curve = [] if law is None else _curve(law, axis, comparison.level)
        points = [
            (p.size[column], m) for p, m in places if not p.is_forecast and axis.holds(p.size)
        ]
        ahead = [(p.size[column], m) for p, m in places if p.is_forecast]
        seeds = axis.select(seed_losses(found.runs[arm])).rename(columns={column: "x"})
        trained = [(comparison.target[column], Measure(value=seen.get(arm), ci=OPEN))]
        labels = (arm, "") if curve else ("", arm)
        shown += [
            _marks(curve, bars=few, ink=ink, line="-", is_band=True, label=labels[0]),
            series(seeds, ink=ink, marker=".", is_faint=True),
            _marks(points, bars=few, ink=ink, marker=marker, label=labels[1]),
            _marks(ahead, bars=few, ink=ink, marker=marker, is_open=True),
            _marks(trained, bars=False, ink=ink, marker="x"),
        ]
    return XYChart(
        title=f"Tuned loss against {axis.column}",
        x=Axis(axis.column, limits=(axis.low, axis.high)),
        y=Axis("tuned loss"),
        series=tuple(each for each in shown if each.x),
        shaded=(axis.low, axis.tuned_high),
    )


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


def differences_chart(found: GroupFindings) -> XYChart | None:
    """The difference of each treated recipe over size, and what was measured at the target."""
    comparison = found.comparison
    if comparison is None or (axis := _axis(comparison)) is None:
        return None
    few, column, shown = len(comparison.contrasts) <= MOST_BARS, axis.column, list[Series]()
    for contrast in comparison.contrasts:
        name, x = contrast.treated, comparison.target[column]
        ink, marker = _style(comparison.arms, name)
        places = [(p.size[column], p.difference) for p in contrast.by_size if axis.holds(p.size)]
        ahead = [] if contrast.at_target is None else [(x, contrast.at_target.difference)]
        trained = [(x, check.difference) for check in found.checks if check.treated == name]
        shown += [
            _marks(places, bars=few, ink=ink, marker=marker, line="-", label=name),
            _marks(ahead, bars=few, ink=ink, marker=marker, is_open=True),
            _marks(trained, bars=few, ink=ink, marker="x"),
        ]
    return XYChart(
        title=f"Difference from {comparison.plain} against {axis.column}",
        x=Axis(axis.column, limits=(axis.low, axis.high)),
        y=Axis(f"loss against {comparison.plain}", is_log=False, is_percent=True),
        series=tuple(each for each in shown if each.x),
        shaded=(axis.low, axis.tuned_high),
        reference=0.0,
    )


def targets_chart(
    treatments: Sequence[Treatment], among: Sequence[Treatment] | None = None
) -> RowsChart:
    """The difference that decides, one row per treated recipe; the axis holds all `among`."""
    known = [p.difference.value or 0.0 for e in among or treatments if (p := e.decisive)]
    limits = (min(known, default=0.0), max(known, default=0.0))
    inks = {"better": "good", "worse": "bad", "depends on size": "warn"}
    return RowsChart(
        title="Difference from the plain recipe",
        axis=Axis("loss against the plain recipe", is_log=False, is_percent=True, limits=limits),
        rows=tuple(
            Row(
                label=each.label,
                value=None if place is None else place.difference.value,
                interval=OPEN if place is None else place.difference.ci,
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
    if all(row.value is None and row.interval == OPEN for row in rows):
        return None
    return RowsChart(
        title="Compute of the plain recipe for the same loss",
        axis=Axis("times the compute"),
        rows=tuple(rows),
        reference=1.0,
    )
