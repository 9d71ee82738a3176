"""Charts of recipes over size: tuned losses with their laws, differences, what they are worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

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
COLUMNS = ["x", "value", "lower", "upper"]


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


def _row(x: float, measure: Measure) -> tuple[float | None, ...]:
    return (x, measure.value, *measure.ci)


def _frame(rows: Sequence[tuple[float | None, ...]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COLUMNS, dtype=float).dropna(subset="value")


def _drawn(frame: pd.DataFrame, ink: str, *, bars: bool, **style: object) -> Series:
    ends = {"lower": "lower", "upper": "upper"} if bars else {}
    return series(frame, y="value", ink=ink, **ends, **style)  # type: ignore[arg-type]


def losses_chart(found: GroupFindings) -> XYChart | None:
    """Tuned losses, each seed, the laws, and what was forecast and measured at the target."""
    comparison = found.comparison
    if comparison is None or (axis := _axis(comparison)) is None:
        return None
    few, shown = len(comparison.arms) <= MOST_BARS, []
    x = comparison.target[axis.column]
    seen = {
        name: loss
        for c in found.checks
        for name, loss in ((c.treated, c.loss), (comparison.plain, c.plain))
    }
    for arm in comparison.arms:
        ink, marker = _style(comparison.arms, arm)
        law = comparison.laws.get(arm)
        places = [p for p in _places(comparison, arm) if p[1].is_forecast or axis.holds(p[1].size)]
        points, target = (
            _frame([_row(p.size[axis.column], m) for m, p in places if p.is_forecast is ahead])
            for ahead in (False, True)
        )
        curve = _curve(law, axis, comparison.level) if law is not None else _frame([])
        seeds = axis.select(seed_losses(found.runs[arm])).assign(x=lambda f: f[axis.column])
        trained = _frame([(x, seen.get(arm), None, None)])
        name = arm if curve.empty else ""
        shown += [
            _drawn(curve, ink, bars=few, line="-", is_band=True, label="" if name else arm),
            series(seeds, ink=ink, marker=".", is_faint=True),
            _drawn(points, ink, bars=few, marker=marker, label=name),
            _drawn(target, ink, bars=few, marker=marker, is_open=True),
            _drawn(trained, ink, bars=False, marker="x"),
        ]
    return XYChart(
        title=f"Tuned loss against {axis.column}",
        x=Axis(axis.column, limits=(axis.low, axis.high)),
        y=Axis("tuned loss"),
        series=tuple(each for each in shown if each.x),
        shaded=(axis.low, axis.tuned_high),
    )


def _places(comparison: Comparison, arm: str) -> Iterator[tuple[Measure, SizeDifference]]:
    """Losses of a recipe by size and at the target; of the plain one from any contrast."""
    seen = set()
    for contrast in comparison.contrasts:
        if arm not in (comparison.plain, contrast.treated):
            continue
        for place in [*contrast.by_size, *filter(None, [contrast.at_target])]:
            key = (*place.size.values(), place.is_forecast)
            if key not in seen:
                seen.add(key)
                yield (place.plain if arm == comparison.plain else place.treated), place


def _curve(law: Fit, axis: SizeAxis, level: float) -> pd.DataFrame:
    rows = []
    for x in axis.values():
        mean, se = (float(a[0]) for a in predict_log(law, relative_sizes(law, axis.at(x))))
        spread = LossPrediction(log_loss=mean, curve=((se**2, float(law.scale_dof)),), run=())
        rows.append((x, math.exp(mean), *spread.interval(level, new_run=False)))
    return _frame(rows)


def differences_chart(found: GroupFindings) -> XYChart | None:
    """The difference of each treated recipe over size, and what was measured at the target."""
    comparison = found.comparison
    if comparison is None or (axis := _axis(comparison)) is None:
        return None
    few, shown = len(comparison.contrasts) <= MOST_BARS, []
    x, seen = comparison.target[axis.column], {c.treated: c.difference for c in found.checks}
    for contrast in comparison.contrasts:
        ink, marker = _style(comparison.arms, contrast.treated)
        measured = _frame(
            [
                _row(p.size[axis.column], p.difference)
                for p in contrast.by_size
                if axis.holds(p.size)
            ]
        )
        at = contrast.at_target
        ahead = _frame([] if at is None else [_row(x, at.difference)])
        trained = [_row(x, seen[contrast.treated])] if contrast.treated in seen else []
        shown += [
            _drawn(measured, ink, bars=few, marker=marker, line="-", label=contrast.treated),
            _drawn(ahead, ink, bars=few, marker=marker, is_open=True),
            _drawn(_frame(trained), ink, bars=few, marker="x"),
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
