"""Choices of data as closed parts of a page: where hard examples win, what labels are saved."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from extrap.comparing.paired_sizes import ChoiceCrossover, difference_by_size
from extrap.comparing.selections import RANDOM, SelectionFindings, selection_findings
from extrap.errors import DataError
from extrap.records import Measure
from extrap.reporting.blocks import Block, Details, Figure, Paragraph
from extrap.reporting.charts import Axis, Series, XYChart
from extrap.reporting.numbers import format_interval, format_percent, format_quantity
from extrap.reporting.tables import Table

__all__ = ["selection_sections"]

INKS = {"random": "ink", "hard": "fixed", "easy": "law", "active": "good"}
MARKERS = {"random": "o", "hard": "^", "easy": "v", "active": "D"}
LINES = ("-", "--", ":")
"""Of the kept fractions, the largest first."""
EDGE = "†"
NOTES = (
    f"{EDGE}: a best tuned value lies at the edge of its grid, so the loss is an upper bound.",
    "Losses are those of the tuned values with the lowest mean; intervals choose the values anew "
    "for resampled seeds. Differences are significant if 0 lies outside an interval that allows "
    "for the number of sizes, each seed judged at the values that the other seeds choose.",
    "Seeds share one data set, held-out part and teacher: intervals hold for these alone.",
    "A kept fraction draws on a pool larger by 1 / fraction, whose collection and difficulties "
    "are not counted. All runs have the same number of steps, which may limit the largest sizes.",
)


def selection_sections(table: pd.DataFrame) -> tuple[Details, ...]:
    """Choices of data, one closed part per problem; none for other tables."""
    try:
        found = selection_findings(table)
    except DataError:
        return ()
    parts = tuple(Details(each.problem, _blocks(each)) for each in found)
    notes = tuple(Paragraph(note, is_small=True) for note in NOTES)
    return (Details("Choices of data", (*parts, *notes)),) if parts else ()


def _blocks(found: SelectionFindings) -> tuple[Block, ...]:
    chart = _losses_chart(found)
    caption = "Grey: where easy and hard examples change places." if chart.shaded else ""
    tables = [_labels_table(found)] if found.labels else [_best_table(found)]
    tables += [_pairs_table(found), _exponents_table(found)]
    return (Figure(chart, caption), *(table for table in tables if table.rows))


def _losses_chart(found: SelectionFindings) -> XYChart:
    """Tuned loss over kept examples, one line per way."""
    shown, tail = [], 50 * (1 - found.level)
    for way in found.ways:
        choice, _, keep = way.partition(" ")
        line = 1 + found.keeps.index(float(keep)) if keep and float(keep) in found.keeps else 0
        drawn = np.exp(found.losses.log_loss[way])
        ends = [
            np.nanpercentile(column, [tail, 100 - tail])
            if math.isfinite(drawn[0, i])
            else (math.nan, math.nan)
            for i, column in enumerate(drawn[1:].T)
        ]
        shown.append(
            Series(
                label=way,
                x=tuple(map(float, found.losses.sizes[way])),
                y=tuple(map(float, drawn[0])),
                lower=tuple(float(low) for low, _ in ends),
                upper=tuple(float(high) for _, high in ends),
                ink=INKS[choice],
                marker=MARKERS[choice],
                line=LINES[line % len(LINES)],
            )
        )
    closed = [c.size.ci for c in found.crossovers.values() if None not in tuple(c.size.ci)]
    return XYChart(
        title=f"Tuned loss: {found.problem}",
        x=Axis("labelled examples" if found.labels else "kept examples"),
        y=Axis("tuned loss"),
        series=tuple(shown),
        shaded=(float(closed[0][0] or 0), float(closed[0][1] or 0)) if len(closed) == 1 else None,
    )


def _best_table(found: SelectionFindings) -> Table:
    sizes = sorted({best.size for best in found.best})
    cells = {
        (b.keep, b.size): (b.choice if b.is_told else f"({b.choice})") + EDGE * b.is_edge
        for b in found.best
    }
    return Table(
        caption="The best of random, hard and easy examples",
        columns=("kept fraction", *map(format_quantity, sizes)),
        rows=tuple(
            (f"{keep:g}", *(cells.get((keep, size), "–") for size in sizes))
            for keep in found.keeps
        ),
        note="In brackets: not significantly better than both others.",
    )


def _pairs_table(found: SelectionFindings) -> Table:
    """Where the better of two ways changes, and at how many sizes each is better."""
    pairs = [
        (f"hard {keep:g}", f"easy {keep:g}", crossing)
        for keep, crossing in found.crossovers.items()
    ]
    pairs += [(way, RANDOM, crossing) for way, crossing in found.against_random.items()]
    rows = []
    for first, second, crossing in pairs:
        steps = difference_by_size(found.losses, first, second, level=found.level)
        told = [step.difference.value or 0.0 for step in steps if step.is_told]
        rows.append(
            (
                f"{first}, {second}",
                *_places(crossing),
                f"{sum(d < 0 for d in told)}, {sum(d > 0 for d in told)} of {len(steps)}",
            )
        )
    columns = ("pair", "better below", "better above", "crossing, examples", "significant")
    return Table(
        caption="Where the better of two ways changes",
        columns=(*columns, "sizes where the first, the second is significantly better"),
        rows=tuple(rows),
    )


def _places(crossing: ChoiceCrossover) -> tuple[str, ...]:
    if not crossing.below:
        return ("–", "–", "none", "–")
    before = ", ".join(f"{size:.0f}" for size in crossing.earlier)
    told = ("yes" if crossing.is_told else "no") + EDGE * crossing.is_edge
    place = _count(crossing.size) + (f"\nearlier {before}" if before else "")
    return (crossing.below, crossing.above, place, told)


def _exponents_table(found: SelectionFindings) -> Table:
    steps = next(iter(found.exponents.values()))
    spans = (f"{format_quantity(s.lower)} to {format_quantity(s.upper)}" for s in steps)
    return Table(
        caption="How fast the loss falls: −Δ ln loss / Δ ln examples",
        columns=("way", *spans),
        rows=tuple(
            (way, *(_exponent(step.exponent) + EDGE * step.is_edge for step in own))
            for way, own in found.exponents.items()
            if len(own) == len(steps)
        ),
    )


def _exponent(measure: Measure) -> str:
    value, low, high = (
        "–" if v is None else f"{v:.2f}".replace("-", "−") for v in (measure.value, *measure.ci)
    )
    return value if measure.value is None else f"{value}\n{low} to {high}"


def _labels_table(found: SelectionFindings) -> Table:
    rows = []
    for each in found.labels:
        low, high = (format_percent(side) if side is not None else "?" for side in each.saved.ci)
        saved = "–" if each.saved.value is None else format_percent(each.saved.value)
        is_within = each.needed.value is not None
        needed = _count(each.needed) + EDGE * each.is_edge if is_within else "beyond its sizes"
        rows.append((format_quantity(each.size), needed, f"{saved}\n{low} to {high}"))
    columns = ("random labels", "active labels of equal loss", "labels saved")
    return Table(caption="Labels saved at equal loss", columns=columns, rows=tuple(rows))


def _count(measure: Measure) -> str:
    """A number of examples with its interval, whole."""
    low, high = (None if side is None else round(side) for side in measure.ci)
    if measure.value is None or low is None or high is None:
        interval = format_interval(type(measure.ci)(low, high))
        return interval if measure.value is None else f"{measure.value:.0f}\n{interval}"
    return f"{measure.value:.0f}\n{low} to {high}"
