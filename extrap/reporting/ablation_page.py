"""Ablations: what each treatment does to the final loss, as a page, a text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from extrap.ablations import AblationFinding, AblationReport, ArmResult
from extrap.records import Measure
from extrap.records.codec import document
from extrap.records.numbers import (
    NBSP,
    beside,
    format_decimals,
    format_level,
    format_percent,
    format_quantity,
    over,
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
from extrap.reporting.charts import Axis, Row, RowsChart
from extrap.reporting.glossary import Explanation, explain_flags
from extrap.reporting.study_page import About, measured, study_page
from extrap.reporting.tables import Table, tabulated

FEWER = 1.05
"""Times fewer updates that count as saved."""
MOST_NAMED = 3
"""Ablations that a sentence names; of more it says how many."""
LIMITS = (
    "Arms see the same number of examples; the time of a run is not compared.",
    "Rates are the best of a grid, chosen on some seeds and judged on others; each arm may lose a "
    "little to the optimum between grid values.",
    "Momentum, warm-up, decay and all else but the rate are those of the plain arm, not tuned "
    "again for the treatment.",
    "The effect holds for this size, these data and this length: repeat it at two sizes before "
    "you rely on it for a larger one.",
)
KINDS = {
    "lower": ("v", "good", "lower"),
    "higher": ("^", "bad", "higher"),
    "alike": ("o", "law", "within seed noise"),
    "unclear": ("o", "muted", "not significant"),
}
"""Kind of a finding → marker, ink, words."""


def ablation_answer(report: AblationReport) -> Answer:
    """Which treatments to use, with their effects, and how many do harm or nothing certain."""
    by_kind = {kind: [f for f in report.findings if f.kind == kind] for kind in KINDS}
    lower = sorted(by_kind["lower"], key=lambda f: _relative(f, f.difference).value or 0.0)
    savers = [f for f in by_kind["alike"] if f.updates_ratio >= FEWER]
    n, n_higher, n_unclear = map(len, (report.findings, by_kind["higher"], by_kind["unclear"]))
    named = _listed([f"{f.ablation.name}, {beside(_effect(f))}" for f in lower])
    saved = _listed(
        [
            f"{f.ablation.name}, {format_quantity(f.updates_ratio, digits=3)}{NBSP}times fewer"
            for f in savers
        ]
    )
    text = (
        f"The final loss is lower for {len(lower)} of {n} ablations{f': {named}' * bool(lower)}. "
    )
    if savers:
        text += f"It is within seed noise with fewer updates for {len(savers)}: {saved}. "
    text += f"It is higher for {n_higher}, and not significantly different for {n_unclear}."
    useful = [*lower, *savers]
    kind = "on" if useful else "mixed" if n_unclear == n else "off"
    return Answer(text=text, confidence=f"Confidence: {_reason(report, useful)}.", kind=kind)


def _reason(report: AblationReport, useful: Sequence[AblationFinding]) -> str:
    n, by_chance = len(report.findings), (1 - report.level) * len(report.findings)
    found = sum(f.kind in ("lower", "higher") for f in report.findings)
    doubts = _doubts(useful or report.findings)
    if not useful and found <= by_chance:
        return "low; more seeds are needed to tell an effect from seed noise"
    if doubts:
        meaning = doubts[0].meaning.rstrip(".")
        return f"medium; {meaning[0].lower()}{meaning[1:]} ({doubts[0].detail})"
    if by_chance > 0.5:
        expected = format_quantity(by_chance, digits=2)
        return f"medium; {expected} of {n} effects would be significant by chance alone"
    return f"high; {(useful or report.findings)[0].n_seeds} paired seeds"


def _listed(words: Sequence[str]) -> str:
    more = len(words) - MOST_NAMED
    return "; ".join([*words[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])


def ablation_advice(finding: AblationFinding) -> str:
    """What to do about a treatment."""
    saves = finding.updates_ratio >= FEWER
    if finding.difference.value is None:
        return "Do not use it at this rate."
    return {
        "lower": "Use it.",
        "higher": "Only to save updates." if saves else "Do not use it.",
        "alike": "Use it to save updates." if saves else "Leave it out.",
        "unclear": "Add seeds.",
    }[finding.kind]


def ablation_table(report: AblationReport) -> Table:
    """The effect of each treatment and what to do about it."""
    return tabulated(
        f"Final loss against the plain run, {format_level(report.level)} intervals",
        report.findings,
        {
            "ablation": lambda f: f.ablation.name,
            "effect": lambda f: _effect(f),
            "final loss": lambda f: "unknown" if f.difference.value is None else KINDS[f.kind][2],
            "seed noise": _noise,
            "updates": lambda f: f"{f.plain.updates} → {f.treated.updates}",
            "what to do": ablation_advice,
        },
        note="Effect: treated minus plain, over plain; paired by seed, Student's t, for one "
        "ablation at a time. Seed noise: standard deviation of one plain run.",
    )


def _noise(finding: AblationFinding) -> str:
    plain = finding.plain
    if not plain.loss or plain.seed_sd is None:
        return "unknown"
    return format_percent(plain.seed_sd / plain.loss, signed=False)


def _losses_table(report: AblationReport) -> Table:
    return tabulated(
        "Final held-out losses, nats",
        report.findings,
        {
            "ablation": lambda f: f.ablation.name,
            "plain": lambda f: _arm(f.plain),
            "treated": lambda f: _arm(f.treated),
            "difference": lambda f: measured(f.difference),
            "seeds": lambda f: str(f.n_seeds),
            "reference": lambda f: _arm(f.reference),
            "gap, plain minus reference": lambda f: measured(f.gap),
            "share of the gap closed": lambda f: measured(f.share),
            "difference of effects": lambda f: _contrast(f),
        },
        note="Shares have Fieller's intervals, open where the gap is not significant.",
    )


def _contrast(finding: AblationFinding) -> str:
    if finding.contrast.value is None:
        return "–"
    return over(measured(finding.contrast), f"from {finding.ablation.beside}")


def effects_chart(title: str, findings: Sequence[AblationFinding]) -> RowsChart:
    """Effects relative to the plain run; below a treatment its reference."""
    shown = []
    for f in findings:
        marker, ink, _ = KINDS[f.kind]
        shown.append((f.ablation.name, _relative(f, f.difference), ink, marker))
        if f.reference is not None:
            gap = _relative(f, -f.gap)
            shown.append((f"reference {f.reference.name}", gap, "ink", "D"))
    return RowsChart(
        title=title,
        axis=Axis("change of the final loss", is_log=False, is_percent=True),
        rows=tuple(
            Row(label=name, value=each.value, interval=each.ci, ink=ink, marker=marker)
            for name, each, ink, marker in shown
        ),
        reference=0.0,
    )


def _groups(report: AblationReport) -> Details:
    """The question and expectation of each group, and its effects on an axis of its own."""
    blocks: list[Block] = []
    for name, findings in report.by_group().items():
        ablation = findings[0].ablation
        expected = (
            f" Expected from the literature: {ablation.expected}" if ablation.expected else ""
        )
        blocks.append(Paragraph(f"{ablation.question}{expected}"))
        blocks.append(Figure(effects_chart(name, findings)))
    return Details("By group", tuple(blocks))


def _doubts(findings: Sequence[AblationFinding]) -> tuple[Explanation, ...]:
    """Rates at the edge of their grid and lost runs, each with the ablations concerned."""
    edge = [f for f in findings if any(a and a.is_edge for a in (f.plain, f.treated, f.reference))]
    lost = [f for f in findings if f.plain.n_lost + f.treated.n_lost]
    named = (("rate-at-edge", edge), ("lost-runs", lost))
    flags = [f"{flag}: {_listed([f.ablation.name for f in fs])}" for flag, fs in named if fs]
    return tuple(explain_flags(flags, of="ablations"))


def ablation_blocks(report: AblationReport) -> list[Block]:
    """What the page shows."""
    doubts = _doubts(report.findings)
    return [
        ablation_answer(report),
        Columns((Figure(effects_chart("Change of the final loss", report.findings)),)),
        *([Warnings(doubts)] if doubts else []),
        ablation_table(report),
        _groups(report),
        Details("Losses", (_losses_table(report),)),
    ]


def ablation_page(report: AblationReport, about: About) -> Page:
    """The page of the ablations."""
    counts = {"runs that compare arms": report.n_judged, "runs that chose rates": report.n_tuning}
    return study_page(
        "ablations",
        about,
        ablation_blocks(report),
        caveats=LIMITS,
        numbers=ablation_document(report),
        counts=counts,
    )


def ablation_document(report: AblationReport) -> dict[str, Any]:
    """The findings as a JSON document."""
    return document(report, answer=ablation_answer(report).text.replace(NBSP, " "))


def _relative(finding: AblationFinding, measure: Measure) -> Measure:
    """A difference of losses over the plain arm's loss."""
    plain = finding.plain.loss
    return measure.map(lambda loss: loss / plain) if plain else Measure()


def _effect(finding: AblationFinding) -> str:
    effect = _relative(finding, finding.difference)
    return stacked(effect.value, effect.ci, format_percent)


def _arm(arm: ArmResult | None) -> str:
    """Loss of an arm above its name, seed noise, batch and rate."""
    if arm is None:
        return "–"
    batch = " to ".join(dict.fromkeys(map(str, arm.batch_sizes)))
    noise = "" if arm.seed_sd is None else f", sd {format_quantity(arm.seed_sd, digits=2)}"
    rate = format_quantity(arm.lr, digits=3)
    edge = ", at the edge" * arm.is_edge
    noise += f", {arm.n_lost} run(s) lost" * bool(arm.n_lost)
    words = f"{arm.name}{noise}, batch {batch}, rate {rate} ({arm.rate_rule}{edge})"
    return over(format_decimals(arm.loss, 4), words)
