"""Critical batch sizes and batch studies: answers, and what the command and the page share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from extrap import batching as data
from extrap.batching import (
    BatchGroup,
    BatchLaw,
    BatchPrediction,
    CriticalBatches,
    TaskResult,
)
from extrap.batching import SizeForecast as Sized
from extrap.records import Interval, Measure
from extrap.records.intervals import NOWHERE
from extrap.records.numbers import (
    NBSP,
    TableCell,
    beside,
    format_decimals,
    format_factor,
    format_given,
    format_interval,
    format_level,
    format_percent,
    format_quantity,
    over,
    rounded,
    stacked,
)
from extrap.reporting.blocks import Answer, Block, Paragraph, Warnings
from extrap.reporting.glossary import confidence, explain_flag
from extrap.reporting.tables import Table, keyed_table, tabulated

Fits = Sequence[tuple[str, CriticalBatches]]
"""Tasks with their critical batches; the name of a task is empty where there is but one."""
Tasks = Sequence[tuple[str, TaskResult]]
"""What each task found, likewise."""
LAWS = {"b_crit": "critical batch", "s_min": "fewest steps", "lr_opt": "best learning rate"}
LOSSES = ("target", "target_loss")
"""Columns of which the lowest value leads."""
GRAVE = ("perfect-only", "flat-only", "lack-of-fit", "steps-rise")
"""Flags that make the confidence low."""
WIDE = 3.0
"""Ratio of the ends of an interval above which each number has two digits."""
FAR = 4.0
"""Extrapolation ratio above which the confidence of a forecast is low."""
MOST_PLACES = 3
MOSTLY = 0.9
"""Share of pairs within the factor from which the noise scale counts as a prediction."""
MANY, DECADES = 10, 2.0
"""Pairs, and decades of the noise scale, from which the confidence is high."""


def counted(measure: Measure | BatchPrediction, level: float | None = None) -> TableCell:
    """An estimate with its interval, rounded: `410 (350 to 480)`; of a forecast `pi`."""
    return beside(batch_cell(measure), level)


def _rounded(value: float, interval: Interval) -> TableCell:
    """To the digit that the width of a narrow interval decides, else to two digits."""
    lower, upper = interval
    if lower and upper and lower < upper < WIDE * lower:
        return format_quantity(round(value, 1 - math.floor(math.log10(upper - lower))))
    return format_quantity(value, digits=2)


def batch_cell(measure: Measure | BatchPrediction) -> TableCell:
    """The same for a table: the interval below the value."""
    sides = measure.pi if isinstance(measure, BatchPrediction) else measure.ci
    words = format_interval(sides, lambda side: _rounded(side, sides))
    if measure.value is None:
        return words
    return over(_rounded(measure.value, sides), "interval open" if sides == NOWHERE else words)


def power(exponent: Measure) -> TableCell:
    """An exponent with its interval: `0.45 (0.38 to 0.52)`."""
    lower, upper = exponent.ci
    if lower is None or upper is None:
        return format_decimals(exponent.value, 2)
    write = partial(format_decimals, decimals=3 if upper - lower < 0.02 else 2)
    return beside(stacked(exponent.value, exponent.ci, write))


def label(by: Mapping[str, float | str], task: str = "") -> str:
    """Where something was measured: `bytes, width 64, loss 2.3`."""
    parts = (f"{k}{NBSP}{v if isinstance(v, str) else format_quantity(v)}" for k, v in by.items())
    return ", ".join(filter(None, [task, *parts]))


def _place(group: BatchGroup) -> tuple[list[float], list[float]]:
    """Orders groups by their sizes, then by how low the target is."""
    known = {name: float(v) for name, v in group.by.items() if not isinstance(v, str)}
    sizes = [v for name, v in known.items() if name not in LOSSES]
    return sizes, [-v for name, v in known.items() if name in LOSSES]


def critical_answer(found: CriticalBatches, forecasts: Sequence[Sized] = ()) -> Answer:
    """The critical and the largest useful batch of the leading group, or the forecasts."""
    with_value = [group for group in found.groups if group.b_crit.value is not None]
    group = max(with_value or found.groups, key=_place)
    where = f"At {label(group.by)} the" if group.by else "The"
    if not with_value:
        return Answer(
            text=f"{where} critical batch is {counted(group.b_crit)}: no estimate is possible.",
            confidence="Confidence: low; the measurements do not bound it on both sides.",
            kind="none",
        )
    useful: str = counted(group.regimes.maximal_start)
    if "maximal-not-seen" in group.flags:
        useful = f"{useful.removesuffix(')')}, beyond the batches measured)"
    texts = [
        f"At {label(each.by)} expect a critical batch of "
        f"{counted(each.b_crit, found.level)}; examples stay within "
        f"{format_level(found.overhead)} of linear scaling up to {counted(each.b_overhead)}."
        for each in forecasts
    ]
    texts = texts or [
        f"{where} critical batch is {counted(group.b_crit, found.level)} and the largest "
        f"useful batch {useful}: from there a doubling saves less than 10{NBSP}% of the steps."
    ]
    return Answer(
        text=" ".join(texts),
        confidence=_confidence(group, forecasts),
        kind="forecast" if forecasts else "on",
    )


def _confidence(group: BatchGroup, forecasts: Sequence[Sized]) -> str:
    if any(each.quantile is None for each in forecasts):
        return "Confidence: low; there are as many groups as parameters of the law."
    ratio = max((each.extrapolation_ratio for each in forecasts), default=1.0)
    if ratio > FAR:
        times = format_quantity(ratio, digits=3)
        return f"Confidence: low; this is {times} times the largest value measured."
    lower, upper = group.b_crit.ci
    certain = f"high; no warnings, {len(group.batches)} batch sizes reached the target."
    if not lower or not upper or upper > WIDE * lower:
        certain = "medium; the interval of the critical batch is wide."
    return confidence(group.flags, of="batches", grave=GRAVE, otherwise=f"Confidence: {certain}")


def tasks_of(findings: Sequence[TaskResult]) -> Tasks:
    """The findings with the names of their tasks."""
    several = len(findings) > 1
    return [(found.task.study.name if several else "", found) for found in findings]


def agreement_of(findings: Sequence[TaskResult]) -> data.Agreement | None:
    """Mean noise scales against critical batches over all tasks, sizes and targets."""
    tables = [f.noise for f in findings if not f.noise.empty]
    return data.agreement(pd.concat(tables, ignore_index=True)) if tables else None


def batches_answer(findings: Sequence[TaskResult]) -> Answer:
    """How large a batch is useful, and at which rate; of several tasks whether noise tells it."""
    agreed, first = agreement_of(findings), findings[0]
    if len(findings) > 1 and agreed is not None:
        return _agreement_answer(tasks_of(findings), agreed)
    answer, laws = critical_answer(first.critical), first.rate_laws
    text, confidence, joint = answer.text, answer.confidence, first.joint
    if joint is not None or laws:
        p = laws[max(laws)].exponent if joint is None else joint.exponents["batch_size"]
        text += f" The best learning rate goes as batch^{power(p)}."
    return replace(answer, text=text, confidence=confidence)


def _agreement_answer(tasks: Tasks, found: data.Agreement) -> Answer:
    predicts = found.share_within >= MOSTLY
    groups = [(g.b_crit, label(g.by, task)) for task, f in tasks for g in f.critical.groups]
    known = [(batch.value, f"{counted(batch)} for {at}") for batch, at in groups if batch.value]
    is_sure = found.n_pairs >= MANY and found.decades >= DECADES
    factor = format_given(found.factor)
    worst, ratio = (format_quantity(x, digits=2) for x in (found.largest_factor, found.ratio))
    return Answer(
        text=f"The mean noise scale {'predicts' if predicts else 'does not predict'} the "
        f"critical batch: {round(found.share_within * found.n_pairs)} of {found.n_pairs} pairs "
        f"agree within a factor of {factor} (the worst differ by {worst}), and the critical batch "
        f"is {ratio} times the noise scale on average. Critical batches range from "
        f"{min(known)[1]} to {max(known)[1]}.",
        confidence=f"Confidence: {'high' if is_sure else 'medium'}; {found.n_pairs} pairs of "
        f"{len(tasks)} tasks span {format_decimals(found.decades, 1)} decades.",
        kind="on" if predicts else "mixed",
    )


def critical_table(fits: Fits) -> Table:
    """Critical batches and the ends of perfect and of useful scaling, one row per fit."""
    found = fits[0][1]
    overhead = format_level(found.overhead)
    return tabulated(
        f"Critical batch sizes ({format_level(found.level)} intervals)",
        _groups(fits),
        {
            "where": lambda row: label(row[1].by, row[0]) or "all rows",
            "critical batch": lambda row: batch_cell(row[1].b_crit),
            "largest useful": lambda row: batch_cell(row[1].regimes.maximal_start),
            "perfect scaling to": lambda row: batch_cell(row[1].regimes.perfect_end),
            f"{overhead} overhead at": lambda row: batch_cell(row[1].b_overhead),
            "fewest steps": lambda row: batch_cell(row[1].s_min),
            "fewest examples": lambda row: batch_cell(row[1].e_min),
        },
        note="Steps = fewest steps · (1 + critical batch / batch). Perfect scaling: examples stay "
        f"within 20{NBSP}% of the fewest.",
    )


def fits_table(fits: Fits) -> Table:
    """How well each hyperbola is measured."""
    return tabulated(
        "Quality of the fits",
        _groups(fits),
        {
            "where": lambda row: label(row[1].by, row[0]) or "all rows",
            "batches": lambda row: " to ".join(_four(row[1].points[i].batch) for i in (0, -1)),
            "sd of ln steps": lambda row: format_decimals(row[1].log_sd, 3),
            "overhead from": lambda row: _four(row[1].from_batch),
            "warnings": lambda row: ", ".join(row[1].flags) or "–",
        },
    )


def laws_table(laws: Sequence[tuple[str, BatchLaw]]) -> Table:
    """Power laws over the columns that set fits apart."""
    rows: list[dict[str, str]] = []
    for task, law in laws:
        at = {c: rounded(x, 3) for c, x in zip(law.columns, law.reference, strict=True)}
        name = LAWS.get(law.of, "batch at the overhead")
        rows.append(
            {
                "law of": f"{name} ({task})" if task else name,
                "goes as": " · ".join(f"{c}^{power(p)}" for c, p in law.exponents.items()),
                "value": over(counted(law.intercept.map(math.exp)), f"at {label(at)}"),
                "at 1 of every column": batch_cell(law.coefficient),
                "scatter": format_percent(law.log_sd, signed=False),
                "fits": str(law.n_groups),
            }
        )
    is_open = any(law.dof < 1 for _, law in laws)
    note = "As many fits as parameters: no intervals; add a group." if is_open else ""
    return keyed_table("Power laws", rows, note=note)


def _groups(fits: Fits) -> list[tuple[str, BatchGroup]]:
    return [(task, group) for task, found in fits for group in found.groups]


def flag_warnings(fits: Fits) -> list[Warnings]:
    """Each flag that a group carries, with where."""
    groups = [(label(group.by, task), group.flags) for task, group in _groups(fits)]
    items = []
    for flag in data.FLAGS:
        if seen := [where for where, flags in groups if flag in flags]:
            more = f" and {len(seen) - MOST_PLACES} more" if len(seen) > MOST_PLACES else ""
            where = "; ".join(seen[:MOST_PLACES]) + more
            items.append(replace(explain_flag(flag, of="batches"), detail=where))
    return [Warnings(tuple(items))] if items else []


def critical_blocks(found: CriticalBatches, forecasts: Sequence[Sized] = ()) -> list[Block]:
    """What `extrap critical-batch` prints."""
    fits, overhead = [("", found)], format_level(found.overhead)
    table = tabulated(
        f"Forecasts ({format_level(found.level)} prediction intervals)",
        forecasts,
        {
            "where": lambda each: label(each.by),
            "critical batch": lambda each: batch_cell(each.b_crit),
            f"{overhead} overhead at": lambda each: batch_cell(each.b_overhead),
            "fewest steps": lambda each: batch_cell(each.s_min),
            "extrapolation ratio": lambda each: format_factor(each.extrapolation_ratio),
        },
    )
    blocks: list[Block] = [critical_answer(found, forecasts), *flag_warnings(fits)]
    blocks += [table] if forecasts else []
    blocks.append(critical_table(fits))
    if found.laws:
        blocks.append(laws_table([("", law) for law in found.laws.values()]))
    elif len(found.groups) > 1:
        blocks.append(Paragraph(f"No law over groups: {found.reason}."))
    return [*blocks, fits_table(fits), *(Paragraph(f"Note: {note}.") for note in found.notes)]


def _four(value: float | None) -> str:
    return "–" if value is None else format_quantity(value, digits=4)
