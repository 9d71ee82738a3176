"""Choices of data as closed parts of a page: where hard examples win, what labels are saved."""

from __future__ import annotations

import numpy as np
import pandas as pd

from extrap.comparing.paired_sizes import ChoiceCrossover, DataSaved, difference_by_size
from extrap.comparing.selections import RANDOM, SelectionFindings, selection_findings
from extrap.errors import DataError
from extrap.records import Measure
from extrap.records.numbers import (
    format_decimals,
    format_given,
    format_percent,
    format_quantity,
    over,
    stacked,
)
from extrap.reporting.blocks import Block, Details, Figure, Paragraph
from extrap.reporting.charts import Axis, Series, XYChart
from extrap.reporting.tables import Table, tabulated

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
        drawn = np.where(np.isfinite(drawn[0]), drawn, np.nan)
        ends = np.full((2, drawn.shape[1]), np.nan)
        known = np.isfinite(drawn[1:]).any(axis=0)  # a percentile of nothing warns
        ends[:, known] = np.nanpercentile(drawn[1:, known], [tail, 100 - tail], axis=0)
        shown.append(
            Series(
                label=way,
                x=tuple(map(float, found.losses.sizes[way])),
                y=tuple(map(float, drawn[0])),
                lower=tuple(map(float, ends[0])),
                upper=tuple(map(float, ends[1])),
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
        (b.keep, b.size): (b.choice if b.is_significant else f"({b.choice})") + EDGE * b.is_edge
        for b in found.best
    }
    return Table(
        caption="The best of random, hard and easy examples",
        columns=("kept fraction", *map(format_quantity, sizes)),
        rows=tuple(
            (format_given(keep), *(cells.get((keep, size), "–") for size in sizes))
            for keep in found.keeps
        ),
        note="In brackets: not significantly better than both others.",
    )


def _pairs_table(found: SelectionFindings) -> Table:
    """Where the better of two ways changes, and at how many sizes each is better."""
    pairs = [
        (f"hard {format_given(keep)}", f"easy {format_given(keep)}", crossing)
        for keep, crossing in found.crossovers.items()
    ]
    pairs += [(way, RANDOM, crossing) for way, crossing in found.against_random.items()]

    def better_at(first: str, second: str) -> str:
        steps = difference_by_size(found.losses, first, second, level=found.level)
        values = [step.difference.value or 0.0 for step in steps if step.is_significant]
        better, worse = sum(v < 0 for v in values), sum(v > 0 for v in values)
        return f"{better}, {worse} of {len(steps)}"

    return tabulated(
        "Where the better of two ways changes",
        pairs,
        {
            "pair": lambda pair: f"{pair[0]}, {pair[1]}",
            "better below": lambda pair: pair[2].below or "–",
            "better above": lambda pair: pair[2].above or "–",
            "crossing, examples": lambda pair: _place(pair[2]),
            "significant": lambda pair: _in_words(pair[2]),
            "sizes where the first, the second is significantly better": lambda pair: better_at(
                *pair[:2]
            ),
        },
    )


def _in_words(crossing: ChoiceCrossover) -> str:
    if not crossing.below:
        return "–"
    return ("yes" if crossing.is_significant else "no") + EDGE * crossing.is_edge


def _place(crossing: ChoiceCrossover) -> str:
    """Where the better way changes, the last place first."""
    before = ", ".join(format_quantity(size, digits=3) for size in crossing.earlier)
    found = over(_count(crossing.size), f"earlier {before}" if before else "")
    return found if crossing.below else "none"


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
    return stacked(measure.value, measure.ci, lambda value: format_decimals(value, 2))


def _labels_table(found: SelectionFindings) -> Table:
    def saved(each: DataSaved) -> str:
        return stacked(each.saved.value, each.saved.ci, format_percent)

    return tabulated(
        "Labels saved at equal loss",
        found.labels,
        {
            "random labels": lambda each: format_quantity(each.size),
            "active labels of equal loss": lambda each: _count(each.needed) + EDGE * each.is_edge,
            "labels saved": saved,
        },
    )


def _count(measure: Measure) -> str:
    """A number of examples with its interval, whole."""
    if measure.value is None:
        return "beyond its sizes"
    return stacked(measure.value, measure.ci, lambda size: format_decimals(size, 0))
