"""Recipes compared over size: the page of a study, and the text of `extrap compare`."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from extrap import __version__
from extrap.comparing import Comparison, SizeDifference
from extrap.documents import plain_document
from extrap.laws import LAWS
from extrap.records import ComparisonStudy, Interval, Measure
from extrap.reporting.blocks import (
    Answer,
    Block,
    Columns,
    Details,
    Figure,
    Page,
    Paragraph,
    Table,
    Warnings,
    capped_table,
)
from extrap.reporting.charts import Chart
from extrap.reporting.comparison_findings import (
    OPEN,
    GroupFindings,
    Treatment,
    has_misfit,
    treatments,
)
from extrap.reporting.forecast_page import limits, provenance
from extrap.reporting.glossary import Explanation, explain_flag
from extrap.reporting.html import write_page
from extrap.reporting.numbers import (
    NBSP,
    format_estimate,
    format_interval,
    format_p_value,
    format_quantity,
    format_value,
    name_size,
)
from extrap.reporting.text import blocks_text

__all__ = ["comparison_page", "comparison_study_text", "comparison_text", "found_sentence"]

LIMITS = (
    "A verdict holds for the sizes that were run. A small difference of exponents can look like a "
    "shift, and a shift like a difference of exponents, unless the sizes are far apart.",
    "Each recipe is at its own best tuned values. What is fixed alike in all of them, such as the "
    "schedule, may suit one recipe better than another.",
    "Compute is counted as the runs record it; hardware may run one recipe faster than another.",
    "A lower loss does not guarantee better downstream results.",
)
MOST_SENTENCES, MOST_FULL, MOST_NAMED = 2, 3, 8
"""Treated recipes that an answer gives a sentence each, an interval each, and that it names."""
CAPTION = (
    "Bars: intervals. Open marks: forecast. ×: measured at the target. Grey: sizes of the sweep."
)
FAR = 4.0
"""Target over the largest measured size, from which the confidence is not high."""
ORDER = {
    "better": "▼",
    "worse": "▲",
    "depends on size": "■",
    "differs": "◆",
    "no significant difference": "●",
    "cannot tell": "?",
}
"""Verdict → its mark, in the order of an answer."""
COUNTED = {
    "depends on size": "better or worse depending on size",
    "differs": "different without a significant sign",
    "no significant difference": "without a significant difference",
    "cannot tell": "undecided",
}
SENTENCES = {
    "better": "{} is better than {}",
    "worse": "{} is worse than {}",
    "depends on size": "Whether {} is better than {} depends on size",
    "differs": "{} differs from {}, but which one is better is not significant",
    "no significant difference": "{} does not differ significantly from {}",
    "cannot tell": "Whether {} differs from {} cannot be told",
}


def comparison_page(
    study: ComparisonStudy,
    findings: Sequence[GroupFindings],
    *,
    path: str | Path,
    created: str,
    provenance: Mapping[str, str],
    sections: Sequence[Details] = (),
) -> Path:
    """Write a comparison study as one HTML file that loads nothing else.

    Args:
        study: The study, for its name and question.
        findings: Of each of its groups.
        path: Where to write; missing folders are made.
        created: When, ISO 8601.
        provenance: Rows of the provenance table; empty ones are left out.
        sections: Further closed parts of the page, below the groups.

    Returns:
        The path written.
    """
    page = study_page(study, findings, created=created, origin=provenance, sections=sections)
    return write_page(page, path)


def study_page(
    study: ComparisonStudy,
    findings: Sequence[GroupFindings],
    *,
    created: str,
    origin: Mapping[str, str],
    sections: Sequence[Details] = (),
) -> Page:
    """The page as blocks; see `comparison_page`."""
    from extrap.reporting.comparison_documents import checks_document, comparison_study_document

    found = comparison_study_document(study, findings)
    groups = [Details(each.group.name, _group_blocks(each)) for each in findings]
    if len(groups) > 1:
        groups = [Details("Groups of recipes", tuple(groups))]
    runs = {
        spec.name: len(each.runs[arm])
        for each in findings
        for arm, spec in each.group.arms.items()
        if arm in each.runs
    }
    rows = {
        "runs": str(sum(runs.values())),
        "extrap": __version__,
        "Python": platform.python_version(),
        **origin,
    }
    return Page(
        kind="comparison",
        title=study.name,
        question=study.question,
        created=created,
        blocks=(
            *_study_blocks(findings, has_figures=True),
            *groups,
            *sections,
            *_expectations(findings),
            provenance([(k, v) for k, v in rows.items() if v]),
            limits(LIMITS),
        ),
        numbers=plain_document({**found, "checks": checks_document(findings)}),
    )


def comparison_study_text(study: ComparisonStudy, findings: Sequence[GroupFindings]) -> str:
    """What a study found, for a terminal: the answer, the verdicts, warnings, problems."""
    blocks = [*_study_blocks(findings), *(Paragraph(t) for t in _seals(findings))]
    return f"{study.question}\n{blocks_text(blocks)}"


def comparison_text(found: Comparison) -> str:
    """What `extrap compare` prints: the answer, the verdicts, what they rest on, warnings."""
    shown = [Treatment(contrast=contrast, comparison=found) for contrast in found.contrasts]
    warnings = _warnings(shown)
    return blocks_text(
        [
            comparison_answer(shown),
            verdicts_table(shown),
            *_tables(found),
            *([warnings] if warnings.items else []),
            *_notes(found),
        ]
    )


def _study_blocks(findings: Sequence[GroupFindings], *, has_figures: bool = False) -> list[Block]:
    """What is visible without opening anything."""
    shown = treatments(findings)
    lost = [f"{f.group.name}: {f.problem}" for f in findings if f.comparison is None]
    blocks: list[Block] = [comparison_answer(shown)]
    if has_figures and shown:
        blocks.append(Columns(_figures(findings, shown)))
    if (warnings := _warnings(shown)).items:
        blocks.append(warnings)
    if shown:
        blocks.append(verdicts_table(shown))
    checks = [_checks_table(found) for found in findings if found.checks]
    return [*blocks, *checks, *(Paragraph(f"No comparison of {text}") for text in lost)]


def _figures(findings: Sequence[GroupFindings], shown: Sequence[Treatment]) -> tuple[Figure, ...]:
    """Two figures: over size where there is one group, else one row per treated recipe."""
    from extrap.reporting.comparison_charts import (
        compute_chart,
        differences_chart,
        losses_chart,
        targets_chart,
    )

    charts: list[Chart | None] = [losses_chart(findings[0]), differences_chart(findings[0])]
    if len(findings) > 1:
        half = len(shown) // 2 + 1
        charts = [targets_chart(shown), compute_chart(shown)]
        if charts[1] is None and len(shown) > MOST_NAMED:
            charts = [targets_chart(shown[:half], shown), targets_chart(shown[half:], shown)]
    return tuple(Figure(chart, CAPTION) for chart in charts if chart is not None)


def comparison_answer(shown: Sequence[Treatment]) -> Answer:
    """Whether each treated recipe is better, by how much, and how sure that is."""
    if not shown:
        return Answer(text="Cannot tell: the sweeps do not support a comparison.", kind="none")
    verdicts = {each.verdict for each in shown}
    kinds = {"better": "on", "worse": "off", "cannot tell": "none"}
    text = " ".join(_sentence(each) for each in shown)
    if len(shown) > MOST_SENTENCES:
        text = _counted(shown)
    return Answer(
        text=text,
        confidence=_confidence(shown),
        kind=kinds.get(shown[0].verdict, "mixed") if len(verdicts) == 1 else "mixed",
    )


def _sentence(each: Treatment) -> str:
    place = each.decisive
    parts = [SENTENCES[each.verdict].format(each.contrast.treated, each.comparison.plain)]
    if place is not None:
        how = "forecast" if place.is_forecast else "measured"
        level = f"{100 * each.comparison.level:g}{NBSP}%: "
        value = percent_words(place, level=level)
        parts[0] += f": {value} in loss at {name_size(place.size)}, {how}"
    return f"{'; '.join([*parts, *filter(None, [_law(each)])])}."


def _law(each: Treatment) -> str:
    """How the difference depends on size."""
    contrast = each.contrast
    for pair in contrast.sign_changes[:1]:
        return "measured " + ", ".join(f"{_short(p)} at {name_size(p.size)}" for p in pair)
    if has_misfit(contrast):
        return "the laws do not fit"
    if contrast.verdict == "shift":
        return "the law is shifted, the exponents do not differ significantly"
    if contrast.verdict != "exponent" or not contrast.by_size:
        return ""
    how = "gains" if _gains(each) else "loses"
    first = contrast.by_size[0]
    return f"it {how} with size ({_short(first)} at {name_size(first.size)})"


def _gains(each: Treatment) -> bool:
    """Whether the difference falls from the smallest size to where it counts."""
    places = [*each.contrast.by_size[:1], *filter(None, [each.decisive])]
    values = [place.difference.value or 0.0 for place in places]
    return bool(values) and values[-1] < values[0]


def _counted(shown: Sequence[Treatment]) -> str:
    """How many recipes have which verdict; which ones, or the extremes if they are many."""
    parts = []
    for verdict in ORDER:
        here = [each for each in shown if each.verdict == verdict]
        words = COUNTED.get(verdict, verdict)
        named = "; ".join(_named(each, brief=len(shown) > MOST_FULL) for each in here)
        if here:
            parts.append(f"{len(here)} {words}" + f" ({named})" * (len(shown) <= MOST_NAMED))
    text = f"Of {len(shown)} treated recipes: {', '.join(parts)}."
    places = {(name_size(p.size), p.is_forecast) for e in shown if (p := e.decisive)}
    if len(shown) > MOST_NAMED:
        known = [(p.difference.value or 0.0, e) for e in shown if (p := e.decisive) is not None]
        best, worst = (f(known, key=lambda pair: pair[0])[1] for f in (min, max))
        text += f" Lowest loss: {_named(best, brief=True)}; highest: {_named(worst, brief=True)}."
    elif len(places) == 1:
        size, is_forecast = places.pop()
        text += f" Differences in loss at {size}, {'forecast' if is_forecast else 'measured'}."
    return text


def _named(each: Treatment, *, brief: bool) -> str:
    if each.decisive is None:
        return each.label
    by = _short(each.decisive) if brief else percent_words(each.decisive)
    return f"{each.label} {by}"


def _short(place: SizeDifference) -> str:
    """A difference with two digits, whole percents from ten on."""
    percent = 100 * (place.difference.value or 0.0)
    text = f"{abs(percent):.0f}" if abs(percent) >= 9.95 else f"{abs(percent):.2g}"
    return f"{'−' if percent < 0 else '+'}{text}{NBSP}%"


def _confidence(shown: Sequence[Treatment]) -> str:
    """High, medium or low, with the reason; that of the least certain recipe."""
    order = ("low", "medium", "high")
    level, reason = min(map(_level, shown), key=lambda found: order.index(found[0]))
    return f"Confidence: {level}; {reason}."


def _level(each: Treatment) -> tuple[str, str]:
    contrast, check, place = each.contrast, each.check, each.decisive
    where = name_size(each.comparison.target)
    flags = [explain_flag(flag, of="comparison") for flag in contrast.flags]
    reasons = [f"{f.meaning[0].lower()}{f.meaning[1:].rstrip('.')}" for f in flags]
    if check is not None and check.agrees is False:
        return "low", f"the forecast for {contrast.treated} did not hold at {where}"
    if contrast.verdict == "unknown" or place is None or None in place.difference.ci:
        about = reasons[0] if reasons else "the runs do not bound the difference"
        return "low", f"{contrast.treated}: {about}"
    if has_misfit(contrast):
        return "low", f"the laws of {contrast.treated} and {each.comparison.plain} do not fit"
    if flags:
        return "medium", f"{contrast.treated}: {reasons[0]}"
    if not place.is_forecast:
        return "high", f"measured at {where} with {_pairs(place)}"
    largest = contrast.by_size[-1].size if contrast.by_size else place.size
    ratio = max(place.size[c] / largest[c] for c in largest)
    text = f"forecast at {format_quantity(ratio)} times the largest measured size, no warnings"
    return ("high" if ratio <= FAR else "medium"), text


def _pairs(place: SizeDifference) -> str:
    return f"{place.n_pairs} pair{'s' * (place.n_pairs != 1)}"


def percent_words(place: SizeDifference, *, level: str = "") -> str:
    """A relative difference with its interval, `−3.4 % (95 %: −5.4 to −1.4 %)`."""
    n_pairs = None if place.is_forecast else place.n_pairs
    return percent(place.difference, level=level, is_single=n_pairs is not None and n_pairs <= 1)


def percent(measure: Measure, *, level: str = "", is_single: bool = False) -> str:
    """A share as a percentage with its interval."""
    value = None if measure.value is None else 100 * measure.value
    ends = Interval(*(None if side is None else 100 * side for side in measure.ci))
    sign = "+" if value is not None and value > 0 else ""
    if ends == OPEN:
        why = "one seed: no interval" if is_single else "interval unknown"
        return "unknown" if value is None else f"{sign}{format_value(value)}{NBSP}% ({why})"
    if value is None:
        return f"{format_interval(ends)}{NBSP}%"
    shown, _, interval = format_estimate(value, ends).partition(" (")
    return f"{sign}{shown}{NBSP}% ({level}{interval[:-1]}{NBSP}%)"


def _stacked(text: str) -> str:
    """A value above its interval."""
    return text.replace(" (", "\n", 1).removesuffix(")")


def _cell(measure: Measure | None) -> str:
    if measure is None or (measure.value is None and measure.ci == OPEN):
        return "–"
    if measure.ci == OPEN:
        return format_value(measure.value)
    if measure.value is not None and None in measure.ci:
        side = "at most" if measure.ci.lower is None else "at least"
        bound = format_quantity(measure.ci.upper if measure.ci.lower is None else measure.ci.lower)
        return f"{format_quantity(measure.value)}\n{side} {bound}"
    return _stacked(format_estimate(measure.value, measure.ci))


def verdicts_table(shown: Sequence[Treatment]) -> Table:
    """Every treated recipe: its verdict, its difference where it counts, what to do."""
    rows = []
    for each in shown:
        contrast, place = each.contrast, each.decisive
        difference = "unknown"
        if place is not None:
            how = "forecast" if place.is_forecast else _pairs(place)
            difference = f"{_stacked(percent_words(place))}\n{name_size(place.size)}, {how}"
        p_value = format_p_value(contrast.p_value)
        if (adjusted := format_p_value(contrast.p_adjusted)) not in ("–", p_value):
            p_value += f"\nadjusted {adjusted}"
        worth = contrast.effective_compute[-1:]
        rows.append(
            (
                f"{ORDER[each.verdict]}{NBSP}{each.verdict}",
                f"{contrast.treated}\n{each.group}".strip(),
                difference,
                _cell(contrast.exponent_difference),
                _cell(worth[0].factor) if worth else "–",
                p_value,
                _advice(each),
            )
        )
    level, plain = shown[0].comparison.level, {each.comparison.plain for each in shown}
    against = plain.pop() if len(plain) == 1 else "the plain recipe"
    return Table(
        caption=f"Treated recipes against {against} ({100 * level:g}{NBSP}% intervals)",
        columns=(
            "verdict",
            "recipe",
            "loss",
            "exponent, difference",
            "compute saved, ×",
            "p-value",
            "what to do",
        ),
        rows=tuple(rows),
        note="Compute saved: what the plain recipe needs for the same loss, over what the "
        "treated one takes; above 1 it saves. p-value: of one law for both recipes; adjusted for "
        "the number of treated recipes (Holm).",
    )


def _advice(each: Treatment) -> str:
    """What to do, in a sentence or two."""
    contrast, verdict = each.contrast, each.verdict
    if each.check is not None and each.check.agrees is False:
        return "The forecast did not hold: use the measured difference, and none beyond it."
    if verdict == "depends on size":
        return "Choose by size."
    if verdict == "no significant difference":
        return "Choose by cost; add seeds if the interval is too wide."
    if verdict in ("cannot tell", "differs"):
        if each.check is not None:
            return f"Add seeds at {name_size(each.comparison.target)}."
        largest = contrast.by_size[-1].size if contrast.by_size else each.comparison.target
        column = each.comparison.columns[0]
        return f"Add seeds, and {column} {format_quantity(2 * largest[column])} to both sweeps."
    if has_misfit(contrast):
        return "Use the measured differences by size; forecast nothing from these laws."
    if contrast.verdict == "shift":
        saved = contrast.effective_compute[-1].factor.ci if contrast.effective_compute else OPEN
        if verdict == "better" and saved.upper is not None and saved.upper < 1:
            return "Do not use it: the plain recipe reaches this loss with less compute."
        return "Use it." if verdict == "better" else "Do not use it."
    grows = (contrast.exponent_difference.value or 0.0) > 0
    if verdict == "better":
        return (
            "Use it; it gains with size." if grows else "Use it up to this size; it loses beyond."
        )
    return "It gains with size: train a larger size before you drop it." if grows else "Drop it."


def _warnings(shown: Sequence[Treatment]) -> Warnings:
    """Flags, each once with the recipes it was raised for; their details are among the notes."""
    found: dict[str, Explanation] = {}
    for each in shown:
        for flag in each.contrast.flags:
            new = explain_flag(flag, of="comparison")
            new = replace(new, meaning=flag) if new.name == flag else new
            old = found.get(new.name)
            detail = f"{old.detail}, {each.label}" if old else each.label
            found[new.name] = replace(new, detail=detail)
    return Warnings(tuple(found.values()))


def _notes(comparison: Comparison) -> list[Block]:
    """What the flags say in detail, and what was left out or decided."""
    flags = (f"{c.treated}: {f.partition(': ')[2]}" for c in comparison.contrasts for f in c.flags)
    told = (text for text in flags if not text.endswith(": "))
    return [Paragraph(text) for text in dict.fromkeys([*told, *comparison.notes])]


def _group_blocks(found: GroupFindings) -> tuple[Block, ...]:
    """What a group rests on."""
    from extrap.reporting.comparison_charts import compute_chart, differences_chart, losses_chart

    words = [Paragraph(found.group.question)]
    if found.comparison is None:
        return (*words, Paragraph(f"No comparison: {found.problem}"))
    shown = treatments([found])
    charts = [losses_chart(found), differences_chart(found), compute_chart(shown)]
    read = [f"{name}: {note}" for name, runs in found.runs.items() for note in runs.notes]
    return (
        *words,
        Columns(tuple(Figure(chart) for chart in charts if chart is not None)),
        *_tables(found.comparison),
        _laws_table(found.comparison),
        *_notes(found.comparison),
        *map(Paragraph, dict.fromkeys([*read, *_seals([found])])),
    )


def _seals(findings: Sequence[GroupFindings]) -> list[str]:
    """When forecasts were written down, and whether that was before the runs at the target."""
    found = []
    for each in findings:
        if not each.sealed or not each.checks:
            continue
        order = "."
        if each.began:
            late = f", after runs there began ({each.began}): this is not a blind check."
            order = ", before any run there." if each.sealed <= each.began else late
        target = name_size(each.group.target)
        found.append(f"Forecast for {target} sealed {each.sealed}{order}")
    return found


def _tables(comparison: Comparison) -> tuple[Table, ...]:
    """The numbers of a comparison: by size, exponents and crossings, worth, costs."""
    found = (
        _differences_table(comparison),
        _exponents_table(comparison),
        _worth_table(comparison),
        _costs_table(comparison),
    )
    return tuple(table for table in found if table.rows)


def _differences_table(comparison: Comparison) -> Table:
    rows = [
        (
            contrast.treated,
            name_size(place.size),
            "forecast" if place.is_forecast else str(place.n_pairs),
            _cell(place.plain),
            _cell(place.treated),
            _stacked(percent_words(place)),
        )
        for contrast in comparison.contrasts
        for place in [*contrast.by_size, *filter(None, [contrast.at_target])]
    ]
    columns = ("recipe", "size", "pairs", comparison.plain, "treated", "difference")
    return capped_table("Tuned losses and their differences", columns, rows)


def _exponents_table(comparison: Comparison) -> Table:
    rows = []
    for contrast in comparison.contrasts:
        crossing, exponents = contrast.crossover, contrast.exponents
        between = [
            f"sign changes between {name_size(a.size)} and {name_size(b.size)}"
            for a, b in contrast.sign_changes
        ]
        if crossing.size.value is not None:
            inside = "within" if crossing.is_inside else "outside"
            better = f"{crossing.better_below} better below" if crossing.better_below else ""
            ends = Interval(*(side and float(f"{side:.3g}") for side in crossing.size.ci))
            size = format_estimate(float(f"{crossing.size.value:.3g}"), ends)
            parts = [f"{inside} the measured sizes", better]
            between.insert(0, f"{_stacked(size)}\n{', '.join(filter(None, parts))}")
        rows.append(
            (
                contrast.treated,
                _stacked(percent(contrast.mean_difference)),
                _cell(exponents.get(contrast.treated)),
                _cell(exponents.get(comparison.plain)),
                "\n".join(between) or "none",
            )
        )
    column = comparison.columns[0]
    columns = ("recipe", "mean difference", f"exponent in {column}", f"of {comparison.plain}")
    return Table(
        caption="Mean differences, exponents and crossings of the laws",
        columns=(*columns, f"crossing, {column}"),
        rows=tuple(rows),
    )


def _worth_table(comparison: Comparison) -> Table:
    found = [(c.treated, worth) for c in comparison.contrasts for worth in c.effective_compute]
    level = f" ({100 * found[0][1].level:g}{NBSP}% intervals)" if found else ""
    return Table(
        caption=f"What {comparison.plain} needs for the same loss{level}",
        columns=("recipe", "size", "times the compute", f"times the {comparison.columns[0]}"),
        rows=tuple(
            (treated, name_size(w.size), _cell(w.factor), _cell(w.size_factor))
            for treated, w in found
        ),
    )


def _costs_table(comparison: Comparison) -> Table:
    costs, price = comparison.costs, comparison.price
    is_stated = comparison.flops_per_second is not None and all(
        cost.flops is not None for cost in costs
    )
    columns = ("recipe", "training FLOPs", "GPU-hours" if is_stated else "hours (wall-clock)")
    shown = [
        (
            cost.arm,
            *map(_amount, (cost.flops, cost.gpu_hours, cost.money)[: 2 + (price is not None)]),
        )
        for cost in costs
        if any(v is not None for v in (cost.flops, cost.gpu_hours, cost.money))
    ]
    return Table(
        caption=f"Cost of one run at {name_size(comparison.target)}",
        columns=(*columns, *([f"cost, at {price:g} per hour"] if price is not None else [])),
        rows=tuple(shown),
    )


def _amount(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}".replace("e+", "e").replace("e-", "e−")


def _laws_table(comparison: Comparison) -> Table:
    rows = []
    for arm, law in ((arm, comparison.laws.get(arm)) for arm in comparison.arms):
        if law is None:
            rows.append((arm, "none", "–", "–"))
            continue
        values = ", ".join(
            f"{name}{NBSP}={NBSP}{format_value(value, math.sqrt(max(law.covariance[i][i], 0.0)))}"
            + (" held" if name in law.fixed else "")
            for i, (name, value) in enumerate(law.parameters.items())
        )
        rows.append((arm, LAWS[law.law].formula, values, ", ".join(law.flags) or "–"))
    return Table(
        caption="Fitted laws of the tuned loss",
        columns=("recipe", "law", "parameters ± standard error", "flags"),
        rows=tuple(rows),
        note="x0: geometric mean of the fitted sizes. Held: fixed in the fit of one recipe.",
    )


def _checks_table(found: GroupFindings) -> Table:
    """What was measured at the target beside its forecast."""
    words = {True: "held", False: "did not hold", None: "cannot tell"}
    comparison = found.comparison
    assert comparison is not None
    return Table(
        caption=f"Forecasts checked at {name_size(comparison.target)}",
        columns=("forecast", "recipe", "difference", "forecast of it", "pairs", "losses"),
        rows=tuple(
            (
                words[check.agrees],
                check.treated,
                _stacked(percent(check.difference, is_single=check.n_pairs <= 1)),
                _stacked(percent(check.forecast)),
                str(check.n_pairs),
                f"{format_value(check.loss)}\n{comparison.plain} {format_value(check.plain)}",
            )
            for check in found.checks
        ),
    )


def _expectations(findings: Sequence[GroupFindings]) -> list[Details]:
    """What was expected of each group, and what was found."""
    rows = tuple(
        (found.group.name, found.group.expected, " ".join(map(_sentence, treatments([found]))))
        for found in findings
        if found.group.expected
    )
    columns = ("group", "expected from the literature", "found")
    table = Table(caption="Expected and found", columns=columns, rows=rows)
    return [Details("Expected and found", (table,))] if rows else []


def found_sentence(found: GroupFindings) -> str:
    """What was found of a group before its target was trained, a sentence per recipe."""
    if found.comparison is None:
        return f"No comparison: {found.problem}"
    return " ".join(map(_sentence, treatments([replace(found, checks=())])))
