"""Critical batch sizes: what `extrap critical-batch` prints, and the page of a batch study."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from extrap.analyses.batch_size import (
    FLAGS,
    Agreement,
    BatchGroup,
    BatchLaw,
    BatchPrediction,
    CriticalBatches,
    SizeForecast,
    TaskResult,
    agreement,
    growth,
)
from extrap.analyses.batch_size.charts import (
    Tasks,
    label,
    noise_figures,
    of_tasks,
    pairs_figure,
    rate_figures,
    steps_figures,
)
from extrap.analyses.batch_size.flags import MEANINGS
from extrap.analyses.batch_size.measurements import TARGETS
from extrap.analyses.sweep.flags import MEANINGS as LAW_MEANINGS
from extrap.records import Interval, Measure
from extrap.records.intervals import NOWHERE
from extrap.records.notes import USING, Note
from extrap.records.numbers import (
    NBSP,
    beside,
    format_decimals,
    format_factor,
    format_interval,
    format_level,
    format_percent,
    format_quantity,
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
from extrap.reporting.flags import confidence, explain_flag
from extrap.reporting.study_page import About, study_page
from extrap.reporting.tables import Table, tabulated

Fits = Sequence[tuple[str, CriticalBatches]]
"""Tasks with their critical batches; the name of a task is empty where there is but one."""
LIMITS = (
    "Learning rates are constant and tuned at every batch size; schedule, momentum and weight "
    "decay are not tuned with them and can change the critical batch.",
    "The noise scale assumes plain SGD and a Hessian like the identity, and it is measured at one "
    "batch size. It often differs from the critical batch by several times.",
    "Costs are steps and examples. Where memory or bandwidth limits a step, fewer steps may not "
    "take less time.",
    "Intervals come from few seeds. They do not cover another data set, model or optimiser.",
)
MOSTLY = 0.9
"""Share of pairs within the factor from which the noise scale counts as a prediction."""
LEAST_PAIRS, LEAST_DECADES = 10, 2.0
"""Pairs, and decades of the noise scale, from which the confidence is high."""
MOST_NOTES = 12
"""Notes that the page lists; it counts further ones."""
LAW_NAMES = {
    "b_crit": "critical batch",
    "b_overhead": "batch at the overhead",
    "s_min": "fewest steps",
    "lr": "best learning rate",
}
"""Key of a law → its name on the page."""
GRAVE = ("perfect-only", "flat-only", "lack-of-fit", "steps-rise")
"""Flags that make the confidence low."""
WIDE_INTERVAL_RATIO = 3.0
"""Ratio of the ends of an interval above which each number has two digits, and the confidence is
medium."""
FAR_EXTRAPOLATION_RATIO = 4.0
"""Extrapolation ratio above which the confidence of a forecast is low."""
MOST_PLACES = 3
"""Groups and laws that a warning lists; it counts further ones."""


def batch_estimate(measure: Measure | BatchPrediction, level: float | None = None) -> str:
    """An estimate with its interval, rounded: `410 (350 to 480)`; of a forecast `pi`."""
    return beside(batch_cell(measure), level)


def _rounded(value: float, interval: Interval) -> str:
    """To the digit that the width of a narrow interval decides, else to two digits."""
    lower, upper = interval
    if lower and upper and lower < upper < WIDE_INTERVAL_RATIO * lower:
        return format_quantity(round(value, 1 - math.floor(math.log10(upper - lower))))
    return format_quantity(value, digits=2)


def batch_cell(measure: Measure | BatchPrediction) -> str:
    """The same for a table: the interval below the value."""
    sides = measure.pi if isinstance(measure, BatchPrediction) else measure.ci
    interval_text = format_interval(sides, lambda side: _rounded(side, sides))
    if measure.value is None:
        return interval_text
    return over(
        _rounded(measure.value, sides), "interval open" if sides == NOWHERE else interval_text
    )


def exponent_text(exponent: Measure) -> str:
    """An exponent with its interval: `0.45 (0.38 to 0.52)`."""
    lower, upper = exponent.ci
    if lower is None or upper is None:
        return format_decimals(exponent.value, 2)
    write = partial(format_decimals, decimals=3 if upper - lower < 0.02 else 2)
    return beside(stacked(exponent.value, exponent.ci, write))


def _sort_key(group: BatchGroup) -> tuple[list[float], list[float]]:
    """Orders groups by their sizes, then by how low the target is."""
    numbers = {name: float(v) for name, v in group.by.items() if not isinstance(v, str)}
    sizes = [v for name, v in numbers.items() if name not in TARGETS]
    return sizes, [-v for name, v in numbers.items() if name in TARGETS]


def critical_answer(critical: CriticalBatches, forecasts: Sequence[SizeForecast] = ()) -> Answer:
    """The critical and the largest useful batch of the leading group, or the forecasts."""
    with_value = [group for group in critical.groups if group.b_crit.value is not None]
    group = max(with_value or critical.groups, key=_sort_key)
    where = f"At {label(group.by)} the" if group.by else "The"
    if not with_value:
        return Answer(
            text=f"{where} critical batch is {batch_estimate(group.b_crit)}: no estimate is "
            "possible.",
            confidence="Confidence: low; the measurements do not bound it on both sides.",
            color="bad",
        )
    overhead = format_level(critical.overhead)
    texts = [
        f"At {label(forecast.by)} expect a critical batch of "
        f"{batch_estimate(forecast.b_crit, critical.level)}; examples stay within "
        f"{overhead} of linear scaling up to {batch_estimate(forecast.b_overhead)}."
        for forecast in forecasts
    ]
    useful: str = batch_estimate(group.maximal_start)
    if (group.maximal_start.value or 0.0) > group.batches[-1]:
        useful = f"{useful.removesuffix(')')}, beyond the batches measured)"
    texts = texts or [
        f"{where} critical batch is {batch_estimate(group.b_crit, critical.level)} and the "
        f"largest useful batch {useful}: from there a doubling saves less than 10{NBSP}% of the "
        f"steps. Examples stay within {overhead} of linear scaling from "
        f"{_four(group.from_batch)} up to a batch of {batch_estimate(group.b_overhead)}."
    ]
    color = "" if forecasts else "good"
    return Answer(
        text=" ".join(texts), confidence=_confidence(critical, group, forecasts), color=color
    )


def _confidence(
    critical: CriticalBatches, group: BatchGroup, forecasts: Sequence[SizeForecast]
) -> str:
    if forecasts and not critical.laws["b_crit"].dof:
        return "Confidence: low; there are as many groups as parameters of the law."
    ratio = max((forecast.extrapolation_ratio for forecast in forecasts), default=1.0)
    if ratio > FAR_EXTRAPOLATION_RATIO:
        times = format_quantity(ratio, digits=3)
        return f"Confidence: low; this is {times} times the largest value measured."
    lower, upper = group.b_crit.ci
    certain = f"high; no warnings, {len(group.batches)} batch sizes reached the target."
    if not lower or not upper or upper > WIDE_INTERVAL_RATIO * lower:
        certain = "medium; the interval of the critical batch is wide."
    return confidence(group.flags, MEANINGS, grave=GRAVE, otherwise=f"Confidence: {certain}")


def critical_table(fits: Fits) -> Table:
    """Critical batches, the limits of steps and examples, and how well they are measured."""
    return tabulated(
        f"Critical batch sizes ({format_level(fits[0][1].level)} intervals)",
        [(task, group) for task, critical in fits for group in critical.groups],
        {
            "where": lambda row: label(row[1].by, row[0]) or "all rows",
            "critical batch": lambda row: batch_cell(row[1].b_crit),
            "fewest steps": lambda row: batch_cell(row[1].s_min),
            "fewest examples": lambda row: batch_cell(row[1].e_min),
            "batches": lambda row: " to ".join(_four(row[1].points[i].batch) for i in (0, -1)),
            "sd of ln steps": lambda row: format_decimals(row[1].log_sd, 3),
            "warnings": lambda row: ", ".join(row[1].flags) or "–",
        },
        note="Steps = fewest steps · (1 + critical batch / batch). Scaling is perfect up to a "
        f"batch of 0.2 times the critical one (examples within 20{NBSP}% of the fewest); a batch "
        f"above 4 times the critical one is too large (a doubling saves less than 10{NBSP}% of "
        "the steps); returns diminish in between.",
    )


def laws_table(laws: Iterable[tuple[str, BatchLaw]]) -> Table:
    """Power laws over the columns that set fits apart."""
    laws = list(laws)
    is_open = any(law.dof < 1 for _, law in laws)
    return tabulated(
        "Power laws",
        laws,
        {
            "law of": lambda row: LAW_NAMES[row[1].of] + (f" ({row[0]})" if row[0] else ""),
            "goes as": lambda row: " · ".join(
                f"{c}^{exponent_text(p)}" for c, p in row[1].exponents.items()
            ),
            "value": lambda row: over(
                batch_estimate(row[1].value), f"at {label(_reference(row[1]))}"
            ),
            "scatter": lambda row: format_percent(row[1].log_sd, signed=False),
            "fits": lambda row: str(row[1].n_groups),
            "warnings": lambda row: ", ".join(row[1].flags) or "–",
        },
        note="As many fits as parameters: no intervals; add a group." if is_open else "",
    )


def _reference(law: BatchLaw) -> dict[str, str | float]:
    return {column: rounded(x, 3) for column, x in law.reference.items()}


def flag_warnings(fits: Fits, laws: Iterable[tuple[str, BatchLaw]] = ()) -> Warnings:
    """Each flag that a group or a law of the best rate carries, with where."""
    places = [
        (label(g.by, task), MEANINGS, g.flags) for task, critical in fits for g in critical.groups
    ]
    places += [(task or "learning rate", LAW_MEANINGS, law.flags) for task, law in laws]
    items = []
    for flag in dict.fromkeys([*FLAGS, *(flag for *_, flags in places for flag in flags)]):
        if seen := [(where, meanings) for where, meanings, flags in places if flag in flags]:
            more = f" and {len(seen) - MOST_PLACES} more" if len(seen) > MOST_PLACES else ""
            where = "; ".join(where for where, _ in seen[:MOST_PLACES]) + more
            items.append(replace(explain_flag(flag, seen[0][1]), detail=where))
    return Warnings(tuple(items))


def critical_blocks(
    critical: CriticalBatches, forecasts: Sequence[SizeForecast] = ()
) -> list[Block]:
    """What `extrap critical-batch` prints."""
    fits, overhead = [("", critical)], format_level(critical.overhead)
    table = tabulated(
        f"Forecasts ({format_level(critical.level)} prediction intervals)",
        forecasts,
        {
            "where": lambda forecast: label(forecast.by),
            "critical batch": lambda forecast: batch_cell(forecast.b_crit),
            f"{overhead} overhead at": lambda forecast: batch_cell(forecast.b_overhead),
            "fewest steps": lambda forecast: batch_cell(forecast.s_min),
            "extrapolation ratio": lambda forecast: format_factor(forecast.extrapolation_ratio),
        },
    )
    laws: Block = laws_table(("", law) for law in critical.laws.values())
    if not critical.laws and len(critical.groups) > 1:
        laws = Paragraph(f"No law over groups: {critical.reason}.")
    notes = (Paragraph(f"Note: {note}.") for note in critical.notes if Note(note).code != USING)
    behind = Details("Laws over groups", [laws, *notes])
    answer = critical_answer(critical, forecasts)
    return [answer, flag_warnings(fits), table, critical_table(fits), behind]


def _four(value: float) -> str:
    return format_quantity(value, digits=4)


def batches_page(findings: Sequence[TaskResult], about: About) -> Page:
    """The page as blocks: answer, two figures, warnings, the main table; the rest is closed."""
    tasks, agreed = tasks_of(findings), agreement_of(findings)
    fits = [(task, task_result.critical) for task, task_result in tasks]
    rates = [
        (task, task_result.rate_law)
        for task, task_result in tasks
        if task_result.rate_law is not None
    ]
    laws = [
        (task, law) for task, task_result in tasks for law in task_result.critical.laws.values()
    ]
    reasons = [f"No law{f' for {t}' if t else ''}: {c.reason}." for t, c in fits if c.reason]
    steps, trade_offs = steps_figures(tasks), steps_figures(tasks, is_trade_off=True)
    noise, pairs = noise_figures(tasks), pairs_figure(tasks)
    is_noise = len(tasks) > 1 and agreed is not None
    above = [*pairs, *noise[:1]] if is_noise else [*steps[-1:], *trade_offs[-1:]]
    main, other = critical_table(fits), _pairs_table(tasks)

    def part(title: str, figures: Sequence[Figure], *blocks: Block) -> Details:
        """A closed part, without the figures above."""
        return Details(title, [Columns([f for f in figures if f not in above]), *blocks])

    blocks: list[Block] = [
        batches_answer(findings),
        Columns(above),
        flag_warnings(fits, rates),
        *((other, main) if is_noise else (main,)),
        laws_table([*laws, *rates]),
        part("Steps against batch size", steps, *map(Paragraph, reasons)),
        part("Steps against examples", trade_offs),
        part("Best learning rate", rate_figures(tasks)),
        part(
            "Gradient noise scale",
            [*noise, *pairs],
            _growth_table(tasks),
            *(() if is_noise else (other,)),
            Paragraph("" if agreed is None else _agreement_words(agreed)),
        ),
        part("Notes", (), *map(Paragraph, _notes(tasks))),
    ]
    return study_page("batches", about, blocks, caveats=LIMITS)


def tasks_of(findings: Sequence[TaskResult]) -> Tasks:
    """The findings with the names of their tasks, empty where there is but one."""
    several = len(findings) > 1
    return [
        (task_result.task.study.name if several else "", task_result) for task_result in findings
    ]


def agreement_of(findings: Sequence[TaskResult]) -> Agreement | None:
    """Mean noise scales against critical batches over all tasks, sizes and targets."""
    tables = [f.noise.assign(task=f.task.study.name) for f in findings if not f.noise.empty]
    level = findings[0].critical.level
    return agreement(pd.concat(tables, ignore_index=True), level=level) if tables else None


def batches_answer(findings: Sequence[TaskResult]) -> Answer:
    """How large a batch is useful, and at which rate; of several tasks whether noise tells it."""
    agreed, first = agreement_of(findings), findings[0]
    if len(findings) > 1 and agreed is not None:
        return _agreement_answer(tasks_of(findings), agreed)
    if len(findings) > 1 and (extremes := _extremes_answer(tasks_of(findings))) is not None:
        return extremes
    answer, law = critical_answer(first.critical), first.rate_law
    if law is None or "batch_size" not in law.exponents:
        return answer
    rate = f" The best learning rate goes as batch^{exponent_text(law.exponents['batch_size'])}."
    return replace(answer, text=answer.text + rate)


def _extremes_answer(tasks: Tasks) -> Answer | None:
    """The tasks with the smallest and the largest critical batch, at one size and target."""
    groups: dict[tuple[tuple[str, Any], ...], list[tuple[str, BatchGroup]]] = {}
    for task, finding in tasks:
        for group in finding.critical.groups:
            if group.b_crit.value is not None:
                groups.setdefault(tuple(group.by.items()), []).append((task, group))
    shared = [of_tasks for of_tasks in groups.values() if len(of_tasks) == len(tasks)]
    if not shared:
        return None
    leading = max(shared, key=lambda of_tasks: _sort_key(of_tasks[0][1]))
    ordered = sorted(leading, key=lambda of_task: of_task[1].b_crit.value or 0.0)
    level, (first, *_, last) = tasks[0][1].critical.level, ordered
    smallest, largest = (
        f"{batch_estimate(group.b_crit, level)} for {task}" for task, group in (first, last)
    )
    flags = [flag for _, group in (first, last) for flag in group.flags]
    return Answer(
        text=f"At {label(first[1].by)} the critical batch is smallest, {smallest}, and largest, "
        f"{largest}, of {len(ordered)} tasks.",
        confidence=confidence(flags, MEANINGS, grave=GRAVE, otherwise="Confidence: high."),
        color="good",
    )


def _agreement_words(agreed: Agreement) -> str:
    square = "unknown" if agreed.r_squared is None else format_decimals(agreed.r_squared, 2)
    worst, ratio = format_quantity(agreed.largest_factor, digits=2), batch_estimate(agreed.ratio)
    return (
        f"{agreed.n_within} of {agreed.n_pairs} pairs agree within a factor of 10 (the worst "
        f"differ by {worst}), and the critical batch is {ratio} times the noise scale on average; "
        f"r² of the logarithms is {square}."
    )


def _agreement_answer(tasks: Tasks, agreed: Agreement) -> Answer:
    predicts = agreed.n_within >= MOSTLY * agreed.n_pairs
    groups = [(g.b_crit, label(g.by, task)) for task, f in tasks for g in f.critical.groups]
    estimates = [
        (batch.value, f"{batch_estimate(batch)} for {where}")
        for batch, where in groups
        if batch.value
    ]
    n_tasks, decades = sum(not f.noise.empty for _, f in tasks), format_decimals(agreed.decades, 1)
    is_sure = agreed.n_pairs >= LEAST_PAIRS and agreed.decades >= LEAST_DECADES
    return Answer(
        text=f"The mean noise scale {'predicts' if predicts else 'does not predict'} the "
        f"critical batch: {_agreement_words(agreed)} Critical batches range from "
        f"{min(estimates)[1]} to {max(estimates)[1]}.",
        confidence=f"Confidence: {'high' if is_sure else 'medium'}; {agreed.n_pairs} pairs of "
        f"{n_tasks} tasks span {decades} decades.",
        color="good" if predicts else "warn",
    )


def _growth_table(tasks: Tasks) -> Table:
    courses = of_tasks(tasks, "courses")
    return tabulated(
        "Growth of the noise scale during training, first window to last",
        list(courses.groupby("where", sort=False)) if len(courses) else [],
        {"where": lambda row: str(row[0]), "growth": lambda row: batch_cell(growth(row[1]))},
    )


def _pairs_table(tasks: Tasks) -> Table:
    def cell(*columns: str) -> Callable[[Mapping[Hashable, Any]], str]:
        """A value with the ends of its interval."""
        return lambda row: batch_cell(_measure(*(row[column] for column in columns)))

    return tabulated(
        "Noise scales and critical batches",
        of_tasks(tasks, "noise").to_dict("records"),
        {
            "where": lambda row: str(row["where"]),
            "target": lambda row: _count(row["target"]),
            "mean noise scale": cell("noise_scale", "lower", "upper"),
            "critical batch": cell("b_crit", "b_lower", "b_upper"),
            "ratio": lambda row: _count(row["b_crit"] / row["noise_scale"]),
        },
    )


def _notes(tasks: Tasks) -> list[str]:
    """What could not be done, task by task."""
    notes = [f"{task}: {n}".removeprefix(": ") for task, f in tasks for n in f.notes]
    more = len(notes) - MOST_NOTES
    return notes[:MOST_NOTES] + ([f"{more} further notes."] if more > 0 else [])


def _measure(*numbers: float | None) -> Measure:
    value, *ends = (float(v) if v is not None and math.isfinite(v) else None for v in numbers)
    return Measure(value=value, ci=Interval(*ends))


def _count(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return format_quantity(value) if value == round(value) else format_quantity(value, digits=3)
