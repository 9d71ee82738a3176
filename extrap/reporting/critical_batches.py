"""Critical batch sizes: the answer and tables that the command and the page of a study share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from extrap.analyses.batch_size import (
    FLAGS,
    BatchGroup,
    BatchLaw,
    BatchPrediction,
    CriticalBatches,
    SizeForecast,
)
from extrap.records import Interval, Measure
from extrap.records.intervals import NOWHERE
from extrap.records.numbers import (
    NBSP,
    TableCell,
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
from extrap.reporting.blocks import Answer, Block, Details, Paragraph, Warnings
from extrap.reporting.glossary import confidence, explain_flag
from extrap.reporting.tables import Table, tabulated

Fits = Sequence[tuple[str, CriticalBatches]]
"""Tasks with their critical batches; the name of a task is empty where there is but one."""
LAWS = {
    "b_crit": "critical batch",
    "b_overhead": "batch at the overhead",
    "s_min": "fewest steps",
    "lr": "best learning rate",
}
LOSSES = ("target", "target_loss")
"""Columns of which the lowest value leads."""
GRAVE = ("perfect-only", "flat-only", "lack-of-fit", "steps-rise")
"""Flags that make the confidence low."""
WIDE = 3.0
"""Ratio of the ends of an interval above which each number has two digits."""
FAR = 4.0
"""Extrapolation ratio above which the confidence of a forecast is low."""
MOST_PLACES = 3


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


def critical_answer(found: CriticalBatches, forecasts: Sequence[SizeForecast] = ()) -> Answer:
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
    overhead = format_level(found.overhead)
    texts = [
        f"At {label(each.by)} expect a critical batch of "
        f"{counted(each.b_crit, found.level)}; examples stay within "
        f"{overhead} of linear scaling up to {counted(each.b_overhead)}."
        for each in forecasts
    ]
    useful: str = counted(group.maximal_start)
    if (group.maximal_start.value or 0.0) > group.batches[-1]:
        useful = f"{useful.removesuffix(')')}, beyond the batches measured)"
    texts = texts or [
        f"{where} critical batch is {counted(group.b_crit, found.level)} and the largest "
        f"useful batch {useful}: from there a doubling saves less than 10{NBSP}% of the steps. "
        f"Examples stay within {overhead} of linear scaling from {_four(group.from_batch)} up to "
        f"a batch of {counted(group.b_overhead)}."
    ]
    kind = "forecast" if forecasts else "on"
    return Answer(text=" ".join(texts), confidence=_confidence(found, group, forecasts), kind=kind)


def _confidence(
    found: CriticalBatches, group: BatchGroup, forecasts: Sequence[SizeForecast]
) -> str:
    if forecasts and not found.laws["b_crit"].dof:
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


def critical_table(fits: Fits) -> Table:
    """Critical batches, the limits of steps and examples, and how well they are measured."""
    return tabulated(
        f"Critical batch sizes ({format_level(fits[0][1].level)} intervals)",
        [(task, group) for task, found in fits for group in found.groups],
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
            "law of": lambda row: LAWS[row[1].of] + (f" ({row[0]})" if row[0] else ""),
            "goes as": lambda row: " · ".join(
                f"{c}^{power(p)}" for c, p in row[1].exponents.items()
            ),
            "value": lambda row: over(counted(row[1].value), f"at {label(_reference(row[1]))}"),
            "scatter": lambda row: format_percent(row[1].log_sd, signed=False),
            "fits": lambda row: str(row[1].n_groups),
            "warnings": lambda row: ", ".join(row[1].flags) or "–",
        },
        note="As many fits as parameters: no intervals; add a group." if is_open else "",
    )


def _reference(law: BatchLaw) -> dict[str, str | float]:
    return {column: rounded(x, 3) for column, x in law.reference.items()}


def flag_warnings(fits: Fits, laws: Iterable[tuple[str, BatchLaw]] = ()) -> list[Warnings]:
    """Each flag that a group or a law of the best rate carries, with where."""
    places = [
        (label(g.by, task), "batches", g.flags) for task, found in fits for g in found.groups
    ]
    places += [(task or "learning rate", "forecast", law.flags) for task, law in laws]
    items = []
    for flag in dict.fromkeys([*FLAGS, *(flag for *_, flags in places for flag in flags)]):
        if seen := [(where, of) for where, of, flags in places if flag in flags]:
            more = f" and {len(seen) - MOST_PLACES} more" if len(seen) > MOST_PLACES else ""
            where = "; ".join(where for where, _ in seen[:MOST_PLACES]) + more
            items.append(replace(explain_flag(flag, of=seen[0][1]), detail=where))
    return [Warnings(tuple(items))] if items else []


def critical_blocks(found: CriticalBatches, forecasts: Sequence[SizeForecast] = ()) -> list[Block]:
    """What `extrap critical-batch` prints."""
    fits = [("", found)]
    blocks: list[Block] = [critical_answer(found, forecasts), *flag_warnings(fits)]
    if forecasts:
        table = tabulated(
            f"Forecasts ({format_level(found.level)} prediction intervals)",
            forecasts,
            {
                "where": lambda each: label(each.by),
                "critical batch": lambda each: batch_cell(each.b_crit),
                f"{format_level(found.overhead)} overhead at": lambda each: batch_cell(
                    each.b_overhead
                ),
                "fewest steps": lambda each: batch_cell(each.s_min),
                "extrapolation ratio": lambda each: format_factor(each.extrapolation_ratio),
            },
        )
        blocks.append(table)
    laws: list[Block] = [laws_table(("", law) for law in found.laws.values())]
    if not found.laws and len(found.groups) > 1:
        laws = [Paragraph(f"No law over groups: {found.reason}.")]
    notes = (Paragraph(f"Note: {note}.") for note in found.notes)
    return [*blocks, critical_table(fits), Details("Laws over groups", [*laws, *notes])]


def _four(value: float) -> str:
    return format_quantity(value, digits=4)
