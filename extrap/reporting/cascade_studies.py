"""A cascade study in words, a table, a document, a page of its own."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from extrap import __version__
from extrap.cascading import MARGIN, CascadeFinding, CascadeReport
from extrap.records import Interval, Measure
from extrap.records.codec import encode
from extrap.reporting.envelopes import PageHead
from extrap.reporting.figures import (
    cascade_costs_info,
    cascade_curves_info,
    draw_cascade_costs,
    draw_cascade_curves,
    draw_svg,
)
from extrap.reporting.glossary import explain_flags, flag_lines
from extrap.reporting.numbers import NBSP, format_estimate, format_percent
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = ["cascade_headline", "cascade_page", "cascade_table", "cascades_text"]

LIMITS = (
    "A cost is a count of operations, twice the parameters without embeddings for an input. Two "
    "models in turn may take longer than that where many inputs are answered at once.",
    "Thresholds are chosen on one half of the held-out inputs and judged on the other; both are "
    "drawn from the same text, so on other text the threshold has to be chosen anew.",
    "Intervals in the table are for one small model at a time. The headline picks the best of "
    "several: its intervals are widened until all of theirs hold at once (Bonferroni).",
    "The held-out text is one and the same for all pairs. Its chance, judged from intervals of "
    "single pairs, is added to those over pairs; those of a model alone are over pairs only.",
    "As good as the large model means told to be less than half a percentage point of the share "
    "correct below it, or .5 % of its mean loss above; smaller losses of quality may be there.",
)


def cascade_headline(report: CascadeReport) -> str:
    """What the best small model saves, in three sentences."""
    best = report.best
    n_smalls = len(report.of("correct"))
    picked = f", intervals for the best of {n_smalls} small models" if n_smalls > 1 else ""
    parts = [
        f"{best.small} before {report.large} costs {_percents(best.surely_cost)} of "
        f"{report.large} alone, with a share of correct answers {_alike(best)}: "
        f"{_points(best.surely_difference)}{picked}.",
        f"The small model answers {_percents(best.share)} of the inputs.",
    ]
    ruled = [f for f in report.of("correct", rule=True) if f.small == best.small]
    if ruled:
        parts.append(
            "Behind the rule, which answers "
            f"{format_percent(ruled[0].share_filtered, signed=False)}, it costs "
            f"{_percents(ruled[0].cost)} at {_points(ruled[0].difference)}."
        )
    in_nats = report.surest("loss")
    parts.append(
        f"Asked for the large model's mean loss instead, the surest saving is {in_nats.small}: "
        f"a cost of {_percents(in_nats.surely_cost)}."
    )
    words = " ".join(parts)
    return f"{words[0].upper()}{words[1:]}"


def _alike(finding: CascadeFinding) -> str:
    """How the share correct stands to the large model's."""
    lower, upper = (side or 0.0 for side in finding.surely_difference.ci)
    if lower > 0:
        return "above the large model's"
    margin = f"{100 * MARGIN:g} points of the large model's"
    if finding.is_as_good:
        return f"no more than {margin.replace(' of ', ' below ')}"
    return "below the large model's" if upper < 0 else f"not told to be within {margin}"


def cascade_table(report: CascadeReport) -> Table:
    """Every small model, by what a quality is."""
    rows = tuple(
        (
            finding.small,
            _way(finding),
            _stacked(_scaled(finding.cost)),
            ", ".join(f"{100 * cost:.0f}" for cost in finding.pair_costs),
            _stacked(_scaled(finding.share)),
            _stacked(_difference(finding)),
            _stacked(_quality(finding.quality_small, finding)),
            format_percent(finding.cost_small, signed=False),
        )
        for finding in report.findings
    )
    n = report.findings[0].n_pairs
    alone = {f.outcome: f.quality_large for f in report.findings}
    return Table(
        caption=f"At the threshold chosen for the large model's quality, means of {n} pairs with "
        f"{100 * report.level:g}{NBSP}% intervals",
        columns=(
            "small model",
            "quality",
            "cost, %",
            "pair by pair",
            "it answers, %",
            "difference",
            "quality alone",
            "cost alone",
        ),
        rows=rows,
        note="Share correct in %, its difference in percentage points; mean loss in nats. Costs "
        f"in percent of {report.large} alone, which has {_estimate(_scaled(alone['correct']))}"
        f"{NBSP}% correct and a mean loss of {_estimate(alone['loss'])}.",
    )


def cascades_text(report: CascadeReport) -> str:
    """The headline, then a line a small model and quality."""
    lines = [cascade_headline(report), ""]
    lines += [
        f"- {finding.small}, {_way(finding)}: cost {_percents(finding.cost)}, answers "
        f"{_percents(finding.share)}, difference {_told_difference(finding)}"
        for finding in report.findings
    ]
    lines += ["", *flag_lines(report.flags, of="cascade")]
    return "\n".join(lines).rstrip().replace(NBSP, " ")


def cascade_page(
    report: CascadeReport,
    *,
    path: str | Path,
    title: str,
    question: str,
    rule: str,
    created: str,
    provenance: Mapping[str, str],
) -> Path:
    """Write the study as one HTML file that loads nothing else.

    Args:
        report: The findings.
        path: Where to write; missing folders are made.
        title: Heading.
        question: The question asked, one sentence.
        rule: What the rule says; empty without one.
        created: When, ISO 8601.
        provenance: Rows of the provenance table.

    Returns:
        The path written.
    """
    own = {
        "pairs of trainings": str(report.best.n_pairs),
        "inputs that judge": str(report.best.n_judged),
        "extrap": __version__,
        "Python": platform.python_version(),
    }
    head = PageHead(
        kind="cascade",
        title=title,
        question=question,
        answer=cascade_headline(report),
        created=created,
        status="as good" if report.best.is_as_good else "not told to be as good",
    )
    html = render_page(
        "cascades.html.j2",
        head,
        numbers=_numbers(report),
        is_good=report.best.is_as_good,
        curves=_curves_plate(report),
        costs=_costs_plate(report, rule),
        findings=cascade_table(report),
        flags=explain_flags(report.flags, of="cascade"),
        limits=LIMITS,
        provenance=[(k, v) for k, v in {**own, **provenance}.items() if v],
    )
    return write_page(html, path)


def _numbers(report: CascadeReport) -> dict[str, Any]:
    """The findings as JSON."""
    return encode(
        {
            "kind": "extrap-cascade-study",
            "schema_version": 1,
            "level": report.level,
            "large": report.large,
            "findings": [asdict(finding) for finding in report.findings],
            "flags": list(report.flags),
        }
    )


def _curves_plate(report: CascadeReport) -> Plate:
    info = cascade_curves_info(report)
    best = report.best
    svg, narrow = (
        draw_svg(
            lambda ax: draw_cascade_curves(ax, info),
            width=width,
            height=400,
            key=key,
            label=f"Cost against share correct of {best.small} before {report.large}, a line for "
            "each pair of trainings.",
        )
        for width, key in ((880, "curves-figure"), (390, "curvesnarrow"))
    )
    percent = f"{100 * report.level:g}{NBSP}%"
    return Plate(
        title="",
        svg=svg,
        narrow_svg=narrow,
        text=f"{best.small.capitalize()} before {report.large}: from the small model alone "
        "(left) to both models for every input (right); one line a pair of trainings, with "
        f"{percent} bands on {best.n_judged} inputs that chose nothing. "
        "Marks: the lowest threshold that reached the large model's quality, the line at 0, on "
        "the other inputs.",
    )


def _costs_plate(report: CascadeReport, rule: str) -> Plate:
    info = cascade_costs_info(report)
    svg, narrow = (
        draw_svg(
            lambda ax: draw_cascade_costs(ax, info),
            width=width,
            height=380,
            key=key,
            label="Cost at the large model's quality, by small model and by what quality is.",
        )
        for width, key in ((880, "costs-figure"), (390, "costsnarrow"))
    )
    percent = f"{100 * report.level:g}{NBSP}%"
    words = f" The rule: {rule}; it costs nothing." if rule else ""
    return Plate(
        title="",
        svg=svg,
        narrow_svg=narrow,
        text=f"Means over pairs of trainings with {percent} intervals; hollow where the quality "
        f"is not told to be as good as the large model's.{words}",
    )


def _way(finding: CascadeFinding) -> str:
    if finding.outcome == "loss":
        return "mean loss"
    return "share correct, behind the rule" if finding.rule else "share correct"


def _scaled(measure: Measure) -> Measure:
    """In percent."""
    lower, upper = (None if side is None else 100 * side for side in measure.ci)
    value = None if measure.value is None else 100 * measure.value
    return Measure(value=value, ci=Interval(lower, upper))


def _quality(measure: Measure, finding: CascadeFinding) -> Measure:
    return measure if finding.outcome == "loss" else _scaled(measure)


def _difference(finding: CascadeFinding) -> Measure:
    return _quality(finding.difference, finding)


def _told_difference(finding: CascadeFinding) -> str:
    if finding.outcome == "correct":
        return _points(finding.difference)
    return f"{_estimate(finding.difference)} nats"


def _points(measure: Measure) -> str:
    return f"{_estimate(_scaled(measure))} percentage points"


def _percents(measure: Measure) -> str:
    lower, upper = measure.ci
    value = 100 * (measure.value or 0.0)
    return (
        f"{value:.1f}{NBSP}% ({100 * (lower or 0.0):.1f} to {100 * (upper or 0.0):.1f}{NBSP}%)"
    ).replace("-", "−")


def _estimate(measure: Measure) -> str:
    return format_estimate(measure.value, measure.ci)


def _stacked(measure: Measure) -> str:
    return _estimate(measure).replace(" (", "\n", 1).removesuffix(")")
