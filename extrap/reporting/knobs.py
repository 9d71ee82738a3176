"""The ranking of knobs in words: advice a knob, tables, a document, a page of its own."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from extrap import __version__
from extrap.knobs import Knob, KnobReport, Measure
from extrap.records import Interval
from extrap.records.codec import encode
from extrap.records.knobs import ONE_MINUS
from extrap.reporting.envelopes import PageHead
from extrap.reporting.figure_tables import knob_paths_table
from extrap.reporting.figures import (
    draw_at_stake,
    draw_drift,
    draw_knob_paths,
    draw_svg,
    knob_paths_info,
    knob_ranks_info,
)
from extrap.reporting.forecast_tables import stacked
from extrap.reporting.glossary import explain_flag
from extrap.reporting.numbers import (
    NBSP,
    format_cost,
    format_estimate,
    format_interval,
    format_quantity,
)
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = [
    "knob_advice",
    "knob_headline",
    "knob_page",
    "knob_table",
    "knobs_document",
    "knobs_text",
]

SCHEMA_VERSION = 1
SMALL = 0.005
"""Less of the loss than this is not worth a sweep."""
MOVES = 0.25
"""Octaves from the largest moved size to the target; below, a value tuned once serves all."""
KINDS = {
    "valley": "seen",
    "slope": "not seen",
    "flat": "no effect seen",
    "choice": "two levels",
    "unknown": "runs lost",
}
FLAGS = {
    "bends": "its gradient bends over the sizes, so a straight line to the target is in doubt",
    "curvature-drifts": "its valley is not equally narrow at all sizes, which the ranking assumes",
    "far": "the optimum at the target lies so far off that the parabola only hints at its cost",
    "lost-runs": "runs diverged or failed where it was moved",
}
LIMITS = (
    "One knob is moved at a time; what two do together, and what the tuned values would do about "
    "a moved one, is not seen.",
    "A parabola in octaves is taken at every size, equally narrow at all of them, and its optimum "
    "to move along a straight line in octaves over log size. The intervals hold if that is so.",
    "A knob whose optimum lies beyond the moved range has no drift; what is at stake is then what "
    "one octave gains, and more may be had beyond.",
    "Moved runs have as many updates as the others. Where a move changes the cost of an update, "
    "as depth does, a better loss may still not be worth it.",
    "Seeds are the replicates: intervals rest on (seeds − 1) degrees of freedom.",
)


def knob_headline(report: KnobReport) -> str:
    """Which knob breaks next, in a sentence."""
    where = _where(report)
    first = report.knobs[0]
    if (first.at_stake.value or 0.0) < SMALL:
        worst = report.by_worst_case()[0]
        return (
            f"No fixed value is seen to cost {_cost(SMALL)} at {where}; the least certain is "
            f"{worst.name}, with {_cost_interval(worst.at_stake.ci)} at stake."
        )
    words = f"{first.name} breaks next: holding it at {_level(first.base)} costs {_stake(first)}"
    return f"{words} of the loss at {where}."


def knob_advice(report: KnobReport, knob: Knob) -> str:
    """What was seen of a knob, what it costs at the target, and what to do."""
    rule = {
        "valley": _valley_words,
        "slope": _slope_words,
        "choice": _choice_words,
        "flat": _flat_words,
    }.get(knob.kind)
    if rule is None:
        lost = "; runs were lost within an octave of its fixed value" if knob.flags else ""
        return (
            f"{knob.name}: {knob.n_seeds} seed(s) have a loss in every run, too few to tell{lost}."
        )
    doubts = "".join(f" Beware: {FLAGS[flag]}." for flag in knob.flags)
    return f"{knob.name}: {rule(report, knob)}{doubts}"


def _valley_words(report: KnobReport, knob: Knob) -> str:
    where, column = _where(report), report.column
    drift, drifts = knob.drift.value or 0.0, 0.0 not in knob.drift.ci
    if drifts:
        each = f"{abs(1 / drift):.2g} doubling{'' if abs(abs(1 / drift) - 1) < 0.05 else 's'}"
        what = "its best distance from 1" if knob.name in ONE_MINUS else "its best value"
        way = (
            f"{what} goes as {column} to the power {format_estimate(drift, knob.drift.ci)}, it "
            f"{'doubles' if drift > 0 else 'halves'} every {each}"
        )
    else:
        way = (
            f"its best value is not seen to drift ({format_interval(knob.drift.ci)} octaves a "
            f"doubling of {column})"
        )
    octaves = knob.optimum.value or 0.0
    side = "above" if octaves > 0 else "below"
    best = knob.value_at(octaves)
    seen = (
        f"{way}; at {where} it lies {_absolute(knob.optimum)} octaves {side} the fixed "
        f"{_level(knob.base)}, at {format_quantity(best)}, and keeping that costs {_stake(knob)}"
    )
    if _or_inf(knob.at_stake.ci.upper) < SMALL:
        return f"{seen}: leave it fixed."
    if (knob.at_stake.ci.lower or 0.0) == 0.0:
        return f"{seen}: it may be fine; more seeds or a size more would tell."
    beyond = abs(drift) * math.log2(max(report.target / report.sizes[-1], 1.0))
    if drifts and beyond >= MOVES:
        power = f"{drift:.2g}".replace("-", "−")
        law = f"scale {'its distance from 1' if knob.name in ONE_MINUS else 'it'} as"
        return f"{seen}: tune it before you scale, or {law} {column}^{power}."
    return f"{seen}: tune it once at a small size, the best value serves all."


def _slope_words(report: KnobReport, knob: Knob) -> str:
    where, change = _where(report), knob.octave
    better = "up" if knob.better > 0 else "down"
    if knob.name in ONE_MINUS:
        better = "further from 1" if knob.better > 0 else "closer to 1"
    toward = f"one octave {better} from {_level(knob.base)} is forecast to change the loss at "
    toward += f"{where} by {_change(change)}"
    if change.ci.upper is not None and change.ci.upper < 0:
        return (
            f"its optimum lies beyond the moved range; {toward}: move it that way at small "
            "sizes until the loss turns."
        )
    if _or_inf(knob.at_stake.ci.upper) < SMALL:
        return f"it does have an effect, but {toward}: leave it fixed."
    return f"its optimum is not seen; {toward}: more seeds or a size more would tell."


def _flat_words(report: KnobReport, knob: Knob) -> str:
    upper = knob.at_stake.ci.upper
    most = "an unknown amount" if upper is None else f"at most {_cost(upper)}"
    seen = f"no effect of an octave is told from noise; it gains {most} at {_where(report)}"
    return f"{seen}: leave it fixed." if _or_inf(upper) < SMALL else f"{seen}: add seeds to tell."


def _choice_words(report: KnobReport, knob: Knob) -> str:
    where, change = _where(report), knob.octave
    seen = (
        f"{_level(knob.other)} instead of {_level(knob.base)} is forecast to change the loss at "
        f"{where} by {_change(change)}"
    )
    lower, upper = change.ci
    if upper is not None and upper < 0:
        return f"{seen}: change it."
    if lower is not None and lower > 0:
        return f"{seen}: keep {_level(knob.base)}."
    if max(abs(lower or 0.0), abs(upper or 0.0)) < SMALL:
        return f"{seen}: either will do."
    return f"{seen}: more seeds or a size more would tell."


def knob_table(report: KnobReport) -> Table:
    """The ranking, one row a knob."""
    rows = tuple(
        (
            knob.name,
            _level(knob.base),
            KINDS[knob.kind],
            _stacked_cost(knob.at_stake),
            stacked(knob.drift.value, knob.drift.ci) if knob.kind == "valley" else "–",
            stacked(knob.optimum.value, knob.optimum.ci) if knob.kind == "valley" else "–",
            _change(knob.octave).replace(" (", "\n").removesuffix(")"),
        )
        for knob in report.knobs
    )
    level = f"{100 * report.level:g}{NBSP}%"
    return Table(
        caption=f"Knobs by the loss at stake at {_where(report)} ({level} intervals)",
        columns=(
            "knob",
            "fixed at",
            "optimum",
            "loss at stake",
            f"drift, octaves a doubling of {report.column}",
            "best value, octaves from the fixed",
            "one octave on",
        ),
        rows=rows,
        note="At stake: loss at the fixed value over that at the best one, minus 1; where the "
        "optimum lies beyond the moved range, what one octave gains. The last column is what "
        "one octave the better way, or the other of two levels, changes. β and momentum: octaves "
        "of their distance from 1.",
    )


def knobs_document(report: KnobReport) -> dict[str, Any]:
    """The ranking as a JSON document."""
    return {
        "kind": "extrap-knobs",
        "schema_version": SCHEMA_VERSION,
        "level": report.level,
        "target": {report.column: report.target},
        "sizes": {report.column: list(report.sizes)},
        "n_runs": report.n_runs,
        "headline": _plain(knob_headline(report)),
        "by_worst_case": [knob.name for knob in report.by_worst_case()],
        "by_drift": [knob.name for knob in report.by_drift()],
        "knobs": [_knob_document(report, knob) for knob in report.knobs],
        "notes": list(report.notes),
    }


def _knob_document(report: KnobReport, knob: Knob) -> dict[str, Any]:
    octaves = knob.optimum.value
    return {
        "name": knob.name,
        "kind": knob.kind,
        "base": knob.base,
        "other": knob.other,
        "drift": _measure(knob.drift),
        "trend": _measure(knob.trend),
        "at_stake": _measure(knob.at_stake),
        "optimum_at_target": {
            "octaves": _measure(knob.optimum),
            "value": None if octaves is None else knob.value_at(octaves),
        },
        "octave": {**_measure(knob.octave), "better": "up" if knob.better > 0 else "down"},
        "by_size": [
            {
                "size": offset.size,
                "octaves": _measure(offset.octaves),
                "pull": _measure(offset.pull),
                "lost": offset.lost,
            }
            for offset in knob.offsets
        ],
        "n_seeds": knob.n_seeds,
        "flags": list(knob.flags),
        "advice": _plain(knob_advice(report, knob)),
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {"value": measure.value, "ci": list(measure.ci)}


def knobs_text(report: KnobReport) -> str:
    """The headline, a line of advice a knob, and what could not be moved."""
    lines = [knob_headline(report), ""]
    lines += [f"{i}. {knob_advice(report, k)}" for i, k in enumerate(report.knobs, start=1)]
    fastest = ", ".join(k.name for k in report.by_drift())
    worst = ", ".join(k.name for k in report.by_worst_case())
    lines += ["", f"by drift: {fastest}", f"by the worst case: {worst}"]
    lines += [f"note: {note}" for note in report.notes]
    return _plain("\n".join(lines))


def knob_page(
    report: KnobReport,
    *,
    path: str | Path,
    title: str,
    question: str,
    created: str,
    provenance: Mapping[str, str],
) -> Path:
    """Write the ranking as one HTML file that loads nothing else.

    Args:
        report: The ranking.
        path: Where to write; missing folders are made.
        title: Heading.
        question: The question asked, one sentence.
        created: When, ISO 8601.
        provenance: Rows of the provenance table.

    Returns:
        The path written.
    """
    paths = knob_paths_info(report)
    own = {
        "moved runs": str(report.n_runs),
        report.column: ", ".join(map(format_quantity, report.sizes)),
        "extrap": __version__,
        "Python": platform.python_version(),
    }
    rows = [(k, v) for k, v in {**own, **provenance}.items() if v]
    head = PageHead(
        kind="knobs",
        title=title,
        question=question,
        answer=knob_headline(report),
        created=created,
    )
    html = render_page(
        "knobs.html.j2",
        head,
        numbers=encode(knobs_document(report)),
        kind="mistuned" if (report.knobs[0].at_stake.value or 0.0) >= SMALL else "on",
        ranking=knob_table(report),
        panels=_panels(report),
        paths=None if paths is None else _paths_plate(report),
        advice=[knob_advice(report, knob) for knob in report.knobs],
        flags=[
            replace(explain_flag(flag, of="knobs"), detail=knob.name)
            for knob in report.knobs
            for flag in knob.flags
        ],
        notes=report.notes,
        limits=LIMITS,
        provenance=rows,
    )
    return write_page(html, path)


def _panels(report: KnobReport) -> tuple[Plate, ...]:
    info = knob_ranks_info(report)
    height = 90 + 30 * len(info.rows)
    level = f"{100 * report.level:g}{NBSP}%"
    return tuple(
        Plate(
            title=name,
            svg=draw_svg(
                lambda ax, draw=draw: draw(ax, info),  # type: ignore[misc]
                width=480,
                height=height,
                key=f"knobs{i}",
                label=f"{name}, one dot with its {level} interval a knob.",
            ),
            text=text,
        )
        for i, (name, draw, text) in enumerate(
            (
                (
                    "What is at stake",
                    draw_at_stake,
                    f"Bars: {level} intervals, cut off at the edge.",
                ),
                (
                    "How fast the best value drifts",
                    draw_drift,
                    "Right: the best value grows with size. Same order, same intervals.",
                ),
            )
        )
    )


def _paths_plate(report: KnobReport) -> Plate:
    info = knob_paths_info(report)
    assert info is not None
    svg, narrow = (
        draw_svg(
            lambda ax: draw_knob_paths(ax, info),
            width=width,
            height=height,
            key=key,
            label=f"Best value of each knob against {report.column}, with lines to the target.",
        )
        for width, height, key in ((880, 420, "paths-figure"), (390, 440, "pathsnarrow"))
    )
    return Plate(
        title="",
        svg=svg,
        narrow_svg=narrow,
        text="Dots: optima at the moved sizes (shaded); diamonds: at the target, where lines are "
        "extrapolated. 0 is the value held fixed.",
        tables=(knob_paths_table(info),),
    )


def _where(report: KnobReport) -> str:
    return f"{report.column}{NBSP}{format_quantity(report.target)}"


def _level(value: float | str | None) -> str:
    return value if isinstance(value, str) else format_quantity(value)


def _or_inf(value: float | None) -> float:
    return math.inf if value is None else value


def _cost(fraction: float) -> str:
    return format_cost(math.log1p(fraction))


def _cost_interval(interval: Interval) -> str:
    if interval.upper is None:
        return f"at least {_cost(interval.lower or 0.0)}"
    return f"{_cost(interval.lower or 0.0)} to {_cost(interval.upper)}"


def _stake(knob: Knob) -> str:
    if knob.at_stake.value is None:
        return "an unknown amount"
    return f"{_cost(knob.at_stake.value)} ({_cost_interval(knob.at_stake.ci)})"


def _stacked_cost(measure: Measure) -> str:
    if measure.value is None:
        return "unknown"
    return f"{_cost(measure.value)}\n{_cost_interval(measure.ci)}"


def _change(change: Measure) -> str:
    """A change of log loss as signed percentages with its interval."""
    if change.value is None:
        return "unknown"
    lower, upper = (_signed_cost(side) for side in change.ci)
    return f"{_signed_cost(change.value)} ({lower} to {upper})"


def _signed_cost(log_excess: float | None) -> str:
    if log_excess is None:
        return "unknown"
    text = format_cost(log_excess)
    return text if text.startswith(("−", "0")) and log_excess < 0 else f"+{text}"


def _absolute(octaves: Measure) -> str:
    """A distance in octaves; its interval keeps its signs where it holds both."""
    value, (lower, upper) = octaves.value or 0.0, octaves.ci
    if lower is None or upper is None:
        return f"{abs(value):.2g} (interval open)"
    ends = sorted((-lower, -upper)) if value < 0 else [lower, upper]
    return format_estimate(abs(value), Interval(ends[0], ends[1]))


def _plain(text: str) -> str:
    return text.replace(NBSP, " ")
