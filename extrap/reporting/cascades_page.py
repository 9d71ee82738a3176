"""Cascades of a small and a large model: a study's page and text, and one pair's text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from extrap.cascading import MARGIN, Cascade, CascadeFinding, CascadeReport
from extrap.records import Measure
from extrap.records.codec import document
from extrap.reporting.blocks import Answer, Block, Columns, Details, Figure, Paragraph, Warnings
from extrap.reporting.charts import Axis, Row, RowsChart, Series, XYChart, series
from extrap.reporting.glossary import explain_flags
from extrap.reporting.html import write_page
from extrap.reporting.numbers import NBSP, below, format_percent
from extrap.reporting.study_page import About, doubts, estimate, in_percent, measured, study_page
from extrap.reporting.tables import Table, tabulated
from extrap.reporting.text import blocks_text

EVERY = 5
"""Of the points of one pair's curve, one in so many is printed."""
MOST_NAMED = 3
"""Small models that a warning names; of more it says how many."""
WAYS = {("correct", False): "law", ("correct", True): "good", ("loss", False): "fixed"}
"""Outcome, and whether a rule answers first → ink."""
OUTCOMES = {"correct": "share correct", "loss": "mean loss"}
LIMITS = (
    "A cost is a count of operations, twice the parameters without embeddings for an input; the "
    "time of two models in turn may differ.",
    "Thresholds are chosen on one half of the held-out inputs and tested on the other; on other "
    "text, choose the threshold anew.",
    "Intervals of the table are for one small model at a time; those of the answer hold for all "
    "small models at once (Bonferroni).",
    "All pairs share the held-out text. Its sampling error is added to that over pairs, not for "
    "the quality of a model alone.",
    "As good as the large model: significantly less than half a percentage point of the share "
    "correct below it, or 0.5 % of its mean loss above.",
)


def cascade_study_answer(report: CascadeReport) -> Answer:
    """Which small model to put before the large one, what that saves and what it costs."""
    best, large, in_nats = report.best, report.large, report.surest("loss")
    n_smalls, upper = len(report.of("correct")), best.surely_difference.ci.upper or 0.0
    by = f"{estimate(_scaled(best.surely_difference))} percentage points"
    cost = f"{in_percent(best.surely_cost)} of {large} alone"
    if best.is_as_good:
        text = f"Put {best.small} before {large}: that costs {cost} and changes the share correct "
        text += f"by {by}."
    else:
        known = "keeps" if upper < 0 else "is shown to keep"
        text = f"No small model {known} the share correct within {100 * MARGIN:g} points of "
        text += f"{large}'s; {best.small} costs {cost} and changes it by {by}."
    text += f" At {large}'s mean loss the most certain saving is that of {in_nats.small}: a cost "
    text += f"of {in_percent(in_nats.surely_cost)}."
    reason = f"high; {best.n_pairs} pairs of trainings"
    if not best.is_as_good:
        reason = "low; the share correct is below the margin or its interval is too wide"
    elif (best.surely_cost.ci.upper or 1.0) >= 1:
        reason = "low; the interval of the cost includes no saving"
    elif (best.difference.value or 0.0) < 0:
        reason = "medium; the share correct is lower on the test inputs than requested"
    if n_smalls > 1:
        reason += f"; the intervals allow for the choice among {n_smalls} small models"
    kind = "on" if best.is_as_good else "mixed"
    return Answer(text=text, confidence=f"Confidence: {reason}.", kind=kind)


def cascade_table(report: CascadeReport) -> Table:
    """Every small model, by the quality asked for."""
    return tabulated(
        f"At the threshold chosen for {report.large}'s quality: means of {report.best.n_pairs} "
        f"pairs of trainings, {100 * report.level:g}{NBSP}% intervals",
        report.findings,
        {
            "small model": lambda f: f"{f.small}\n{_way(f)}",
            "as good": lambda f: "yes" if f.is_as_good else "not shown",
            "cost": lambda f: below(in_percent(f.cost)),
            "it answers": lambda f: below(in_percent(f.share)),
            "difference": lambda f: _quality(f.difference, f),
        },
        note=f"Cost: of {report.large} alone. Difference: percentage points of the share correct, "
        "nats of the mean loss.",
    )


def _alone_table(report: CascadeReport) -> Table:
    return tabulated(
        "Costs pair by pair, and each model alone",
        report.findings,
        {
            "small model": lambda f: f.small,
            "quality": _way,
            "cost by pair, %": lambda f: ", ".join(f"{100 * cost:.0f}" for cost in f.pair_costs),
            "small alone": lambda f: _quality(f.quality_small, f),
            f"{report.large} alone": lambda f: _quality(f.quality_large, f),
            "cost of the small alone": lambda f: format_percent(f.cost_small, signed=False),
            "the rule answers": lambda f: format_percent(f.share_filtered, signed=False),
        },
        note="Quality alone: share correct in %, mean loss in nats.",
    )


def _curves_chart(report: CascadeReport) -> XYChart:
    """Cost against the share correct of the best small model, a line per pair of trainings."""
    table, best = report.table, report.best
    is_own = (
        (table["small"] == best.small) & (table["outcome"] == "correct") & (table["rule"] == 0)
    )
    sides = ["difference", "difference_lower", "difference_upper"]
    own = table[is_own].sort_values(["pair", "cost"])
    own = own.assign(**{name: 100 * own[name] for name in sides})
    pairs = own["pair"].unique()
    shown: list[Series] = []
    for i, pair in enumerate(pairs):
        ink, points = f"size:{i / max(1, len(pairs) - 1):.3g}", own[own["pair"] == pair]
        chosen = points[points["is_chosen"] == 1]
        shown += [
            series(
                points,
                "cost",
                "difference",
                lower="difference_lower",
                upper="difference_upper",
                label=f"pair {int(pair) + 1}",
                ink=ink,
                line="-",
                is_band=True,
            ),
            series(chosen, "cost", "difference", ink=ink, marker="o"),
        ]
    return XYChart(
        title=f"Cost against quality, {best.small} before {report.large}",
        x=Axis(f"cost, {report.large} alone = 1", is_log=False),
        y=Axis("share correct, points from it", is_log=False),
        series=tuple(shown),
        reference=0.0,
    )


def _costs_chart(report: CascadeReport, *, plain: bool) -> RowsChart:
    """Costs for the share correct, or for what else was asked: after a rule, and mean loss."""
    rows = []
    for finding in report.findings:
        ink = WAYS[finding.outcome, finding.rule]
        if plain == (ink == "law"):
            label = finding.small if plain else f"{finding.small}, {_way(finding)}"
            marker, cost = "o" if finding.is_as_good else "X", _scaled(finding.cost)
            rows.append(
                Row(label=label, value=cost.value, interval=cost.ci, ink=ink, marker=marker)
            )
    axis = Axis(f"cost, % of {report.large} alone", is_log=False)
    title = f"Cost at {report.large}'s {'share correct' if plain else 'quality, other ways'}"
    return RowsChart(title=title, axis=axis, rows=tuple(rows), reference=100.0)


def _warnings(report: CascadeReport) -> list[Warnings]:
    flags = report.flags
    items = explain_flags(flags, of="cascade")
    if len(flags) > MOST_NAMED:
        counted = f"{len(flags)} of {len(report.findings)} rows of the table"
        items = [replace(item, detail=counted) for item in items]
    return [Warnings(tuple(items))] if items else []


def cascade_blocks(report: CascadeReport, *, rule: str) -> list[Block]:
    """What the page of a study shows."""
    figures = (
        Figure(_curves_chart(report), "Dots: the threshold chosen on other inputs."),
        Figure(_costs_chart(report, plain=True), "Crosses: not shown to be as good."),
    )
    rules = [Paragraph(f"The rule: {rule}; it costs nothing.")] if rule else []
    other = Figure(_costs_chart(report, plain=False))
    return [
        cascade_study_answer(report),
        Columns(figures),
        *_warnings(report),
        cascade_table(report),
        Details("Rule, mean loss, models alone", (*rules, other, _alone_table(report))),
    ]


def cascade_page(report: CascadeReport, about: About, path: str | Path, *, rule: str) -> Path:
    """Write a study as one HTML file; `rule` is a sentence about the rule, or empty."""
    best = report.best
    page = study_page(
        "cascade",
        about,
        cascade_blocks(report, rule=rule),
        caveats=LIMITS,
        numbers=document(report),
        counts={"pairs of trainings": best.n_pairs, "test inputs": best.n_judged},
        status="as good" if best.is_as_good else "not shown to be as good",
    )
    return write_page(page, path)


def cascade_text(found: Cascade) -> str:
    """The answer of one pair of models, its curve of cost against quality, warnings."""
    notes = [Paragraph(f"note: {note}.") for note in found.notes]
    warnings = doubts(found.flags, of="cascade")
    return blocks_text([_cascade_answer(found), _curve_table(found), *notes, *warnings])


def _cascade_answer(found: Cascade) -> Answer:
    """The threshold, what it saves and what it keeps."""
    chosen, what = found.chosen, OUTCOMES[found.kind]
    if chosen.threshold is None:
        text = (
            "Let the large model answer all inputs: no confidence of the small model is high "
            f"enough for a {what} of {found.asked:.4g}."
        )
    else:
        text = (
            f"Let the small model answer where its confidence is {chosen.threshold:.4g} or more: "
            f"it answers {in_percent(chosen.share)} of the inputs, and the cost is "
            f"{in_percent(chosen.cost)} of the large model's. The {what} is "
            f"{estimate(chosen.quality)}, {estimate(chosen.difference)} from the large model's."
        )
    if found.share_filtered:
        text += f" The rule answers {format_percent(found.share_filtered, signed=False)}."
    asked = f"the {what} asked for, {found.asked:.4g}"
    if not found.is_reached:
        reason = f"low; no threshold reached {asked}"
    elif found.asked not in chosen.quality.ci and found.flags:
        reason = f"low; on the test inputs the interval of the {what} excludes {asked}"
    elif found.flags:
        reason = f"medium; on the test inputs the {what} is worse than {asked}"
    else:
        reason = f"high; {asked}, is reached on {found.n_judged} test inputs"
    return Answer(text=text, confidence=f"Confidence: {reason}.")


def _curve_table(found: Cascade) -> Table:
    what = OUTCOMES[found.kind]
    return tabulated(
        f"Cost against quality, each point with its own {100 * found.level:.0f}{NBSP}% interval",
        [found.chosen, *found.curve[::EVERY]],
        {
            "": lambda p: "chosen" if p is found.chosen else "",
            "confidence from": lambda p: "none" if p.threshold is None else f"{p.threshold:.4g}",
            "small answers": lambda p: format_percent(p.share.value, signed=False),
            what: lambda p: estimate(p.quality),
            "difference": lambda p: estimate(p.difference),
            "cost, large = 1": lambda p: estimate(p.cost),
        },
        note=f"Chosen on {found.n_validation} inputs, tested on {found.n_judged} others. Large "
        f"model alone: {what} {estimate(found.large)}; without it: {estimate(found.small)}.",
    )


def _way(finding: CascadeFinding) -> str:
    return OUTCOMES[finding.outcome] + ", after the rule" * finding.rule


def _scaled(measure: Measure) -> Measure:
    """In percent."""
    return measure.map(lambda share: 100 * share)


def _quality(measure: Measure, finding: CascadeFinding) -> str:
    return measured(measure if finding.outcome == "loss" else _scaled(measure))
