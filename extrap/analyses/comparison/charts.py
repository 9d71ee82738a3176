"""Charts of recipes over size: tuned losses, differences from the plain recipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from extrap.analyses.comparison import Comparison, SizeDifference
from extrap.analyses.comparison.gate import BETTER_HERE, FADES, HURTS, SURVIVES, WORSE_HERE
from extrap.analyses.comparison.treatments import Treatment
from extrap.analyses.sweep.sizes import path_axis
from extrap.records import Measure
from extrap.reporting.charts import Axis, Row, RowsChart, Series, XYChart, points

RECIPE_MARKERS = ("o", "s", "D", "^", "v", "<")
"""Markers of the recipes, the plain one first."""
TREATMENT_INKS = ("law", "warn", "good")
"""Colors of up to three treated recipes; more have colors of a ramp."""
MOST_BARS = 3
"""Recipes whose intervals can be drawn at one size without covering each other."""


def _style(arms: Sequence[str], arm: str) -> tuple[str, str]:
    """Ink and marker of a recipe."""
    index, n = arms.index(arm), len(arms)
    marker = RECIPE_MARKERS[index % len(RECIPE_MARKERS)]
    if index == 0:
        return "ink", marker
    if n <= 1 + len(TREATMENT_INKS):
        return TREATMENT_INKS[index - 1], marker
    return f"size:{round((index - 1) / (n - 2), 3)}", marker


def size_charts(
    comparison: Comparison | None, check: Comparison | None = None
) -> tuple[XYChart, ...]:
    """Over size: tuned losses, and differences from the plain recipe.

    Both have what was forecast and what was measured at the target; none without a size.
    """
    sizes = [p.size for c in comparison.contrasts for p in c.by_size] if comparison else []
    if comparison is None or not any(sizes):
        return ()
    axis = path_axis(comparison.columns, sizes, [comparison.target])
    column, plain, few = axis.column, comparison.plain, len(comparison.arms) <= 1 + MOST_BARS

    def marks(rows: Iterable[tuple[SizeDifference, Measure]], **style: Any) -> Series:
        """Measures that have a value, over size; with few recipes their intervals too."""
        with_value = [(row.size[column], m) for row, m in rows if m.value is not None]
        return points([(x, m.value, *(m.ci if few else ())) for x, m in with_value], **style)

    losses, changes = list[Series](), list[Series]()
    for arm in comparison.arms:
        ink, marker = _style(comparison.arms, arm)
        differences = _differences_of(comparison, arm)
        here = [p for p in differences if not p.is_forecast and axis.holds(p.size)]
        ahead = [p for p in differences if p.is_forecast]
        seen = _differences_of(check, arm) if check is not None and arm in check.arms else []
        for drawn, style, is_measured in (
            (here, {"marker": marker}, True),
            (ahead, {"marker": "P"}, False),
            (seen, {"marker": "X"}, False),
        ):
            tuned_losses = [(p, p.plain if arm == plain else p.treated) for p in drawn]
            line = {"line": "-", "label": arm} if is_measured else {}
            losses.append(marks(tuned_losses, ink=ink, **line, **style))
            if arm != plain:
                gaps = [(p, p.difference) for p in drawn]
                changes.append(marks(gaps, ink=ink, **line, **style))
    charts = (
        (f"Tuned loss against {column}", Axis("tuned loss"), losses, None),
        (f"Difference from {plain} against {column}", _against(plain), changes, 0.0),
    )
    return tuple(
        XYChart(
            title=title,
            x=Axis(column, limits=(axis.low, axis.high)),
            y=y,
            series=shown,
            shaded=(axis.low, axis.tuned_high),
            reference=reference,
        )
        for title, y, shown, reference in charts
    )


def _against(plain: str, limits: tuple[float, float] | None = None) -> Axis:
    return Axis(f"loss against {plain}", is_log=False, is_percent=True, limits=limits)


def _differences_of(comparison: Comparison, arm: str) -> list[SizeDifference]:
    """What is known of a recipe by size and at the target; the plain one's, of all contrasts."""
    by_size = {
        (*row.size.values(), row.is_forecast): row
        for contrast in reversed(comparison.contrasts)
        if arm in (comparison.plain, contrast.treated)
        for row in [*contrast.by_size, *filter(None, [contrast.at_target])]
    }
    return list(by_size.values())


def targets_chart(
    treatments: Sequence[Treatment], among: Sequence[Treatment] | None = None
) -> RowsChart:
    """The difference that decides, one row per treated recipe; the axis holds all `among`."""
    values = [treatment.decisive.difference.value or 0.0 for treatment in among or treatments]
    inks = {SURVIVES: "good", BETTER_HERE: "good", HURTS: "bad", WORSE_HERE: "bad", FADES: "warn"}
    return RowsChart(
        title="Difference from the plain recipe",
        axis=_against("the plain recipe", (min(values, default=0.0), max(values, default=0.0))),
        rows=tuple(
            Row(
                label=treatment.label,
                value=treatment.decisive.difference.value,
                interval=treatment.decisive.difference.ci,
                ink=inks.get(treatment.verdict, "muted"),
            )
            for treatment in treatments
        ),
        reference=0.0,
    )
