"""Recipes compared over size: the page of a study, and the text of `extrap compare`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from extrap.comparing import Comparison, Contrast, SizeDifference
from extrap.comparing.findings import (
    GroupFindings,
    Treatment,
    checks_document,
    comparison_study_document,
    treatments,
)
from extrap.comparing.results import sign_of
from extrap.laws import LAWS
from extrap.records import ComparisonStudy, Fit, Interval, Measure
from extrap.records.numbers import (
    NBSP,
    TableCell,
    beside,
    format_given,
    format_level,
    format_p_value,
    format_percent,
    format_quantity,
    format_scientific,
    format_value,
    name_size,
    over,
    rounded,
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
from extrap.reporting.charts import Chart
from extrap.reporting.comparison_charts import compute_chart, size_charts, targets_chart
from extrap.reporting.glossary import Explanation, explain_flag
from extrap.reporting.study_page import About, measured, study_page
from extrap.reporting.tables import Table, tabulated

LIMITS = (
    "A verdict holds for the sizes that were run. A small difference of exponents can look like a "
    "shift, and a shift like a difference of exponents, unless the sizes are far apart.",
    "Each recipe is at its own best tuned values. What is fixed alike in all of them, such as the "
    "schedule, may suit one recipe better than another.",
    "Compute is counted as the runs record it; hardware may run one recipe faster than another.",
    "A lower loss does not guarantee better downstream results.",
)
CAPTION = "Open marks: forecast. ×: measured at the target. Grey: sizes of the sweep."
MOST_ROWS = 12
"""Treated recipes that one of two charts shows."""
MOST_SENTENCES = 2
"""Treated recipes that an answer gives a sentence each."""
FAR = 4.0
"""Target over the largest measured size, from which the confidence is not high."""
VERDICTS = {
    "better": ("▼", "{} is better than {}", "better", "on"),
    "worse": ("▲", "{} is worse than {}", "worse", "off"),
    "depends on size": (
        "■",
        "Whether {} is better than {} depends on size",
        "better or worse by size",
        "mixed",
    ),
    "differs": ("◆", "{} differs from {}, without a significant sign", "undecided", "mixed"),
    "not significant": (
        "●",
        "{} does not differ significantly from {}",
        "without a significant difference",
        "mixed",
    ),
    "cannot tell": ("?", "Whether {} differs from {} cannot be told", "not comparable", "none"),
}
"""Verdict → its mark, its sentence, what several are called, the kind of the answer."""


def comparison_page(
    study: ComparisonStudy,
    findings: Sequence[GroupFindings],
    about: About,
    *,
    sections: Sequence[Details] = (),
) -> Page:
    """The page of a comparison study; `sections` stand below its groups."""
    groups: list[Block] = [
        Details(f.group.name, _group_blocks(f, len(findings) > 1)) for f in findings
    ]
    if len(groups) > 1:
        groups = [Details("Groups of recipes", tuple(groups))]
    arms = {
        spec.name: len(each.runs[arm])
        for each in findings
        for arm, spec in each.group.arms.items()
        if arm in each.runs
    }
    document = comparison_study_document(study, findings)
    return study_page(
        "comparison",
        about,
        [*_visible(findings, has_figures=True), *groups, *sections, *_expectations(findings)],
        caveats=LIMITS,
        numbers={**document, "checks": checks_document(findings)},
        counts={"runs": sum(arms.values())},
    )


def comparison_blocks(found: Comparison) -> list[Block]:
    """What `extrap compare` prints: the answer, the verdicts, what they rest on, warnings."""
    shown = [Treatment(contrast=contrast, comparison=found) for contrast in found.contrasts]
    blocks: list[Block] = [comparison_answer(shown), verdicts_table(shown), *_tables(found)]
    return [*blocks, *_warnings(shown), *_notes(found)]


def _visible(findings: Sequence[GroupFindings], *, has_figures: bool = False) -> list[Block]:
    """What is seen without opening anything."""
    shown = treatments(findings)
    blocks: list[Block] = [comparison_answer(shown)]
    if has_figures and shown:
        blocks.append(Columns(_figures(findings, shown)))
    blocks += [*_warnings(shown), *([verdicts_table(shown)] if shown else [])]
    blocks += [_checks_table(found) for found in findings if found.checks]
    lost = [f"{found.group.name}: {found.problem}" for found in findings if found.problem]
    return [*blocks, *(Paragraph(f"No comparison of {text}") for text in lost)]


def _figures(findings: Sequence[GroupFindings], shown: Sequence[Treatment]) -> tuple[Figure, ...]:
    """Two figures: over size where there is one group, else one row per treated recipe."""
    if len(findings) == 1:
        texts = ("", CAPTION)  # once for both
        return tuple(map(Figure, size_charts(findings[0]), texts))
    half = len(shown) // 2 + 1
    charts: list[Chart | None] = [targets_chart(shown), compute_chart(shown)]
    if charts[1] is None and len(shown) > MOST_ROWS:
        charts = [targets_chart(part, shown) for part in (shown[:half], shown[half:])]
    return tuple(Figure(chart) for chart in charts if chart is not None)


def _group_blocks(found: GroupFindings, has_charts: bool) -> tuple[Block, ...]:
    """What a group rests on."""
    question = Paragraph(found.group.question)
    if found.comparison is None:
        return (question,)
    compute = compute_chart(treatments([found]))
    read = [Paragraph(f"{arm}: {note}") for arm, runs in found.runs.items() for note in runs.notes]
    return (
        question,
        *([Columns(tuple(map(Figure, size_charts(found))))] if has_charts else []),
        *([Figure(compute)] if compute is not None else []),
        *_tables(found.comparison),
        _laws_table(found.comparison),
        *_notes(found.comparison),
        *read,
        *_seals([found]),
    )


def comparison_answer(shown: Sequence[Treatment]) -> Answer:
    """Whether each treated recipe is better, by how much, and how sure that is."""
    if not shown:
        return Answer(text="Cannot tell: the runs do not support a comparison.", kind="none")
    kinds = {VERDICTS[each.verdict][3] for each in shown}
    text = " ".join(map(_sentence, shown)) if len(shown) <= MOST_SENTENCES else _counted(shown)
    order = ("low", "medium", "high")
    level, reason = min(map(_certainty, shown), key=lambda found: order.index(found[0]))
    return Answer(
        text=text,
        confidence=f"Confidence: {level}; {reason}.",
        kind=kinds.pop() if len(kinds) == 1 else "mixed",
    )


def _sentence(each: Treatment) -> str:
    """Whether a treated recipe is better, by how much, and how that depends on size."""
    text = VERDICTS[each.verdict][1].format(each.contrast.treated, each.comparison.plain)
    if each.decisive is not None:
        text += f": {_found(each, f'{format_level(each.comparison.level)}: ')}"
    return f"{'; '.join(filter(None, [text, _by_size(each)]))}."


def _found(each: Treatment, level: str = "") -> str:
    """The difference that counts, and where it was found."""
    place = each.decisive
    if each.check is None and each.contrast.has_mean_only:
        mean = beside(_percent(each.contrast.mean_difference, level))
        return f"{mean} in loss, the mean over the sizes"
    if place is None:
        return "unknown"
    how = "forecast" if place.is_forecast else "measured"
    return f"{beside(_difference(place, level))} in loss at {name_size(place.size)}, {how}"


def _by_size(each: Treatment) -> str:
    """How the difference depends on size."""
    contrast = each.contrast
    for pair in contrast.sign_changes[:1]:
        return "measured " + ", ".join(f"{_short(p)} at {name_size(p.size)}" for p in pair)
    if contrast.has_misfit:
        return "the laws do not fit"
    if contrast.verdict == "shift":
        return "the law is shifted, the exponents do not differ significantly"
    if contrast.verdict != "exponent" or not contrast.by_size:
        return ""
    how, first = "gains" if _gains(each) else "loses", contrast.by_size[0]
    return f"it {how} with size ({_short(first)} at {name_size(first.size)})"


def _gains(each: Treatment) -> bool:
    """Whether the difference falls from the smallest size to where it counts."""
    places = [*each.contrast.by_size[:1], *filter(None, [each.decisive])]
    values = [place.difference.value or 0.0 for place in places]
    return bool(values) and values[-1] < values[0]


def _counted(shown: Sequence[Treatment]) -> str:
    """How many treated recipes have which verdict, and the extremes."""
    verdicts = [each.verdict for each in shown]
    counts = ", ".join(
        f"{verdicts.count(verdict)} {words}"
        for verdict, (_, _, words, _) in VERDICTS.items()
        if verdict in verdicts
    )
    known = [(p.difference.value or 0.0, e) for e in shown if (p := e.decisive) is not None]
    text = f"Of {len(shown)} treated recipes: {counts}."
    for name, choose in (("Best", min), ("Worst", max)) if known else ():
        each = choose(known, key=lambda pair: pair[0])[1]
        text += f" {name}: {each.label}, {_found(each)}."
    return text


def _certainty(each: Treatment) -> tuple[str, str]:
    """High, medium or low, and why."""
    contrast, place, name = each.contrast, each.decisive, each.label
    flags = [_explained(flag).meaning.rstrip(".") for flag in contrast.flags]
    about = f"{name}: {flags[0][0].lower()}{flags[0][1:]}" if flags else ""
    where = name_size(each.comparison.target)
    if each.check is not None and each.check.agrees is False:
        return "low", f"{name}: the forecast did not hold at {where}"
    if contrast.verdict == "unknown" or place is None or None in tuple(place.difference.ci):
        why = "the runs do not bound the difference"
        if place is not None and contrast.p_adjusted is not None and sign_of(place.difference):
            p_value = format_p_value(contrast.p_adjusted)
            why = f"an interval excludes 0, the test of both laws does not (p {p_value})"
        return "low", about or f"{name}: {why}"
    if flags:
        return "low" if contrast.has_misfit else "medium", about
    if not place.is_forecast:
        return "high", f"measured at {where} with {_pairs(place)}"
    largest = contrast.by_size[-1].size if contrast.by_size else place.size
    ratio = max(place.size[c] / largest[c] for c in largest)
    text = f"forecast at {format_quantity(ratio)} times the largest measured size, no warnings"
    return ("high" if ratio <= FAR else "medium"), text


def _explained(flag: str) -> Explanation:
    """A flag in words; one without an explanation speaks for itself."""
    found = explain_flag(flag, of="comparison")
    return replace(found, meaning=flag) if found.name == flag else found


def _pairs(place: SizeDifference) -> str:
    """How many pairs of seeds a measured difference rests on."""
    return f"{place.n_pairs} pair{'s' * (place.n_pairs != 1)}"


def _short(place: SizeDifference) -> str:
    """A difference with two digits, whole percents from ten on."""
    return format_percent(place.difference.value or 0.0, digits=2)


def _difference(place: SizeDifference, level: str = "") -> TableCell:
    """A difference at one size; see `_percent`."""
    is_single = not place.is_forecast and place.n_pairs <= 1
    return _percent(place.difference, level, "one seed: no interval" if is_single else "")


def _percent(measure: Measure, level: str = "", why: str = "") -> TableCell:
    """A relative difference above its interval, `−3.4 %` and `95 %: −5.4 to −1.4 %`."""
    shown = measure.map(lambda share: 100 * share)
    number, _, interval = stacked(shown.value, shown.ci).partition("\n")
    if measure.value is None:
        text = number if measure.ci == Interval() else f"{number}{NBSP}%"
        return TableCell(text, sides=measure.ci)
    sign = "+" * (measure.value > 0)
    if measure.ci == Interval():
        interval = why or "interval unknown"
    else:
        interval = f"{level}{interval}{NBSP}%"
    return TableCell(f"{sign}{number}{NBSP}%\n{interval}", measure.value, sides=measure.ci)


def verdicts_table(shown: Sequence[Treatment]) -> Table:
    """Every treated recipe: its verdict, its difference where it counts, what to do."""

    def loss(each: Treatment) -> str:
        place = each.decisive
        if each.check is None and each.contrast.has_mean_only:
            return over(_percent(each.contrast.mean_difference), "the mean over the sizes")
        if place is None:
            return "unknown"
        how = "forecast" if place.is_forecast else _pairs(place)
        return over(_difference(place), f"{name_size(place.size)}, {how}")

    plain = {each.comparison.plain for each in shown}
    against = plain.pop() if len(plain) == 1 else "the plain recipe"
    return tabulated(
        f"Treated recipes against {against} ({format_level(shown[0].comparison.level)} intervals)",
        shown,
        {
            "verdict": lambda each: f"{VERDICTS[each.verdict][0]}{NBSP}{each.verdict}",
            "recipe": lambda each: over(each.contrast.treated, each.group),
            "loss": loss,
            "what to do": _advice,
        },
    )


def _advice(each: Treatment) -> str:
    """What to do, in a sentence."""
    contrast, verdict = each.contrast, each.verdict
    if each.check is not None and each.check.agrees is False:
        return "The forecast did not hold: use the measured difference, and none beyond it."
    if len(contrast.sign_changes) == 1:
        before, after = contrast.sign_changes[0]
        if (after.difference.value or 0.0) < 0:
            return f"Use it from {name_size(after.size)} on."
        return f"Use it up to {name_size(before.size)}."
    if verdict == "depends on size":
        return "Choose by size."
    if verdict == "not significant":
        return "Choose by cost; add seeds if the interval is too wide."
    if verdict not in ("better", "worse"):
        at = contrast.by_size[-1].size if contrast.by_size else each.comparison.target
        column, twice = next((name, format_quantity(2 * value)) for name, value in at.items())
        return f"Add seeds, and {column} {twice} to both sweeps."
    if contrast.has_misfit:
        return "Use the measured differences by size; forecast nothing from these laws."
    if verdict == "worse":
        is_rising = contrast.verdict == "exponent" and _gains(each)
        return "Train a larger size before you drop it." if is_rising else "Do not use it."
    saved = contrast.effective_compute[-1].factor.ci if contrast.effective_compute else Interval()
    if saved.upper is not None and saved.upper < 1:
        return "Do not use it: the plain recipe reaches this loss with less compute."
    is_falling = contrast.verdict == "exponent" and not _gains(each)
    return "Use it up to this size: it loses with size." if is_falling else "Use it."


def _warnings(shown: Sequence[Treatment]) -> list[Warnings]:
    """Flags, each once with the recipes it was raised for; their details are among the notes."""
    found: dict[str, tuple[Explanation, list[str]]] = {}
    for each in shown:
        for flag in each.contrast.flags:
            new = _explained(flag)
            found.setdefault(new.name, (new, []))[1].append(each.label)
    items = [
        replace(
            new, detail=", ".join(names[:3]) + f" and {len(names) - 3} more" * (len(names) > 3)
        )
        for new, names in found.values()
    ]
    return [Warnings(tuple(items))] if items else []


def _notes(comparison: Comparison) -> list[Paragraph]:
    """What the flags say in detail, and what was left out or decided."""
    flags = [(c.treated, f.partition(": ")[2]) for c in comparison.contrasts for f in c.flags]
    details = [f"{arm}: {detail}" for arm, detail in flags if detail]
    return [Paragraph(text) for text in dict.fromkeys([*details, *comparison.notes])]


def _seals(findings: Sequence[GroupFindings]) -> list[Paragraph]:
    """When forecasts were sealed, and whether that was before the runs at the target."""
    found = []
    for each in findings:
        if each.sealed and each.checks:
            late = f", after runs there began ({each.began}): this is not a blind check"
            order = late if each.sealed > each.began else ", before any run there"
            text = f"Forecast for {name_size(each.group.target)} sealed {each.sealed}"
            found.append(Paragraph(f"{text}{order if each.began else ''}."))
    return found


def _tables(comparison: Comparison) -> list[Table]:
    """The numbers of a comparison: by size, exponents and crossings, worth, costs."""
    plain, column, costs = comparison.plain, comparison.columns[0], comparison.costs
    places = [
        (contrast.treated, place)
        for contrast in comparison.contrasts
        for place in [*contrast.by_size, *filter(None, [contrast.at_target])]
    ]
    worth = {
        (contrast.treated, name_size(each.size)): each
        for contrast in comparison.contrasts
        for each in contrast.effective_compute
    }
    level = next((f" ({format_level(w.level)} intervals)" for w in worth.values()), "")
    is_stated = comparison.flops_per_second is not None and all(c.flops is not None for c in costs)
    hours = "GPU-hours" if is_stated else "hours (wall-clock)"
    price = comparison.price
    found = [
        tabulated(
            "Tuned losses and their differences",
            places,
            {
                "recipe": lambda row: row[0],
                "size": lambda row: name_size(row[1].size),
                "pairs": lambda row: "forecast" if row[1].is_forecast else str(row[1].n_pairs),
                plain: lambda row: measured(row[1].plain),
                "treated": lambda row: measured(row[1].treated),
                "difference": lambda row: _difference(row[1]),
            },
        ),
        tabulated(
            "Laws: exponents, crossings, p-values of one law for both recipes",
            comparison.contrasts,
            {
                "recipe": lambda c: c.treated,
                "p-value (Holm)": _p_values,
                "mean difference": lambda c: _percent(c.mean_difference),
                f"exponent in {column}": lambda c: _known(c.exponents.get(c.treated)),
                f"exponent, {plain}": lambda c: _known(c.exponents.get(plain)),
                "difference": lambda c: measured(c.exponent_difference),
                f"crossing, {column}": _crossing,
            },
        ),
        tabulated(
            f"What {plain} needs for the same loss, over the treated recipe{level}",
            worth.items(),
            {
                "recipe": lambda row: row[0][0],
                "size": lambda row: row[0][1],
                "compute, ×": lambda row: measured(row[1].factor),
                f"{column}, ×": lambda row: measured(row[1].size_factor),
            },
        ),
        tabulated(
            f"Cost of one run at {name_size(comparison.target)}",
            [c for c in costs if any(v is not None for v in (c.flops, c.gpu_hours, c.money))],
            {
                "recipe": lambda cost: cost.arm,
                "training FLOPs": lambda cost: _amount(cost.flops),
                hours: lambda cost: _amount(cost.gpu_hours),
                **(
                    {f"cost, at {format_given(price)} per hour": lambda cost: _amount(cost.money)}
                    if price is not None
                    else {}
                ),
            },
        ),
    ]
    return [table for table in found if table.rows]


def _p_values(contrast: Contrast) -> str:
    """The p-value, and what it is after Holm's correction for the number of recipes."""
    own, adjusted = map(format_p_value, (contrast.p_value, contrast.p_adjusted))
    return own if adjusted in ("–", own) else over(own, adjusted)


def _known(measure: Measure | None) -> str:
    return "–" if measure is None else measured(measure)


def _crossing(contrast: Contrast) -> str:
    """Where the laws cross, and where the measured difference changes its sign."""
    crossing, lines = contrast.crossover, list[str]()
    if crossing.size.value is not None:
        lines += [measured(crossing.size.map(lambda size: rounded(size, 3)))]
        lines += [f"{'within' if crossing.is_inside else 'outside'} the measured sizes"]
        lines += [f"{crossing.better_below} better below"] * bool(crossing.better_below)
    lines += [
        f"sign changes between {name_size(a.size)} and {name_size(b.size)}"
        for a, b in contrast.sign_changes
    ]
    return over(*(lines or ["none"]))


def _amount(value: float | None) -> str:
    return "–" if value is None else format_scientific(value)


def _laws_table(comparison: Comparison) -> Table:
    def parameters(law: Fit) -> str:
        errors = [math.sqrt(max(row[i], 0.0)) for i, row in enumerate(law.covariance)]
        return ", ".join(
            f"{name}{NBSP}={NBSP}{format_value(value, se)}" + " held" * (name in law.fixed)
            for (name, value), se in zip(law.parameters.items(), errors, strict=True)
        )

    return tabulated(
        "Fitted laws of the tuned loss",
        [(arm, comparison.laws.get(arm)) for arm in comparison.arms],
        {
            "recipe": lambda row: row[0],
            "law": lambda row: "none" if row[1] is None else LAWS[row[1].law].formula,
            "parameters ± standard error": lambda row: (
                "–" if row[1] is None else parameters(row[1])
            ),
            "flags": lambda row: "–" if row[1] is None else ", ".join(row[1].flags) or "–",
        },
        note="x0: geometric mean of the fitted sizes. Held: fixed in the fit of one recipe.",
    )


def _checks_table(found: GroupFindings) -> Table:
    """What was measured at the target beside its forecast."""
    words = {True: "held", False: "did not hold", None: "cannot tell"}
    assert found.comparison is not None
    plain, single = found.comparison.plain, "one seed: no interval"
    return tabulated(
        f"Forecasts checked at {name_size(found.comparison.target)}",
        found.checks,
        {
            "forecast": lambda check: words[check.agrees],
            "recipe": lambda check: check.treated,
            "measured": lambda c: _percent(c.difference, "", single * (c.n_pairs == 1)),
            "forecast of it": lambda check: _percent(check.forecast),
            "pairs": lambda check: str(check.n_pairs),
            "loss": lambda check: format_value(check.loss),
            f"loss of {plain}": lambda check: format_value(check.plain),
        },
    )


def _expectations(findings: Sequence[GroupFindings]) -> list[Details]:
    """What was expected of each group, and what was found."""
    columns: dict[str, Any] = {
        "group": lambda found: found.group.name,
        "expected from the literature": lambda found: found.group.expected,
        "found": lambda found: " ".join(map(_sentence, treatments([found]))) or found.problem,
    }
    table = tabulated("Expected and found", (f for f in findings if f.group.expected), columns)
    return [Details("Expected and found", (table,))] if table.rows else []
