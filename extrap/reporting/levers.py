"""Levers in words: a headline, a line a lever, tables, a document, a page of its own."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extrap import __version__
from extrap.levers import ArmResult, LeverFinding, LeverReport
from extrap.records import Interval, Measure
from extrap.records.codec import encode
from extrap.reporting.envelopes import PageHead
from extrap.reporting.figures import (
    draw_lever_effects,
    draw_svg,
    lever_effects_info,
)
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_percent,
    format_quantity,
    format_value,
)
from extrap.reporting.pages import render_page, write_page
from extrap.reporting.plates import Plate
from extrap.reporting.tables import Table

__all__ = [
    "lever_headline",
    "lever_page",
    "lever_words",
    "levers_document",
    "levers_text",
]

SCHEMA_VERSION = 1
FEWER = 1.05
"""Times fewer, or more, updates that are worth a word."""
LIMITS = (
    "Arms see the same number of examples; the time a run takes is not compared. Fewer updates "
    "of a larger batch are quicker where the batch is shared out over processors.",
    "Rates are chosen on some seeds and judged on others. The rate is the best of a grid, not the "
    "optimum between its values, so arms may lose a little by it, each its own little.",
    "Everything but the rate is that of the plain arm: momentum, warm-up, decay are not tuned "
    "anew for the treatment.",
    "Intervals are pointwise, one lever at a time: of twenty levers that do nothing, one is "
    "expected to look as if it did at a level of 95 %.",
    "What a lever does at this size, on these data, for this long says nothing sure of larger "
    "ones: repeat it at two sizes before you rely on it.",
)


def lever_headline(report: LeverReport) -> str:
    """What the levers did, in a few sentences."""
    lower = [f for f in report.findings if f.kind == "lower"]
    savers = [f for f in report.findings if f.kind == "alike" and _saves(f)]
    parts = []
    if lower:
        named = _listed([f"{f.lever.name} ({_percent(f)})" for f in lower])
        parts.append(f"Lower final loss: {named}.")
    if savers:
        named = _listed([f"{f.lever.name} ({_times(f.updates_ratio)})" for f in savers])
        parts.append(f"Fewer updates, within one run's seed noise: {named}.")
    counts = [
        f"{n} {one if n == 1 else more}"
        for kind, one, more in (
            ("higher", "raises the final loss", "raise the final loss"),
            ("unclear", "is not told from noise", "are not told from noise"),
        )
        if (n := sum(f.kind == kind for f in report.findings))
    ]
    if counts:
        parts.append(f"Of {len(report.findings)} levers at equal examples {_listed(counts)}.")
    return " ".join(parts)


def _listed(words: list[str]) -> str:
    """One, one and two, or one, two and three."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _saves(finding: LeverFinding) -> bool:
    return finding.updates_ratio >= FEWER


def lever_words(finding: LeverFinding) -> str:
    """What was seen of a lever, and what to do."""
    lever = finding.lever
    if finding.difference.value is None:
        lost = finding.treated.n_lost + finding.plain.n_lost
        return (
            f"{lever.name}: {finding.n_seeds} seed(s) have a loss in every arm, too few to tell; "
            f"{lost} run(s) diverged. Do not use it at this rate."
        )
    seen = (
        f"{lever.name}: the final loss is {_loss(finding.treated)} against "
        f"{_loss(finding.plain)}, a difference of {_estimate(finding.difference)} nats "
        f"({_percent(finding)}); one run's seed noise is {_sd(finding.plain)}"
    )
    parts = [seen, _updates_words(finding)]
    if finding.reference is not None:
        parts.append(_share_words(finding))
    if finding.contrast.value is not None:
        parts.append(
            f"its effect minus that of {lever.beside!r} is {_estimate(finding.contrast)} nats"
        )
    doubts = "".join(
        f" Beware: the best rate of {arm.name} lies at the edge of what was tried."
        for arm in (finding.plain, finding.treated, finding.reference)
        if arm is not None and arm.is_edge
    )
    lost = sum(a.n_lost for a in (finding.plain, finding.treated))
    if lost:
        doubts += f" Beware: {lost} run(s) were lost, and their seeds are left out."
    return f"{'; '.join(part for part in parts if part)}. {_advice(finding)}{doubts}"


def _updates_words(finding: LeverFinding) -> str:
    ratio = finding.updates_ratio
    plain, treated = finding.plain.updates, finding.treated.updates
    if 1 / FEWER < ratio < FEWER:
        return ""
    more = f"{_times(ratio)} fewer" if ratio > 1 else f"{_times(1 / ratio)} more"
    return f"{treated} updates instead of {plain}, {more}"


def _share_words(finding: LeverFinding) -> str:
    assert finding.reference is not None
    gap = f"the gap to {finding.reference.name} is {_estimate(finding.gap)} nats"
    lower, upper = finding.share.ci
    if lower is None and upper is None:
        return f"{gap}: there is no gap for sure, so no share of it"
    share = _estimate(finding.share)
    if lower is None or upper is None:
        told = (
            f"at least {format_value(lower)}"
            if upper is None
            else f"at most {format_value(upper)}"
        )
        return f"{gap}, not told from 0, so that the share it closes has one bound: {told}"
    return f"{gap}, of which it closes a share of {share}"


def _advice(finding: LeverFinding) -> str:
    saves = _saves(finding)
    if finding.kind == "lower":
        return "Use it."
    if finding.kind == "higher":
        paid = ", unless fewer updates are worth that much" if saves else ""
        return f"Do not use it{paid}."
    if finding.kind == "alike":
        if not saves:
            return "Leave it out."
        costs = (finding.difference.ci.lower or 0.0) > 0
        price = "less than one run's seed noise" if costs else "nothing that is seen"
        return f"Use it: fewer updates cost {price}."
    return "More seeds would tell."


def lever_table(report: LeverReport) -> Table:
    """All levers, one row each."""
    level = f"{100 * report.level:g}{NBSP}%"
    rows = tuple(
        (
            finding.lever.name,
            _stacked(finding.difference),
            _sd(finding.plain),
            f"{finding.plain.updates} → {finding.treated.updates}",
            _stacked(finding.share),
            f"{_loss(finding.plain)}\n{_arm(finding.plain)}",
            f"{_loss(finding.treated)}\n{_arm(finding.treated)}",
        )
        for finding in report.findings
    )
    return Table(
        caption=f"Levers, final held-out loss in nats ({level} intervals)",
        columns=(
            "lever",
            "difference",
            "seed noise",
            "updates",
            "share of the gap",
            "plain",
            "treated",
        ),
        rows=rows,
        note="Difference: treated minus plain, paired by seed, Student's t. Seed noise: standard "
        "deviation of one plain run. Share: part of plain minus reference that the treatment "
        "closes, Fieller's interval.",
    )


def levers_document(report: LeverReport) -> dict[str, Any]:
    """The findings as a JSON document."""
    return {
        "kind": "extrap-levers",
        "schema_version": SCHEMA_VERSION,
        "level": report.level,
        "n_judged": report.n_judged,
        "n_tuning": report.n_tuning,
        "headline": _plain(lever_headline(report)),
        "levers": [_document(finding) for finding in report.findings],
    }


def _document(finding: LeverFinding) -> dict[str, Any]:
    arms = {
        "plain": finding.plain,
        "treated": finding.treated,
        "reference": finding.reference,
    }
    return {
        "name": finding.lever.name,
        "group": finding.lever.group,
        "kind": finding.kind,
        "n_seeds": finding.n_seeds,
        "difference": _measured(finding.difference),
        "is_within_seed_noise": finding.is_within_noise,
        "updates_ratio": finding.updates_ratio,
        "gap": _measured(finding.gap),
        "share": _measured(finding.share),
        "contrast": _measured(finding.contrast),
        "arms": {role: _arm_document(arm) for role, arm in arms.items() if arm is not None},
        "words": _plain(lever_words(finding)),
    }


def _arm_document(arm: ArmResult) -> dict[str, Any]:
    return {
        "name": arm.name,
        "lr": arm.lr,
        "rate": arm.rate_rule,
        "is_edge": arm.is_edge,
        "batch_sizes": list(arm.batch_sizes),
        "updates": arm.updates,
        "n_examples": arm.n_examples,
        "loss": arm.loss,
        "seed_sd": arm.seed_sd,
        "n_lost": arm.n_lost,
    }


def _measured(measured: Measure) -> dict[str, Any]:
    return {"value": measured.value, "ci": list(measured.ci)}


def levers_text(report: LeverReport) -> str:
    """The headline, then a line a lever under its group."""
    lines = [lever_headline(report)]
    for group, findings in report.by_group().items():
        lines += ["", group]
        lines += [f"- {lever_words(finding)}" for finding in findings]
    return _plain("\n".join(lines))


def lever_page(
    report: LeverReport,
    *,
    path: str | Path,
    title: str,
    question: str,
    created: str,
    provenance: Mapping[str, str],
) -> Path:
    """Write the levers as one HTML file that loads nothing else.

    Args:
        report: The findings.
        path: Where to write; missing folders are made.
        title: Heading.
        question: The question asked, one sentence.
        created: When, ISO 8601.
        provenance: Rows of the provenance table.

    Returns:
        The path written.
    """
    own = {
        "runs that compare arms": str(report.n_judged),
        "runs that chose rates": str(report.n_tuning),
        "extrap": __version__,
        "Python": platform.python_version(),
    }
    groups = [
        {
            "name": name,
            "question": findings[0].lever.question,
            "expected": findings[0].lever.expected,
            "plate": _plate(name, findings, report.level, i),
            "words": [lever_words(finding) for finding in findings],
        }
        for i, (name, findings) in enumerate(report.by_group().items())
    ]
    head = PageHead(
        kind="levers",
        title=title,
        question=question,
        answer=lever_headline(report),
        created=created,
    )
    html = render_page(
        "levers.html.j2",
        head,
        numbers=encode(levers_document(report)),
        groups=groups,
        findings=lever_table(report),
        limits=LIMITS,
        provenance=[(k, v) for k, v in {**own, **provenance}.items() if v],
    )
    return write_page(html, path)


def _plate(name: str, findings: tuple[LeverFinding, ...], level: float, place: int) -> Plate:
    info = lever_effects_info(findings)
    percent = f"{100 * level:g}{NBSP}%"
    svg, narrow = (
        draw_svg(
            lambda ax: draw_lever_effects(ax, info),
            width=width,
            height=80 + 34 * len(info.rows),
            key=f"{key}{place}",
            label=f"{name}: change of the final loss, one mark with its {percent} interval a "
            "lever.",
        )
        for width, key in ((880, "levers"), (390, "leversnarrow"))
    )
    return Plate(
        title="",
        svg=svg,
        narrow_svg=narrow,
        text=f"Left of 0 is better than the plain run. Bars: {percent} intervals; shaded: one "
        "standard deviation of a plain run over seeds, either side.",
    )


def _arm(arm: ArmResult) -> str:
    first, last = arm.batch_sizes
    batch = f"{first}" if first == last else f"{first} to {last}"
    edge = ", at the edge" if arm.is_edge else ""
    return f"batch {batch}, rate {format_quantity(float(f'{arm.lr:.3g}'))} ({arm.rate_rule}{edge})"


def _loss(arm: ArmResult) -> str:
    return "unknown" if arm.loss is None else f"{arm.loss:.4f}"


def _sd(arm: ArmResult) -> str:
    return "unknown" if arm.seed_sd is None else f"{arm.seed_sd:.2g}"


def _percent(finding: LeverFinding) -> str:
    value, base = finding.difference.value, finding.plain.loss
    return "unknown" if value is None or not base else format_percent(value / base)


def _times(ratio: float) -> str:
    return f"{ratio:.3g}{NBSP}times"


def _estimate(measured: Measure) -> str:
    return format_estimate(measured.value, measured.ci)


def _stacked(measured: Measure) -> str:
    if measured.value is None and measured.ci == Interval(None, None):
        return "–"
    return _estimate(measured).replace(" (", "\n", 1).removesuffix(")")


def _plain(text: str) -> str:
    return text.replace(NBSP, " ")
