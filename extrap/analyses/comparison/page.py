"""Recipes compared over size: the page of a study, and the text of `extrap compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from extrap.analyses.comparison import Comparison, GroupFindings, SizeDifference
from extrap.analyses.comparison.charts import size_charts, targets_chart
from extrap.analyses.comparison.comparison_results import SIZE_MEAN
from extrap.analyses.comparison.effective_speed import EffectiveSpeed
from extrap.analyses.comparison.flags import MEANINGS
from extrap.analyses.comparison.gate import (
    BETTER_HERE,
    FADES,
    HURTS,
    NO_DIFFERENCE,
    SURVIVES,
    UNDECIDED,
    WORSE_HERE,
)
from extrap.analyses.comparison.next_runs import NextRuns
from extrap.analyses.comparison.treatments import Treatment, treatments
from extrap.records import Interval, Measure
from extrap.records.flags import Flag
from extrap.records.notes import USING, Note
from extrap.records.numbers import (
    NBSP,
    beside,
    format_given,
    format_level,
    format_p_value,
    format_percent,
    format_quantity,
    format_scientific,
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
from extrap.reporting.flags import Explanation, explain_flag
from extrap.reporting.study_page import About, measured, study_page
from extrap.reporting.tables import Colored, Table, tabulated

LIMITS = (
    "A verdict holds for the sizes that were run. A small difference of exponents can look like a "
    "shift, and a shift like a difference of exponents, unless the sizes are far apart.",
    "Each recipe is at its own best tuned values. What is fixed alike in all of them, such as the "
    "schedule, may suit one recipe better than another.",
    "Compute is counted as the runs record it; hardware may run one recipe faster than another.",
    "A lower loss does not guarantee better downstream results.",
)
CAPTION = "+: forecast. ×: measured at the target. Grey: sizes of the sweep."
"""Below the chart of differences over size."""
MOST_CHART_ROWS = 12
"""Treated recipes that one of two charts shows."""
MOST_SENTENCES = 2
"""Treated recipes that an answer gives a sentence each."""
MOST_OF_GAIN = 0.5
"""Share of a difference up to which its interval may be wide for a high confidence."""
FAR_TIMES_LARGEST = 4.0
"""Target over the largest measured size, from which the confidence is not high."""
VERDICT_STYLES = {
    SURVIVES: ("▼", "{} survives", "good"),
    HURTS: ("▲", "{} hurts", "bad"),
    FADES: ("■", "{} fades", "warn"),
    NO_DIFFERENCE: ("●", "{} makes no difference", "warn"),
    UNDECIDED: ("?", "Undecided whether {} survives", "warn"),
    BETTER_HERE: ("▼", "{} is better", "good"),
    WORSE_HERE: ("▲", "{} is worse", "bad"),
}
"""Verdict → its mark, its sentence, the color."""
VERDICT_VERBS = {
    SURVIVES: ("survives", "survive"),
    HURTS: ("hurts", "hurt"),
    FADES: ("fades", "fade"),
    NO_DIFFERENCE: ("makes no difference", "make no difference"),
    UNDECIDED: ("is undecided", "are undecided"),
    BETTER_HERE: ("is better here", "are better here"),
    WORSE_HERE: ("is worse here", "are worse here"),
}
"""Verdict → what one recipe with it does, and several."""


def comparison_page(findings: Sequence[GroupFindings], about: About) -> Page:
    """The page of a comparison study."""
    shown = treatments(findings)
    checked = [treatment for treatment in shown if treatment.check is not None]
    lost = [f"{finding.group.name}: {finding.problem}" for finding in findings if finding.problem]
    groups: list[Block] = [
        Details(finding.group.name, _group_blocks(finding, len(findings) > 1))
        for finding in findings
    ]
    runs = {
        spec.name: len(finding.runs[arm])
        for finding in findings
        for arm, spec in finding.group.arms.items()
        if arm in finding.runs
    }
    return study_page(
        "comparison",
        about,
        [
            *_visible(shown, _figures(findings, shown) if shown else ()),
            *([_checks_table(checked)] if checked else []),
            *(Paragraph(f"No comparison of {text}") for text in lost),
            *([Details("Groups of recipes", groups)] if len(groups) > 1 else groups),
        ],
        caveats=LIMITS,
        counts={"runs": sum(runs.values())},
    )


def own_comparison_page(comparison: Comparison, about: About) -> Page:
    """The page of `extrap compare`: what it prints, and the differences over size."""
    answer, *supporting = comparison_blocks(comparison)
    if all(contrast.is_of_one_size for contrast in comparison.contrasts):
        figures = [Figure(targets_chart(_treatments(comparison)))]
    else:
        figures = [Figure(chart) for chart in size_charts(comparison)[1:]]
    blocks = [answer, Columns(figures), *supporting]
    status = Colored(comparison.verdict, VERDICT_STYLES[comparison.verdict][2])
    return study_page("comparison", about, blocks, caveats=LIMITS, status=status)


def _treatments(comparison: Comparison) -> list[Treatment]:
    """The treated recipes of a comparison without a study."""
    return [Treatment(contrast=c, comparison=comparison) for c in comparison.contrasts]


def comparison_blocks(comparison: Comparison) -> list[Block]:
    """What `extrap compare` prints: the answer and the verdicts; closed, what they rest on."""
    shown = _treatments(comparison)
    details = Details(
        "Mean difference, costs and notes", [*_tables(comparison), *_notes(comparison)]
    )
    return [*_visible(shown), sizes_table(comparison), details]


def _visible(shown: Sequence[Treatment], figures: Sequence[Figure] = ()) -> list[Block]:
    """What is seen without opening anything."""
    verdicts = [verdicts_table(shown)] if len(shown) > 1 else []
    return [comparison_answer(shown), Columns(figures), _warnings(shown), *verdicts]


def _figures(findings: Sequence[GroupFindings], shown: Sequence[Treatment]) -> tuple[Figure, ...]:
    """Over size where there is one group of several sizes, else one row per treated recipe."""
    if len(findings) == 1 and len(shown[0].contrast.by_size) > 1:
        return tuple(
            map(Figure, size_charts(findings[0].comparison, findings[0].check), ("", CAPTION))
        )  # once for both
    half = len(shown) // 2 + 1 if len(shown) > MOST_CHART_ROWS else len(shown)
    parts = filter(None, (shown[:half], shown[half:]))
    return tuple(Figure(targets_chart(part, shown)) for part in parts)


def _group_blocks(finding: GroupFindings, has_charts: bool) -> list[Block]:
    """What a group rests on."""
    group, comparison = finding.group, finding.comparison
    expected = f"Expected: {group.expected}" if group.expected else ""
    head = [Paragraph(group.question), Paragraph(expected)]
    if comparison is None:
        return [*head]
    has_sizes = any(len(contrast.by_size) > 1 for contrast in comparison.contrasts)
    charts = size_charts(comparison, finding.check) if has_charts and has_sizes else ()
    read = [
        Paragraph(f"{arm}: {note}") for arm, runs in finding.runs.items() for note in runs.notes
    ]
    tables, notes = [sizes_table(comparison), *_tables(comparison)], _notes(comparison)
    return [*head, Columns([*map(Figure, charts)]), *tables, *notes, *read, _seal(finding)]


def _marked(verdict: str) -> Colored:
    """A verdict as a cell, after its mark."""
    mark, _, color = VERDICT_STYLES[verdict]
    return Colored(f"{mark}{NBSP}{verdict}", color)


def comparison_answer(shown: Sequence[Treatment]) -> Answer:
    """Whether each treated recipe is better, by how much, and how sure that is."""
    if not shown:
        return Answer(text="Cannot tell: the runs do not support a comparison.", color="bad")
    colors = {VERDICT_STYLES[treatment.verdict][2] for treatment in shown}
    text = " ".join(map(_sentence, shown)) if len(shown) <= MOST_SENTENCES else _counted(shown)
    order = ("low", "medium", "high")
    level, reason = min(map(_certainty, shown), key=lambda certainty: order.index(certainty[0]))
    return Answer(
        text=text,
        confidence=f"Confidence: {level}; {reason}.",
        color=colors.pop() if len(colors) == 1 else "warn",
    )


def _sentence(treatment: Treatment) -> str:
    """What becomes of a treated recipe, by how much, how much sooner, and what to do."""
    contrast, comparison, decisive = treatment.contrast, treatment.comparison, treatment.decisive
    if contrast.is_of_one_size and not treatment.is_checked:
        return f"{_at_one_size(treatment)} {_advice(treatment)}"
    text = VERDICT_STYLES[treatment.verdict][1].format(contrast.treated)
    if decisive.difference.value is not None:
        where = f" at {name_size(decisive.size)}" if decisive.size else ""
        level = format_level(comparison.level) + " together" * (len(comparison.contrasts) > 1)
        difference = beside(_percent(decisive.difference, f"{level}: "))
        basis = (
            "forecast" if decisive.is_forecast else SIZE_MEAN if decisive.is_mean else "measured"
        )
        text += f"{where}: {difference} in loss against {comparison.plain}, {basis}"
    first = contrast.by_size[0] if treatment.verdict == FADES else None
    before = f"it was {_short(first)} at {name_size(first.size)}" if first else ""
    text = "; ".join(filter(None, [text, before, _share(treatment)]))
    return " ".join(filter(None, [f"{text}.", _sooner(treatment), _advice(treatment)]))


def _at_one_size(treatment: Treatment) -> str:
    """What a treated recipe does at the only size, and how large the noise is there."""
    contrast, comparison, row = treatment.contrast, treatment.comparison, treatment.decisive
    name, verdict, level = contrast.treated, treatment.verdict, format_level(comparison.level)
    level += " together" * (len(comparison.contrasts) > 1)
    here = f"here ({name_size(row.size)})" if row.size else "here"
    text = f"{VERDICT_STYLES[verdict][1].format(name)} {here}"
    if verdict == UNDECIDED:
        text = f"Undecided whether {name} is better {here}"
        if "at_target" in contrast.refusals:
            text = f"Undecided whether {name} survives at {name_size(comparison.target)}"
    if verdict in (BETTER_HERE, WORSE_HERE):
        size = -row.difference if verdict == BETTER_HERE else row.difference
        text += f" by {beside(_percent(size, f'{level}: ')).lstrip('+')} of the loss of "
        text += comparison.plain
    elif row.difference.value is not None:
        text += f": {beside(_percent(row.difference, f'{level}: '))} in loss against "
        text += comparison.plain
        text += f" at {name_size(row.size)}" * ("at_target" in contrast.refusals)
    if contrast.noise is not None:
        assumed = "assumed " * row.is_by_law
        text += f", {assumed}noise {format_percent(contrast.noise, digits=2, signed=False)}"
    text += "; nothing is known of larger sizes"
    return "; ".join(filter(None, [text, _share(treatment)])) + "."


def _decisive_difference(treatment: Treatment) -> str:
    """The difference that counts, and where it was found."""
    decisive = treatment.decisive
    if decisive.difference.value is None:
        return "unknown"
    return f"{beside(_percent(decisive.difference))} in loss, {_basis_and_size(decisive)}"


def _basis_and_size(difference: SizeDifference) -> str:
    if difference.is_mean:
        return SIZE_MEAN
    basis = "forecast" if difference.is_forecast else "measured"
    return f"{basis} at {name_size(difference.size)}" if difference.size else basis


def _share(treatment: Treatment) -> str:
    """The share of the gap to the reference that it closes."""
    share = treatment.contrast.share
    return "" if share.value is None else f"it closes {beside(_percent(share))} of the gap"


def _sooner(treatment: Treatment) -> str:
    """The effective speed at the target."""
    ahead = [speed for speed in treatment.contrast.speeds if speed.is_forecast]
    if not ahead or ahead[0].factor.value is None:
        return ""
    factor = beside(measured(ahead[0].factor))
    return (
        f"Its effective speed there is {factor} times that of {treatment.comparison.plain}, by "
        f"{treatment.comparison.speed_column}."
    )


def _next_runs(runs: NextRuns) -> str:
    """The cheapest runs that would decide."""
    n = f"{runs.n_seeds} runs" if runs.n_seeds > 1 else "one run"
    text = f"Next: {n} of each recipe" + f" at {name_size(runs.size)}" * bool(runs.size)
    if runs.chance is None:
        return f"{text}: {runs.why}."
    if runs.cost is not None:
        share = f"{format_percent(runs.cost, digits=2, signed=False)} of"
        cost = f"{format_quantity(runs.cost, digits=2)} times" if runs.cost > 1.5 else share
        text += f", at {cost} the cost of one at the target,"
    chance = format_percent(runs.chance, digits=1, signed=False)
    return f"{text} would decide with a probability of {chance}."


def _counted(shown: Sequence[Treatment]) -> str:
    """How many treated recipes have which verdict, and the extremes."""
    verdicts = [treatment.verdict for treatment in shown]
    counts = ", ".join(
        f"{n} {VERDICT_VERBS[verdict][n > 1]}"
        for verdict in VERDICT_STYLES
        if (n := verdicts.count(verdict))
    )
    differences = [
        (treatment.decisive.difference.value, treatment)
        for treatment in shown
        if treatment.decisive.difference.value is not None
    ]
    text = f"Of {len(shown)} treated recipes: {counts}."
    for name, choose in (("Best", min), ("Worst", max)) if differences else ():
        extreme = choose(differences, key=lambda pair: pair[0])[1]
        text += f" {name}: {extreme.label}, {_decisive_difference(extreme)}."
    return text


def _certainty(treatment: Treatment) -> tuple[str, str]:
    """High, medium or low, and why."""
    contrast, decisive, name = treatment.contrast, treatment.decisive, treatment.label
    flags = [_explained(flag).meaning.rstrip(".") for flag in contrast.flags]
    about = f"{name}: {flags[0][0].lower()}{flags[0][1:]}" if flags else ""
    if treatment.holds is False:
        return "low", f"{name}: the forecast did not hold at {name_size(decisive.size)}"
    if treatment.verdict == UNDECIDED:
        return "low", about or f"{name}: the runs leave it open"
    if flags:
        return "medium", about
    if contrast.p_value is None:
        return "medium", f"{name}: one seed, so the scatter of runs is assumed"
    lower, upper = decisive.difference.ci
    if decisive.difference.value is None or lower is None or upper is None:
        return "medium", f"{name}: its interval is open"
    width, gain = upper - lower, abs(decisive.difference.value)
    if treatment.verdict != NO_DIFFERENCE and width > MOST_OF_GAIN * gain:
        wide, whole = (format_percent(x, digits=2, signed=False) for x in (width, gain))
        return "medium", f"{name}: its interval is {wide} wide, more than half of {whole}"
    if not decisive.is_forecast:
        return "high", f"{_basis_and_size(decisive)}, {_pairs(decisive)}"
    ratio = max(decisive.size[c] / contrast.by_size[-1].size[c] for c in decisive.size)
    text = f"forecast at {format_quantity(ratio)} times the largest measured size, no warnings"
    return ("high" if ratio <= FAR_TIMES_LARGEST else "medium"), text


def _explained(flag: str) -> Explanation:
    """A flag in words; one without an explanation speaks for itself."""
    explanation = explain_flag(flag, MEANINGS)
    return replace(explanation, meaning=flag) if explanation.name == flag else explanation


def _pairs(difference: SizeDifference) -> str:
    """How many pairs of seeds a measured difference rests on."""
    return (
        f"{difference.n_pairs} pair{'s' * (difference.n_pairs != 1)}"
        if difference.n_pairs
        else "unpaired"
    )


def _short(decisive: SizeDifference) -> str:
    """A difference with two digits, whole percents from ten on."""
    return format_percent(decisive.difference.value or 0.0, digits=2)


def _percent(measure: Measure, level: str = "") -> str:
    """A relative difference above its interval, `−3.4 %` and `95 %: −5.4 to −1.4 %`."""
    if measure.value is None:
        return "–"
    shown = measure.map(lambda share: 100 * share)
    number, _, interval = stacked(shown.value, shown.ci).partition("\n")
    sign = "+" * (measure.value > 0)
    return f"{sign}{number}{NBSP}%\n{level}{interval}{NBSP}%"


def verdicts_table(shown: Sequence[Treatment]) -> Table:
    """Every treated recipe: its verdict, its difference where it counts, what to do."""

    def loss(treatment: Treatment) -> str:
        decisive = treatment.decisive
        if decisive.difference.value is None:
            return "unknown"
        where = SIZE_MEAN if decisive.is_mean else name_size(decisive.size)
        basis = "forecast" if decisive.is_forecast else _pairs(decisive)
        return over(_percent(decisive.difference), ", ".join(filter(None, [where, basis])))

    plain = {treatment.comparison.plain for treatment in shown}
    against = plain.pop() if len(plain) == 1 else "the plain recipe"
    has_share = any(treatment.contrast.share.value is not None for treatment in shown)
    return tabulated(
        f"Treated recipes against {against} ({format_level(shown[0].comparison.level)} intervals)",
        shown,
        {
            "verdict": lambda row: _marked(row.verdict),
            "recipe": lambda row: over(row.contrast.treated, row.group),
            "loss": loss,
            **({"gap closed": lambda row: _percent(row.contrast.share)} if has_share else {}),
            "what to do": _advice,
        },
    )


def _advice(treatment: Treatment) -> str:
    """What to do, in a sentence."""
    contrast, verdict = treatment.contrast, treatment.verdict
    if treatment.holds is False:
        return "The forecast did not hold: use the measured difference, and none beyond it."
    if verdict in (UNDECIDED, BETTER_HERE) and contrast.next_runs:
        return _next_runs(contrast.next_runs)
    if verdict == UNDECIDED:
        why = contrast.refusals.get("at_target") or contrast.refusals.get("mean")
        return f"{why[0].upper()}{why[1:]}" if why else "Add seeds or sizes to both sweeps."
    speeds = [speed.factor.ci for speed in contrast.speeds if speed.is_forecast]
    if verdict == HURTS:
        if any(ends.lower is not None and ends.lower > 1 for ends in speeds):
            return "Choose by cost: its loss is higher at one size, but it gets there sooner."
        return "Do not use it."
    if verdict == WORSE_HERE:
        return "Leave it out, unless it is for larger sizes."
    if verdict == FADES:
        return "Use it up to the measured sizes at most."
    if verdict == NO_DIFFERENCE:
        return "Choose by cost."
    if any(ends.upper is not None and ends.upper < 1 for ends in speeds):
        return "Do not use it: the plain recipe reaches this loss sooner."
    return "Use it."


def _warnings(shown: Sequence[Treatment]) -> Warnings:
    """Flags, each once with the recipes it was raised for; their details are among the notes."""
    labels: dict[Explanation, list[str]] = {}
    for treatment in shown:
        for flag in treatment.contrast.flags:
            labels.setdefault(replace(_explained(flag), detail=""), []).append(treatment.label)
    return Warnings(
        tuple(
            replace(
                flag,
                detail=", ".join(names[:3]) + f" and {len(names) - 3} more" * (len(names) > 3),
            )
            for flag, names in labels.items()
        )
    )


def _notes(comparison: Comparison) -> list[Paragraph]:
    """What the flags say in detail, what is not given and why, what was left out or decided."""
    texts = [
        f"{contrast.treated}: {text}"
        for contrast in comparison.contrasts
        for text in [
            *(Flag(flag).detail for flag in contrast.flags),
            *contrast.refusals.values(),
        ]
        if text
    ]
    notes = [note for note in comparison.notes if Note(note).code != USING]
    return [Paragraph(text) for text in dict.fromkeys([*texts, *notes])]


def _seal(finding: GroupFindings) -> Paragraph:
    """When a forecast was sealed, and whether that was before the runs at the target."""
    if not finding.sealed or finding.check is None:
        return Paragraph("")
    late = f", after runs there began ({finding.began}): this is not a blind check"
    order = late if finding.sealed > finding.began else ", before any run there"
    text = f"Forecast for {name_size(finding.group.target_size)} sealed {finding.sealed}"
    return Paragraph(f"{text}{order if finding.began else ''}.")


def _tables(comparison: Comparison) -> list[Table]:
    """The numbers of a comparison: mean differences, exponents of the best values, costs."""
    column, costs = next(iter(comparison.columns), ""), comparison.costs
    where = f" at {name_size(comparison.target)}" if comparison.target else ""
    is_stated = comparison.flops_per_second is not None and all(c.flops is not None for c in costs)
    hours = "GPU-hours" if is_stated else "hours (wall-clock)"
    price = comparison.price
    return [
        tabulated(
            "Mean difference over the sizes",
            [c for c in comparison.contrasts if c.mean.value is not None and len(c.by_size) > 1],
            {
                "recipe": lambda c: c.treated,
                "mean difference": lambda c: _percent(c.mean),
                "p-value": lambda c: format_p_value(c.p_value),
            },
        ),
        tabulated(
            f"Exponents of the best values in {column}",
            [
                (tuned, arm, exponent)
                for tuned, arms in comparison.tuned_exponents.items()
                for arm, exponent in arms.items()
            ],
            {
                "recipe": lambda row: row[1],
                "tuned": lambda row: row[0],
                "exponent": lambda row: measured(row[2]),
            },
        ),
        tabulated(
            f"Cost of one run{where}",
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


def sizes_table(comparison: Comparison) -> Table:
    """Losses, differences and effective speeds by size and at the target."""
    speeds = {
        (contrast.treated, *speed.size.values(), speed.is_forecast): speed
        for contrast in comparison.contrasts
        for speed in contrast.speeds
    }

    def speed_of(row: tuple[str, SizeDifference]) -> EffectiveSpeed | None:
        return speeds.get((row[0], *row[1].size.values(), row[1].is_forecast))

    def factor(row: tuple[str, SizeDifference]) -> str:
        speed = speed_of(row)
        return "–" if speed is None else measured(speed.factor)

    return tabulated(
        "Tuned losses and their differences",
        [
            (contrast.treated, difference)
            for contrast in comparison.contrasts
            for difference in [*contrast.by_size, *filter(None, [contrast.at_target])]
        ],
        {
            "recipe": lambda row: row[0],
            "size": lambda row: name_size(row[1].size),
            "runs": lambda row: "forecast" if row[1].is_forecast else _pairs(row[1]),
            comparison.plain: lambda row: _loss(row[1].plain),
            "treated": lambda row: _loss(row[1].treated),
            "difference": lambda row: _percent(row[1].difference),
            **({"effective speed, ×": factor} if speeds else {}),
        },
    )


def _loss(measure: Measure) -> str:
    """A loss above its interval; alone where it has none."""
    if measure.value is not None and measure.ci == Interval():
        return format_given(rounded(measure.value, 6))
    return measured(measure)


def _amount(value: float | None) -> str:
    return "–" if value is None else format_scientific(value)


def _checks_table(shown: Sequence[Treatment]) -> Table:
    """What was measured at the targets beside its forecast."""
    outcomes = {True: "held", False: "did not hold", None: "cannot tell"}

    def losses(treatment: Treatment) -> str:
        assert treatment.check is not None
        decisive = treatment.check.decisive
        return over(
            measured(decisive.treated), f"{treatment.comparison.plain} {measured(decisive.plain)}"
        )

    return tabulated(
        f"Forecasts checked at {name_size(shown[0].comparison.target)}",
        shown,
        {
            "forecast": lambda row: outcomes[row.holds],
            "recipe": lambda row: over(row.contrast.treated, row.group),
            "measured": lambda row: _percent(row.decisive.difference),
            "forecast of it": lambda row: _percent(
                row.contrast.at_target.difference if row.contrast.at_target else Measure()
            ),
            "pairs": lambda row: _pairs(row.decisive),
            "loss": losses,
        },
    )
