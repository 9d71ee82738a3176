"""Sensitivity of fixed values: which to tune before scaling, as a page, a text and JSON."""

from __future__ import annotations

import math
from typing import Any

from extrap.knobs import Knob, KnobReport, Measure
from extrap.knobs.results import or_infinite
from extrap.records import Interval
from extrap.records.codec import document
from extrap.records.knobs import ONE_MINUS
from extrap.records.numbers import (
    NBSP,
    TableCell,
    beside,
    format_cost,
    format_level,
    format_quantity,
    stacked,
)
from extrap.reporting.blocks import (
    Answer,
    Block,
    Columns,
    Details,
    Figure,
    Page,
    Paragraph,
    Warnings,
)
from extrap.reporting.charts import Axis, Row, RowsChart, Series, XYChart, series
from extrap.reporting.glossary import explain_flag
from extrap.reporting.study_page import About, doubts, measured, points, study_page
from extrap.reporting.tables import Table, tabulated

SMALL = 0.005
"""Less of the loss than this is not worth a sweep."""
MOVES = 0.25
"""Octaves from the largest size tried to the target; below, a value tuned once serves all."""
LIMITS = (
    "One value is changed at a time: neither interactions nor effects of a change on the tuned "
    "values are measured.",
    "The log loss is taken as a parabola in octaves, with one curvature for all sizes, whose "
    "optimum moves along a straight line over log size. The intervals hold if that is so.",
    "Changed runs have as many updates as the others. Where a change makes an update dearer, as "
    "depth does, a lower loss may not be worth it.",
    "Seeds are the replicates: the intervals have (seeds − 1) degrees of freedom.",
)


def sensitivity_answer(report: KnobReport) -> Answer:
    """Which fixed value to tune first and what it costs, or that all can stay."""
    first, small = report.knobs[0], _cost(SMALL)
    where = f"of the loss at {_where(report)}"
    if (first.at_stake.value or 0.0) < SMALL:
        unsure = [k for k in report.by_worst_case() if or_infinite(k.at_stake.ci.upper) >= SMALL]
        named = ", ".join(f"{k.name} ({beside(_costs(k.at_stake))})" for k in unsure)
        start = (
            "No fixed value is known to cost" if unsure else "Keep all fixed values: none costs"
        )
        reason = f"low; not excluded for {named}" if unsure else "high; all intervals end below"
        return Answer(
            text=f"{start} {small} or more {where}.",
            confidence=f"Confidence: {reason}.",
            kind="mixed" if unsure else "on",
        )
    lower, upper = first.at_stake.ci
    kept = f"kept at {_level(first.base)}, it costs {beside(_costs(first.at_stake))} {where}"
    best = f"; its best value there is {beside(_best(first))}" if first.kind == "optimum" else ""
    text = f"Tune {first.name} first: {kept}{best}."
    if not lower:
        text = f"No cost is significant. {first.name} is the first candidate: {kept}."
    n = sum((knob.at_stake.value or 0.0) >= SMALL for knob in report.knobs)
    text += f" The cost is {small} or more for {n} of {len(report.knobs)} fixed values."
    ratio = format_quantity(report.target / report.sizes[-1], digits=2)
    reason = f"high; no warnings at {ratio} times the largest size"
    if not lower or upper is None:
        reason = "low; the interval of the cost includes 0 or is open"
    elif first.flags:
        meaning = explain_flag(first.flags[0], of="knobs").meaning
        reason = f"{'low' if 'far' in first.flags else 'medium'}; {first.name}: {meaning[:-1]}"
    elif lower < SMALL:
        reason = f"medium; the interval of the cost begins below {small}"
    kind = "mistuned" if lower else "mixed"
    return Answer(text=text, confidence=f"Confidence: {reason}.", kind=kind)


def knob_advice(report: KnobReport, knob: Knob) -> str:
    """What to do about a fixed value."""
    better, worse = or_infinite(knob.octave.ci.upper) < 0, (knob.octave.ci.lower or 0.0) > 0
    if knob.kind == "unknown":
        return f"Repeat its runs: only {knob.n_seeds} seed(s) have a loss in every run."
    if knob.kind == "choice" and (better or worse):
        return f"Change it to {_level(knob.other)}." if better else f"Keep {_level(knob.base)}."
    if knob.kind == "choice":
        is_alike = max(abs(or_infinite(side)) for side in knob.octave.ci) < SMALL
        return "Either level will do." if is_alike else "Add seeds or a size."
    if knob.kind == "slope" and better:
        return f"Try values {_best(knob)} at small sizes until the loss rises."
    if or_infinite(knob.at_stake.ci.upper) < SMALL:
        return "Leave it fixed."
    if knob.kind != "optimum" or not knob.at_stake.ci.lower:
        return "Add seeds or a size: its cost is not significant."
    drift = knob.drift.value or 0.0
    moves = abs(drift) * math.log2(max(report.target / report.sizes[-1], 1.0)) >= MOVES
    if 0.0 in knob.drift.ci or not moves:
        return "Tune it once at a small size; the best value serves all sizes."
    what = "its distance from 1" if knob.name in ONE_MINUS else "it"
    power = format_quantity(drift, digits=2)
    return f"Tune it before scaling, or scale {what} as {report.column}^{power}."


def sensitivity_table(report: KnobReport) -> Table:
    """What each fixed value costs at the target, its best value, what to do."""
    shifted = ", ".join(knob.name for knob in report.knobs if knob.name in ONE_MINUS)
    return tabulated(
        f"Cost of fixed values at {_where(report)}, {format_level(report.level)} intervals",
        report.knobs,
        {
            "fixed value": lambda k: k.name,
            "fixed at": lambda k: _level(k.base),
            "cost, % of the loss": lambda k: _costs(k.at_stake),
            "best value there": _best,
            f"exponent of {report.column}": lambda k: _of_excess_curve(k, k.drift),
            "what to do": lambda k: knob_advice(report, k),
        },
        note="Cost: loss at the fixed value over that at the best one, minus 1; where that lies "
        "beyond the values tried, what one octave gains. Exponent b: the best value goes as "
        f"{report.column}^b{f' (of {shifted}: the distance from 1)' * bool(shifted)}.",
    )


def _numbers_table(report: KnobReport) -> Table:
    drift = report.by_drift()
    return tabulated(
        "More numbers of each fixed value",
        report.knobs,
        {
            "fixed value": lambda k: k.name,
            "octaves to the optimum": lambda k: _of_excess_curve(k, k.optimum),
            "better way": lambda k: (
                _level(k.other) if k.kind == "choice" else "up" if k.better > 0 else "down"
            ),
            "loss one octave that way": lambda k: _costs(k.octave, is_log=True),
            "seeds": lambda k: str(k.n_seeds),
            "rank by drift": lambda k: str(1 + drift.index(k)),
        },
        note="Of momentum and β, octaves of the distance from 1.",
    )


def _cost_chart(report: KnobReport) -> RowsChart:
    return RowsChart(
        title=f"Cost of each fixed value at {_where(report)}",
        axis=Axis("extra loss", is_log=False, is_percent=True),
        rows=tuple(
            Row(label=k.name, value=k.at_stake.value, interval=k.at_stake.ci) for k in report.knobs
        ),
        reference=SMALL,
    )


def _path_chart(report: KnobReport, seen: list[Knob]) -> XYChart:
    """The optimum of each fixed value over size, with its line to the target."""
    low, target, shown = report.sizes[0], report.target, []
    for i, knob in enumerate(seen):
        ink, end = f"size:{round(i / max(1, len(seen) - 1), 3)}", knob.optimum.value or 0.0
        start = end - (knob.drift.value or 0.0) * math.log2(target / low)
        shown.append(Series(x=(low, target), y=(start, end), ink=ink, line="-"))
        shown.append(
            series(
                points([*((at.size, at.octaves) for at in knob.offsets), (target, knob.optimum)]),
                y="y",
                lower="lower",
                upper="upper",
                label=knob.name,
                ink=ink,
                marker="o",
            )
        )
    return XYChart(
        title=f"Best value against {report.column}",
        x=Axis(report.column),
        y=Axis("octaves from the fixed value", is_log=False),
        series=tuple(shown),
        shaded=(low, report.sizes[-1]),
        reference=0.0,
    )


def _warnings(report: KnobReport) -> list[Warnings]:
    return doubts((f"{flag}: {k.name}" for k in report.knobs for flag in k.flags), of="knobs")


def sensitivity_blocks(report: KnobReport) -> list[Block]:
    """What the page shows."""
    seen = [knob for knob in report.knobs if knob.kind == "optimum"]
    figures = [Figure(_cost_chart(report), f"Line: {_cost(SMALL)}, too little for a sweep.")]
    if seen:
        figures.append(Figure(_path_chart(report, seen), "Grey: sizes tried."))
    return [
        sensitivity_answer(report),
        Columns(tuple(figures)),
        *_warnings(report),
        sensitivity_table(report),
        *(Paragraph(note, is_small=True) for note in report.notes),
        Details("More numbers", (_numbers_table(report),)),
    ]


def knob_page(report: KnobReport, about: About) -> Page:
    """The page of the sensitivity of fixed values."""
    sizes = ", ".join(map(format_quantity, report.sizes))
    return study_page(
        "knobs",
        about,
        sensitivity_blocks(report),
        caveats=LIMITS,
        numbers=knobs_document(report),
        counts={"runs": report.n_runs, report.column: sizes},
    )


def knobs_blocks(report: KnobReport) -> list[Block]:
    """The answer, the ranking, warnings, and what could not be changed."""
    notes = [Paragraph(f"note: {note}") for note in report.notes]
    table = sensitivity_table(report)
    return [sensitivity_answer(report), table, *_warnings(report), *notes]


def knobs_document(report: KnobReport) -> dict[str, Any]:
    """The ranking as a JSON document."""
    found = document(report, answer=sensitivity_answer(report).text.replace(NBSP, " "))
    for knob, shown in zip(report.knobs, found["knobs"], strict=True):
        shown["advice"] = knob_advice(report, knob).replace(NBSP, " ")
    return found


def _best(knob: Knob) -> TableCell:
    """The best value at the target with its interval, as far as it is known."""
    significant = knob.octave.value is not None and 0.0 not in knob.octave.ci
    if knob.kind == "optimum":
        octaves = (knob.optimum.value, *knob.optimum.ci)
        best, *ends = (None if u is None else knob.value_at(u) for u in octaves)
        sides = Interval(*(ends[::-1] if knob.name in ONE_MINUS else ends))
        return stacked(best, sides, lambda value: _value(knob, value))
    if knob.kind == "slope" and significant:
        beyond = knob.value_at(knob.better) or 0.0
        is_below = beyond < (knob.value_at(0) or 0.0)
        return TableCell(f"{'below' if is_below else 'above'} {_value(knob, beyond)}")
    if knob.kind == "choice" and significant:
        return TableCell(_level(knob.other if (knob.octave.value or 0.0) < 0 else knob.base))
    return TableCell("not known")


def _value(knob: Knob, value: float | None) -> str:
    """A value with two digits of its distance from 1 where that is what moves."""
    if value is None or knob.name not in ONE_MINUS or not 0 < value < 1:
        return format_quantity(value)
    return format_quantity(value, digits=1 - math.floor(math.log10(1 - value)))


def _of_excess_curve(knob: Knob, measure: Measure) -> str:
    return measured(measure) if knob.kind == "optimum" else "–"


def _where(report: KnobReport) -> str:
    return f"{report.column}{NBSP}{format_quantity(report.target)}"


def _level(value: float | str | None) -> str:
    return value if isinstance(value, str) else format_quantity(value)


def _cost(fraction: float) -> str:
    """A relative excess of the loss in percent."""
    return format_cost(math.log1p(fraction))


def _change(log_excess: float) -> str:
    """A change of the log of the loss in percent, with its sign."""
    cell = format_cost(log_excess)
    return TableCell("+" * (log_excess > 0) + cell, cell.value)


def _costs(measure: Measure, *, is_log: bool = False) -> TableCell:
    return stacked(measure.value, measure.ci, _change if is_log else _cost)
