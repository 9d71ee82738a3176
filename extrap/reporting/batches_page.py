"""A batch study: its answer, tables and page as blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from extrap import batching as data
from extrap.batching import TaskResult
from extrap.records import BatchStudy, Interval, Measure
from extrap.records.codec import SCHEMA_VERSION, document, encode
from extrap.records.numbers import (
    NBSP,
    format_given,
    format_p_value,
    format_percent,
    format_quantity,
    over,
)
from extrap.reporting import batches_charts as charts
from extrap.reporting import critical_batches as critical
from extrap.reporting.batches_charts import of_tasks
from extrap.reporting.blocks import Block, Columns, Details, Figure, Page, Paragraph
from extrap.reporting.charts import Chart
from extrap.reporting.critical_batches import (
    Tasks,
    agreement_of,
    batch_cell,
    batches_answer,
    label,
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
CAPTIONS = {
    "Steps": "Bands: interval of the curve. Bars: fastest and slowest seed. Grey: diminishing "
    "returns at the lowest target.",
    "Trade-off": "The batch grows from the upper left to the lower right. Cross: critical batch. "
    "Dotted: interval.",
    "Best": "Bars: one standard error. ✗: rejected rule.",
    "Noise": "Bands: interval of each window.",
    "Critical": "Bars: interval of the critical batch.",
}
"""First word of a chart's title → how to read it."""
RULES = ("linear", "square-root", "constant", "saturating", "surge")
MOST_NOTES = 12


def batches_page(study: BatchStudy, findings: Sequence[TaskResult], about: About) -> Page:
    """The page as blocks."""
    tasks = critical.tasks_of(findings)
    fits, is_noise = _fits(tasks), _is_about_noise(tasks)
    main = _pairs_table(tasks) if is_noise else critical.critical_table(fits)
    shown = [*charts.steps_charts(tasks[:1])[-1:], *charts.rate_charts(tasks[:1])[:1]]
    if is_noise:
        shown = [*charts.pairs_chart(tasks), *charts.noise_charts(tasks)[:1]]
    figures = tuple(Figure(chart, CAPTIONS[chart.title.split()[0]]) for chart in shown)
    blocks: list[Block] = [
        batches_answer(findings),
        Columns(figures),
        *critical.flag_warnings(fits),
        main,
        *(part for part in _details(tasks, shown) if part.blocks),
    ]
    numbers = batches_document(study, findings)
    return study_page("batches", about, blocks, caveats=LIMITS, numbers=numbers)


def _fits(tasks: Tasks) -> critical.Fits:
    return [(task, found.critical) for task, found in tasks]


def _is_about_noise(tasks: Tasks) -> bool:
    return len(tasks) > 1 and critical.agreement_of([found for _, found in tasks]) is not None


def _details(tasks: Tasks, shown: Sequence[Chart]) -> Iterator[Details]:
    """The closed parts, without the charts that are shown above."""

    def part(title: str, drawn: Sequence[Chart], *blocks: Block | str) -> Details:
        rest = [chart for chart in drawn if chart not in shown]
        head = [CAPTIONS[chart.title.split()[0]] for chart in rest[:1]]
        made = [*head, *([Columns(tuple(map(Figure, rest)))] if rest else []), *blocks]
        full = [b for b in made if b and not (isinstance(b, Table) and not b.rows)]
        return Details(title, tuple(Paragraph(b) if isinstance(b, str) else b for b in full))

    findings, fits, is_noise = [found for _, found in tasks], _fits(tasks), _is_about_noise(tasks)
    agreed = critical.agreement_of(findings)
    yield part("Steps against batch size", charts.steps_charts(tasks))
    yield part("Trade-off of steps and examples", charts.trade_off_charts(tasks))
    yield part("Best learning rate", charts.rate_charts(tasks), _rates_table(tasks))
    rows = [] if agreed is None else [_numbers(agreed)]
    tables = [keyed_table("Agreement (ratio: critical batch over noise scale)", rows)]
    tables += [] if is_noise else [_pairs_table(tasks)]
    tables += [_growth_table(tasks)]
    noise = [*charts.noise_charts(tasks), *charts.pairs_chart(tasks)]
    yield part("Gradient noise scale", noise, *tables)
    tables = [critical.critical_table(fits)] if is_noise else []
    tables += [_laws_table(tasks), critical.fits_table(fits)]
    reasons = [f"No law{f' for {t}' if t else ''}: {c.reason}." for t, c in fits if c.reason]
    yield part("Laws and fits", (), *tables, *reasons)
    yield part("Runs and notes", (), _counts_table(tasks), *_notes(tasks))


def _laws_table(tasks: Tasks) -> Table:
    """Laws of critical batches and of best rates."""
    laws = []
    for task, found in tasks:
        laws += [(task, law) for law in found.critical.laws.values()]
        laws += [] if found.joint is None else [(task, found.joint)]
    return critical.laws_table(laws)


def _rates_table(tasks: Tasks) -> Table:
    """Exponents of the best rate and the rules compared with them."""
    words = {True: "holds", False: "rejected", None: "cannot tell"}
    rows = []
    for task, found in tasks:
        for key, law in sorted(found.rate_laws.items()):
            where = label(dict(zip(found.task.study.sizes, key, strict=True)), task)
            row = {"where": where, "optima": str(law.n), "exponent": power(law.exponent)}
            for rule in map(law.rule, RULES):
                p = format_p_value(rule.p_value)
                row[rule.name.replace("-", " ")] = over(words[rule.holds], f"p{NBSP}{p}")
            rows.append({**row, "bend, p": format_p_value(law.bend_p)})
    note = "A power rule holds if its exponent is not rejected and the rate does not bend; the "
    note += "curved rules (saturating, surge) if a parabola fits no better."
    return keyed_table("Best learning rate against batch size, and rules", rows, note=note)


def _growth_table(tasks: Tasks) -> Table:
    rows = []
    courses = of_tasks(tasks, "courses")
    for where, course in courses.groupby("where", sort=False) if len(courses) else ():
        known = course.dropna(subset="noise_scale")
        if len(known):
            first, last = (_count(known["noise_scale"].iloc[i]) for i in (0, -1))
            row = {"where": str(where), "at batch": _count(course["batch_size"].iloc[0])}
            row |= {"first window": first, "last window": last}
            rows.append({**row, "growth": batch_cell(data.growth(course))})
    return keyed_table("Growth of the noise scale during training", rows)


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


def _counts_table(tasks: Tasks) -> Table:
    """How many runs and batches reached each target, and how many could not be used."""
    rows = []
    for _, found in tasks:
        for target, part in found.tuned.groupby("target", sort=False):
            names = ("reached", "censored", "infeasible")
            numbers = {f"runs {name}": part[f"n_{name}"].sum() for name in names}
            numbers |= {f"batches {name}": (part["status"] == name).sum() for name in names}
            numbers |= {"runs": part["n_runs"].sum(), "rates at an edge": part["at_edge"].sum()}
            row = {"task": found.task.study.name, "target": format_given(target)}
            rows.append({**row, **{name: str(int(n)) for name, n in numbers.items()}})
    note = "Censored: not reached within the steps of a run. Infeasible: diverged or failed."
    return keyed_table("Runs and batch sizes", rows, note=note)


def _notes(tasks: Tasks) -> list[str]:
    """What could not be done, task by task; then why an edge of a grid matters."""
    notes = [f"{task}: {n}".removeprefix(": ") for task, f in tasks for n in f.notes]
    shown, more = notes[:MOST_NOTES], len(notes) - MOST_NOTES
    shown += [f"{more} further notes."] if more > 0 else []
    edge = "A better learning rate may lie beyond the edge of a grid: the law of the rate leaves "
    edge += "these batches out. Raise growth= or widen the range of lr, and resume."
    return [*shown, edge] if any("at the edge" in note for note in notes) else shown


def _numbers(record: data.Agreement) -> dict[str, str]:
    """The fields of a record as cells of a table."""
    cells: dict[str, str] = {}
    for field in fields(record):
        value, name = getattr(record, field.name), field.name.removeprefix("n_").replace("_", " ")
        if isinstance(value, Measure):
            cells[name] = power(value)
        elif value is None:
            cells[name] = "unknown"
        else:
            is_count = value.__class__ is not float
            cells[name] = str(value) if is_count else format_quantity(value, digits=3)
    return cells


def _measure(*numbers: float | None) -> Measure:
    value, *ends = (float(v) if v is not None and math.isfinite(v) else None for v in numbers)
    return Measure(value=value, ci=Interval(*ends))


def _count(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return format_quantity(value) if value == round(value) else format_quantity(value, digits=3)


def _percent(fraction: float) -> str:
    return format_percent(fraction, signed=False)


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
        "rates": [
            {"size": dict(zip(names, key, strict=True)), **encode(law)}
            for key, law in sorted(result.rate_laws.items())
        ],
        "joint_rate_law": result.joint
        and {
            "coefficient": result.joint.coefficient,
            "exponents": result.joint.exponents,
            "log_sd": result.joint.log_sd,
            "n": result.joint.n_groups,
        },
        "noise": result.noise,
        "courses": result.courses,
        "growth": [
            {"size": dict(zip(names, map(float, key), strict=True)), **encode(data.growth(course))}
            for key, course in courses
        ],
        "notes": result.notes,
    }
