"""A batch study: its answer, tables and page as blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from extrap.analyses.batch_size import Agreement, TaskResult, agreement, growth
from extrap.records import BatchStudy, Interval, Measure
from extrap.records.codec import SCHEMA_VERSION, document, encode
from extrap.records.numbers import NBSP, format_decimals, format_quantity
from extrap.reporting import batches_charts as charts
from extrap.reporting.batches_charts import Tasks, of_tasks
from extrap.reporting.blocks import Answer, Block, Columns, Details, Figure, Page, Paragraph
from extrap.reporting.critical_batches import (
    batch_cell,
    counted,
    critical_answer,
    critical_table,
    flag_warnings,
    label,
    laws_table,
    power,
)
from extrap.reporting.study_page import About, study_page
from extrap.reporting.tables import Table, keyed_table

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
MANY, DECADES = 10, 2.0
"""Pairs, and decades of the noise scale, from which the confidence is high."""
MOST_NOTES = 12


def batches_page(study: BatchStudy, findings: Sequence[TaskResult], about: About) -> Page:
    """The page as blocks: answer, two figures, warnings, the main table; the rest is closed."""
    tasks, agreed = tasks_of(findings), agreement_of(findings)
    fits = [(task, found.critical) for task, found in tasks]
    rates = [(task, found.rate_law) for task, found in tasks if found.rate_law is not None]
    laws = [(task, law) for task, found in tasks for law in found.critical.laws.values()]
    reasons = [f"No law{f' for {t}' if t else ''}: {c.reason}." for t, c in fits if c.reason]
    steps, trade_offs = (
        charts.steps_figures(tasks, is_trade_off=is_it) for is_it in (False, True)
    )
    noise, pairs = charts.noise_figures(tasks), charts.pairs_figure(tasks)
    is_noise = len(tasks) > 1 and agreed is not None
    shown = [*pairs, *noise[:1]] if is_noise else [*steps[-1:], *trade_offs[-1:]]
    main, other = critical_table(fits), _pairs_table(tasks)

    def part(title: str, figures: Sequence[Figure], *blocks: Block | str) -> Iterator[Details]:
        """A closed part, without the figures above and without tables that have no rows."""
        rest = tuple(figure for figure in figures if figure not in shown)
        made = [Paragraph(block) if isinstance(block, str) else block for block in blocks]
        full = [b for b in made if not isinstance(b, Table) or b.rows]
        if rest or full:
            yield Details(title, ([Columns(rest)] if rest else []) + full)

    blocks: list[Block] = [
        batches_answer(findings),
        Columns(tuple(shown)),
        *flag_warnings(fits, rates),
        *((other, main) if is_noise else (main,)),
        laws_table([*laws, *rates]),
        *part("Steps against batch size", steps, *reasons),
        *part("Steps against examples", trade_offs),
        *part("Best learning rate", charts.rate_figures(tasks)),
        *part(
            "Gradient noise scale",
            [*noise, *pairs],
            _growth_table(tasks),
            *([] if is_noise else [other]),
            *([] if agreed is None else [_agreement_words(agreed)]),
        ),
        *part("Notes", (), *_notes(tasks)),
    ]
    numbers = batches_document(study, findings)
    return study_page("batches", about, blocks, caveats=LIMITS, numbers=numbers)


def tasks_of(findings: Sequence[TaskResult]) -> Tasks:
    """The findings with the names of their tasks, empty where there is but one."""
    several = len(findings) > 1
    return [(found.task.study.name if several else "", found) for found in findings]


def agreement_of(findings: Sequence[TaskResult]) -> Agreement | None:
    """Mean noise scales against critical batches over all tasks, sizes and targets."""
    tables = [f.noise for f in findings if not f.noise.empty]
    return agreement(pd.concat(tables, ignore_index=True)) if tables else None


def batches_answer(findings: Sequence[TaskResult]) -> Answer:
    """How large a batch is useful, and at which rate; of several tasks whether noise tells it."""
    agreed, first = agreement_of(findings), findings[0]
    if len(findings) > 1 and agreed is not None:
        return _agreement_answer(tasks_of(findings), agreed)
    answer, law = critical_answer(first.critical), first.rate_law
    if law is None or "batch_size" not in law.exponents:
        return answer
    rate = f" The best learning rate goes as batch^{power(law.exponents['batch_size'])}."
    return replace(answer, text=answer.text + rate)


def _agreement_words(found: Agreement) -> str:
    square = "unknown" if found.r_squared is None else format_decimals(found.r_squared, 2)
    worst, ratio = (format_quantity(x, digits=2) for x in (found.largest_factor, found.ratio))
    return (
        f"{found.n_within} of {found.n_pairs} pairs agree within a factor of 10 (the worst differ "
        f"by {worst}), and the critical batch is {ratio} times the noise scale on average; r² of "
        f"the logarithms is {square}."
    )


def _agreement_answer(tasks: Tasks, found: Agreement) -> Answer:
    predicts = found.n_within >= MOSTLY * found.n_pairs
    groups = [(g.b_crit, label(g.by, task)) for task, f in tasks for g in f.critical.groups]
    known = [(batch.value, f"{counted(batch)} for {at}") for batch, at in groups if batch.value]
    is_sure = found.n_pairs >= MANY and found.decades >= DECADES
    return Answer(
        text=f"The mean noise scale {'predicts' if predicts else 'does not predict'} the "
        f"critical batch: {_agreement_words(found)} Critical batches range from "
        f"{min(known)[1]} to {max(known)[1]}.",
        confidence=f"Confidence: {'high' if is_sure else 'medium'}; {found.n_pairs} pairs of "
        f"{len(tasks)} tasks span {format_decimals(found.decades, 1)} decades.",
        kind="on" if predicts else "mixed",
    )


def _growth_table(tasks: Tasks) -> Table:
    courses = of_tasks(tasks, "courses")
    by_place = courses.groupby("where", sort=False) if len(courses) else ()
    return keyed_table(
        "Growth of the noise scale during training, first window to last",
        [{"where": str(at), "growth": batch_cell(growth(course))} for at, course in by_place],
    )


def _pairs_table(tasks: Tasks) -> Table:
    rows = [
        {
            "where": str(row["where"]),
            "target": _count(row["target"]),
            "mean noise scale": batch_cell(
                _measure(row["noise_scale"], row["lower"], row["upper"])
            ),
            "critical batch": batch_cell(_measure(row["b_crit"], row["b_lower"], row["b_upper"])),
            "ratio": _count(row["b_crit"] / row["noise_scale"]),
        }
        for row in of_tasks(tasks, "noise").to_dict("records")
    ]
    return keyed_table("Noise scales and critical batches", rows)


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


def batches_document(study: BatchStudy, findings: Sequence[TaskResult]) -> dict[str, Any]:
    """The findings as a JSON document; a number that is open or missing is null."""
    return encode(
        {
            "kind": "extrap-batches",
            "schema_version": SCHEMA_VERSION,
            "name": study.name,
            "question": study.question,
            "level": study.level,
            "overhead": study.overhead,
            "answer": batches_answer(findings).text.replace(NBSP, " "),
            "agreement": agreement_of(findings),
            "tasks": [_task_document(found) for found in findings],
        }
    )


def _task_document(result: TaskResult) -> dict[str, Any]:
    task, names = result.task, list(result.task.study.sizes)
    courses = result.courses.groupby(names) if len(result.courses) else ()
    return {
        "name": task.study.name,
        "workload": task.study.workload.name,
        "targets": task.targets,
        "batches": task.batches,
        "critical": document(result.critical),
        "rate_law": result.rate_law,
        "noise": result.noise,
        "courses": result.courses,
        "growth": [
            {"size": dict(zip(names, map(float, key), strict=True)), **encode(growth(course))}
            for key, course in courses
        ],
        "notes": result.notes,
    }
